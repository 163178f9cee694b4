"""``autotune adaptive`` and ``export --adaptive``: steps that follow the batch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import optuna
import pytest
import yaml

from autotune.cli.documents import schema_of
from autotune.cli.main import run
from autotune.core.adaptive import Tier
from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.trial import TrialRecord
from autotune.study.adaptation import MARK, AdaptivePlan
from autotune.study.config import RunConfig, to_yaml
from autotune.study.store import StudyStore

from ..core.samples import chain, exactly, phase
from ..json_schema import problems
from ..report.studies import COMMAND
from .commands import autotune, complaint, no_server_left, records, serve_words

Rates = Mapping[int, tuple[float, float]]
"""Steps to seconds of a turn at C=1 and to tokens per second at C=16."""
CROSSING: Rates = {2: (1.3, 1000.0), 4: (0.9, 700.0)}
PLAIN: Rates = {2: (1.3, 700.0), 4: (0.9, 1000.0)}
TIERS = (Tier(1, 4), Tier(5, 2))


def launch(number: int, steps: int, turn_s: float, tok_s: float, **more: Any) -> TrialRecord:  # noqa: ANN401
    found = TrialRecord(
        number=number,
        status="complete",
        flags=chain(steps),
        effective={"max_running_requests": 48, "model_path": "acme/model"},
        phases=[
            phase("latency", 1, turn_s=turn_s, tok_s=250 / turn_s),
            phase("serving", 16, tok_s=tok_s),
        ],
        objectives={LATENCY: exactly(turn_s, 0.01), THROUGHPUT: exactly(tok_s, 0.01)},
        timings={"launch_s": 60.0, "wall_s": 100.0},
        machine={"gpu": "Some GPU", "n_gpus": 2},
        versions={"sglang": "0.5.23"},
        role="search" if number else "baseline",
    )
    return msgspec.structs.replace(found, **more)


def keep(
    folder: Path, rates: Rates, command: Sequence[str] = COMMAND, engine: str = "sglang"
) -> tuple[StudyStore, optuna.Study]:
    """A study of these chains on disk, the first one the baseline."""
    store = StudyStore("s", root=folder / "studies")
    study = store.create(optuna.samplers.RandomSampler())
    config = replace(
        RunConfig(), command=tuple(command), study="s", engine=engine, space="steps-only",
        serving_concurrency=(16,), confirm=0,
    )  # fmt: skip
    (store.directory / "study.yaml").write_text(to_yaml(config))
    for number, (steps, (turn_s, tok_s)) in enumerate(rates.items()):
        store.tell(study, study.ask(), launch(number, steps, turn_s, tok_s))
    return store, study


def keep_launch(store: StudyStore, study: optuna.Study, turn_s: float, tok_s: float) -> None:
    """An adaptive launch of the table that ``CROSSING`` suggests."""
    trial = study.ask()
    trial.set_user_attr(MARK, msgspec.to_builtins(AdaptivePlan(static(study), TIERS)))
    store.tell(study, trial, launch(trial.number, 2, turn_s, tok_s, role="adaptive"))


def static(study: optuna.Study) -> int:
    """The better of the two chains of ``CROSSING`` for the agentic objective."""
    assert len(study.trials) >= 2
    return 1


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- a real launch ------------------------------------------------------------------------------


def test_one_launch_runs_the_steps_that_each_load_wants(tmp_path: Path) -> None:
    """The records are made up, so that the steps differ; launch, server and load are real."""
    words = serve_words("--max-running-requests", "48")
    words[words.index("qwen3.5-122b-sweep")] = "dense-8b-chat"
    keep(tmp_path, CROSSING, words, engine="simulated")
    before = json.loads(autotune("pareto", "--json", cwd=tmp_path).stdout)
    done = autotune("adaptive", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 steps · from 5 requests in the batch on: 2 steps" in done.stdout
    assert re.search(r"C=16 .* worse|C=16 .* better|C=16 .* within the noise", done.stdout)
    assert no_server_left(tmp_path)

    record = records(tmp_path)[-1]
    assert record["role"] == "adaptive" and record["status"] == "complete"
    deep, shallow = (p["accept_length"] for p in record["phases"])
    assert deep > shallow + 0.1, "four steps for one request, two for sixteen"
    deeper = [sum(p["accept_histogram"][3:]) for p in record["phases"]]
    # On a busy machine sixteen requests are not always sixteen in the batch.
    assert deeper[0] > 0.2 and deeper[1] < 0.5 * deeper[0], "deep drafts are for one request"

    assert json.loads(autotune("pareto", "--json", cwd=tmp_path).stdout) == before
    shown = autotune("show", cwd=tmp_path).stdout
    assert "Adaptive 4 steps" in shown and "fixed, trial 1" in shown
    whole = json.loads(autotune("show", "--json", cwd=tmp_path).stdout)
    assert problems(whole, schema_of("show")) == [] and len(whole["adaptive_launches"]) == 1
    again = json.loads(autotune("adaptive", "--json", cwd=tmp_path).stdout)
    assert not list(problems(again, schema_of("adaptive")))
    assert again["launched"]["trials"] == [2], "a launch made before counts"
    assert [load["load"] for load in again["launched"]["loads"]] == ["C=1", "C=16"]


# ---- what is suggested --------------------------------------------------------------------------


def test_a_dry_run_says_which_steps_each_load_wants(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = serve_words()
    keep(here, CROSSING, words, engine="simulated")
    assert run(["adaptive", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"C=1 +1\.300 s ± \S+ % +0\.900 s ± \S+ % \*", said)
    assert re.search(r"C=16 +1,000 tok/s ± \S+ % \* +700 tok/s", said)
    assert "Table    4 steps · from 5 requests in the batch on: 2 steps" in said
    assert len(records(here)) == 2, "nothing was launched"


@pytest.mark.parametrize(
    ("rates", "why"),
    [
        (PLAIN, "4 steps are best, or as good as the best, at C=1 and C=16: fixed steps do"),
        ({3: (1.0, 900.0)}, "the study has fewer"),
    ],
)
def test_where_one_number_of_steps_does_fixed_flags_are_exported(
    here: Path, capsys: pytest.CaptureFixture[str], rates: Rates, why: str
) -> None:
    keep(here, rates)
    assert run(["export", "--adaptive", "--format", "flags"]) == 0
    said = capsys.readouterr()
    assert "--speculative-adaptive" not in said.out and "--speculative-num-steps" in said.out
    assert said.err.startswith("fixed steps, not adaptive: ") and why in said.err


# ---- the export ---------------------------------------------------------------------------------


def exported(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    assert run(["export", "--adaptive", *words]) == code
    said = capsys.readouterr()
    return said.out, said.err


def test_the_command_refers_to_the_file_that_is_written(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(here, CROSSING)
    out, err = exported(capsys)
    path = here / "studies" / "s" / "adaptive.json"
    assert f"--speculative-adaptive-config {path}" in out and "--speculative-adaptive " in out
    assert "--speculative-num-steps 2" in out and "--speculative-num-draft-tokens 3" in out
    assert json.loads(path.read_text()) == {
        "1": {"candidate_steps": [4]}, "5": {"candidate_steps": [2]},
    }  # fmt: skip
    assert "# ADAPTIVE: 4 steps · from 5 requests in the batch on: 2 steps" in out
    assert "# adaptive steps: not launched yet" in out
    assert "these steps were not launched: autotune adaptive --study s does, once" in err


def test_with_an_output_the_file_lies_beside_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(here, CROSSING)
    exported(capsys, "-o", "serve.sh")
    assert str(here / "serve.adaptive.json") in (here / "serve.sh").read_text()
    assert json.loads((here / "serve.adaptive.json").read_text())["1"]
    document = json.loads(exported(capsys, "--format", "json")[0])
    assert json.loads(document["file"]["text"]) and document["flags"]["speculative_adaptive"]


@pytest.mark.parametrize(
    ("release", "table"),
    [
        ("0.5.12", {"candidate_steps": [2, 4]}),
        ("0.5.13", {"1": {"candidate_steps": [4]}, "5": {"candidate_steps": [2]}}),
    ],
)
def test_an_older_release_gets_the_file_that_it_takes(
    here: Path, capsys: pytest.CaptureFixture[str], release: str, table: object
) -> None:
    keep(here, CROSSING)
    _, err = exported(capsys, "--sglang", release)
    written = here / "studies" / "s" / f"adaptive-{release}.json"
    assert json.loads(written.read_text()) == table
    assert ("acceptance alone chooses" in err) == (release == "0.5.12")


def test_a_release_that_cannot_adapt_gets_fixed_steps(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(here, CROSSING)
    out, err = exported(capsys, "--sglang", "0.5.10")
    assert "--speculative-adaptive" not in out and "came with SGLang 0.5.11" in err


def test_containers_see_the_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(here, CROSSING)
    path = str(here / "studies" / "s" / "adaptive.json")
    assert f"-v {path}:{path}:ro" in exported(capsys, "--format", "docker")[0]
    service = yaml.safe_load(exported(capsys, "--format", "compose")[0])["services"]["sglang"]
    assert f"{path}:{path}:ro" in service["volumes"] and path in service["command"]
    assert any("huggingface" in volume for volume in service["volumes"]), "and the model's cache"
    config_map, deployment, _ = yaml.safe_load_all(exported(capsys, "--format", "k8s")[0])
    assert json.loads(config_map["data"]["adaptive.json"])["5"] == {"candidate_steps": [2]}
    pod = deployment["spec"]["template"]["spec"]
    volume = next(v for v in pod["volumes"] if "configMap" in v)
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    mount = next(m for m in pod["containers"][0]["volumeMounts"] if m["name"] == volume["name"])
    assert (mount["mountPath"], mount["subPath"]) == (path, "adaptive.json")
    assert f"# mount the file {path}" in exported(capsys, "--format", "k8s-args")[0]


def test_a_container_that_was_measured_gets_a_mount(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("docker", "run", "--gpus", "all", "lmsysorg/sglang:v0.5.23", *COMMAND)
    keep(here, CROSSING, command)
    path = str(here / "studies" / "s" / "adaptive.json")
    assert f"-v {path}:{path}:ro" in exported(capsys)[0]
    done = autotune("adaptive", cwd=here)
    assert done.returncode == 2 and "a container or on another machine" in complaint(done)


# ---- what a launch decides ----------------------------------------------------------------------


def test_steps_that_proved_better_are_exported_with_their_gain(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_launch(*keep(here, CROSSING), turn_s=0.9, tok_s=1000.0)
    out, err = exported(capsys)
    told = re.search(r"# adaptive steps: \+ (\S+) % ± \S+ against the fixed flags of trial 1", out)
    assert told and float(told[1]) == pytest.approx(100 * ((1000 / 700) ** 0.3 - 1), abs=0.1)
    assert "adaptive steps are better" in out and "not shown to be better" not in err


def test_steps_that_proved_worse_are_refused_unless_allowed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_launch(*keep(here, CROSSING), turn_s=1.2, tok_s=700.0)
    out, err = exported(capsys, code=5)
    assert out == "" and "fixed steps are better" in err and "--allow-unconfirmed" in err
    out, err = exported(capsys, "--allow-unconfirmed")
    assert "--speculative-adaptive" in out and "not shown to be better" in err


def test_a_launch_of_another_table_says_nothing_of_this_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, study = keep(here, CROSSING)
    trial = study.ask()
    trial.set_user_attr(MARK, msgspec.to_builtins(AdaptivePlan(1, (Tier(1, 7), Tier(9, 2)))))
    store.tell(study, trial, launch(trial.number, 2, 9.9, 1.0, role="adaptive"))
    assert "# adaptive steps: not launched yet" in exported(capsys)[0]


def test_a_search_goes_on_as_if_there_had_been_no_adaptive_launch(here: Path) -> None:
    store, study = keep(here, CROSSING)
    keep_launch(store, study, turn_s=0.1, tok_s=9999.0)
    assert [record.number for record in store.records(study)] == [0, 1]
    assert [a.record.number for a in store.adaptive_launches(study)] == [2]
