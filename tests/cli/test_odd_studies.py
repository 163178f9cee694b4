"""What the reading commands say of studies that hold little, nothing, or very much."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from optuna.trial import TrialState, create_trial

from autotune.cli.documents import schema_of
from autotune.cli.main import run
from autotune.core.trial import TrialRecord
from autotune.study.config import RunConfig

from ..json_schema import problems
from ..report.studies import COMMAND, dead, launch, mixed
from ..stored import stored

N_MANY = 2000
THREE = (16, 32, 64)
STUDIES: Mapping[str, tuple[Sequence[TrialRecord], tuple[int, ...]]] = {
    "empty": ([], (16,)),
    "one": ([launch(0)], (16,)),
    "failed": ([dead(number) for number in range(3)], (16,)),
    "infeasible": ([launch(number, feasible=False) for number in range(4)], (16,)),
    "three": ([launch(number, serving=THREE) for number in range(6)], THREE),
    "foreign": (mixed(6), (16,)),
    "many": (mixed(N_MANY), (16,)),
}
"""Records and serving concurrencies by the name of the study."""
WITHOUT_A_WINNER = ("empty", "failed", "infeasible")


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 (a JSON document)
        def refuse(word: str) -> None:
            pytest.fail(f"{word} is no JSON")

        return json.loads(self.out, parse_constant=refuse)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all of them; commands only read them, but for their report."""
    root = tmp_path_factory.mktemp("odd")
    for name, (records, serving) in STUDIES.items():
        config = replace(
            RunConfig(), command=tuple(COMMAND), study=name, engine="sglang",
            serving_concurrency=serving,
        )  # fmt: skip
        _, study = stored(root / "studies", records, config)
        if name == "foreign":
            newer = {"schema": 99, "number": 7, "status": "complete", "flags": {}}
            for state, values, record in (
                (TrialState.COMPLETE, [0.001, 1e9], None),
                (TrialState.COMPLETE, [0.001, 1e9], newer),
                (TrialState.FAIL, None, "no record"),
            ):
                marks = {} if record is None else {"record": record}
                study.add_trial(create_trial(state=state, values=values, user_attrs=marks))
            study.ask()
            study.enqueue_trial({"speculative_num_steps": 1})
    return root


@pytest.fixture
def say(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """Runs a command on a study, in this process: an exception would end the test."""
    monkeypatch.chdir(folder)

    def said(study: str, command: str) -> Said:
        capsys.readouterr()
        code = run([*command.split(), "--study", study])
        out, err = capsys.readouterr()
        assert "Traceback" not in err and "nan" not in out.lower()
        return Said(code, out, err)

    return said


# ---- every study ----------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["show", "pareto"])
@pytest.mark.parametrize("study", STUDIES)
def test_documents_fit_their_schema(say: Callable[..., Said], study: str, command: str) -> None:
    said = say(study, f"{command} --json")
    document = said.document
    assert said.code == 0 and said.err == ""
    assert problems(document, schema_of(command)) == []
    records = STUDIES[study][0]
    n = document["n_trials"]
    assert n["complete"] + n["failed"] + n["infeasible"] + n["pruned"] == len(records)
    assert (document["best"] is None) == (study in WITHOUT_A_WINNER)
    assert (document["knee"] is None) == (document["front"] == []) == (document["best"] is None)
    if command == "show":
        assert [trial["number"] for trial in document["trials"]] == list(range(len(records)))


@pytest.mark.parametrize("study", STUDIES)
def test_csv_has_one_row_per_trial_under_the_same_headers(
    say: Callable[..., Said], study: str
) -> None:
    said = say(study, "show --csv")
    assert said.code == 0 and said.err == "" and said.out.endswith("\r\n")
    records, serving = STUDIES[study]
    header, *rows = csv.reader(io.StringIO(said.out))
    assert len(set(header)) == len(header) and {len(row) for row in rows} <= {len(header)}
    assert [int(row[0]) for row in rows] == [record.number for record in records]
    for load in (1, *serving):
        assert {f"ttft_s@{load}", f"ttft_s_low@{load}", f"output_tok_s_high@{load}"} <= {*header}


@pytest.mark.parametrize("study", STUDIES)
def test_show_and_pareto_name_the_study_and_its_front(say: Callable[..., Said], study: str) -> None:
    for command in ("show", "pareto"):
        said = say(study, command)
        assert said.code == 0 and said.err == ""
        assert said.out.startswith(f"study {study} · objective agentic")
        has_winner = "← best" in said.out
        assert has_winner == (study not in WITHOUT_A_WINNER)


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_without_a_winner_exports_nothing_and_says_why(
    say: Callable[..., Said], study: str
) -> None:
    for words in ("", " --knee", " --front all", " --max-latency 100"):
        said = say(study, f"export --format flags{words}")
        if study in WITHOUT_A_WINNER:
            assert said.code == 6 and said.out == ""
            (told, *_) = said.err.splitlines()
            assert told.startswith("autotune: ") and "no feasible configuration" in told
        else:
            assert said.code == 0 and "--speculative-num-steps" in said.out


@pytest.mark.parametrize("study", STUDIES)
def test_a_report_is_written_of_any_study(
    say: Callable[..., Said], folder: Path, study: str
) -> None:
    said = say(study, "report --cdn")
    page = folder / said.out.strip()
    assert said.code == 0 and said.err == "" and page.name == "report.html"
    html = page.read_text(encoding="utf-8")
    assert html.rstrip().endswith("</html>") and not re.search(r"(?<!is)NaN", html)
    assert set(re.findall(r'data-key="(\d+)"', html)) >= {str(r.number) for r in STUDIES[study][0]}


@pytest.mark.parametrize("study", STUDIES)
def test_an_explanation_is_given_of_any_study(say: Callable[..., Said], study: str) -> None:
    said = say(study, "explain --json")
    assert said.code == 0 and said.err == ""
    assert problems(said.document, schema_of("explain")) == []
    assert said.document["is_best"] == (study not in WITHOUT_A_WINNER)
    assert all(finding["text"] for finding in said.document["findings"])


# ---- each of them ---------------------------------------------------------------------------


def test_an_empty_study_says_that_no_trial_has_ended(say: Callable[..., Said]) -> None:
    assert say("empty", "show").out.endswith("\nno trial has ended yet\n")
    assert "Front    none: no trial carries a value" in say("empty", "pareto").out
    assert "No trial has ended yet." in say("empty", "explain").out


def test_of_failed_trials_alone_the_reasons_are_shown(say: Callable[..., Said]) -> None:
    shown = say("failed", "show").out
    assert shown.count("failed after 30 s: out of memory while serving · lower the fraction") == 3
    assert "Front    none: no trial carries a value" in shown
    assert "3 failed (3 × out of memory while serving)" in " ".join(
        say("failed", "explain").out.split()
    )
    rows = list(csv.DictReader(io.StringIO(say("failed", "show --csv").out)))
    assert {row["failure_kind"] for row in rows} == {"runtime_oom"}
    assert {row["latency_s"] for row in rows} == {""}, "a crash never carries a number"
    said = say("failed", "export --trial 1")
    assert said.code != 0 and said.out == "" and "trial 1" in said.err


def test_outside_the_constraints_nothing_is_called_best(say: Callable[..., Said]) -> None:
    shown = say("infeasible", "show").out
    assert "baseline (SLO)" in shown and shown.count("(SLO)") == 4
    assert "Front    none: no configuration meets the constraints" in shown
    assert "comes closest to the limits" in " ".join(say("infeasible", "explain").out.split())
    said = say("infeasible", "export --trial 1")
    assert said.code == 2 and "--allow-infeasible" in said.err
    allowed = say("infeasible", "export --trial 1 --allow-infeasible --format flags")
    assert allowed.code == 0 and "--speculative-num-steps 4" in allowed.out


def test_one_trial_is_the_whole_front(say: Callable[..., Said]) -> None:
    front = say("one", "pareto --json").document
    assert front["best"] == front["knee"] == front["baseline"] == front["front"][0]
    assert front["best"]["gain_vs_baseline_pct"] == 0 and front["hypervolume_frac"] == 0


def test_three_loads_have_a_column_each(say: Callable[..., Said]) -> None:
    said = say("three", "show").out
    assert re.search(r"C=16 +C=32 +C=64 +vs baseline", said)
    assert "! C=16, C=32 and C=64 queue: 14 run at once" in said
    text = " ".join(say("three", "explain").out.split())
    assert all(f"At C={load} the running limit binds" in text for load in THREE)


def test_trials_of_others_are_passed_over_and_counted(
    say: Callable[..., Said], folder: Path
) -> None:
    """However good their values are."""
    line = "3 trials carry no record that autotune understands: they stand in no table."
    for command in ("show", "pareto"):
        assert f"\nForeign  {line}\n" in say("foreign", command).out
        assert "Foreign" not in say("three", command).out
    assert say("foreign", "report --cdn").code == 0
    assert line in (folder / "studies" / "foreign" / "report.html").read_text()
    front = say("foreign", "pareto --json").document
    assert front["n_foreign"] == 3 and "n_foreign" not in say("three", "show --json").document
    assert {member["trial"] for member in front["front"]} <= set(range(6))
    assert front["best"]["trial"] == 3


def test_a_difference_has_each_value_beside_its_unit(say: Callable[..., Said]) -> None:
    said = say("three", "export --format diff").out
    assert "C=1: 1.240 s ± 0.0 % to 0.748 s ± 0.0 %, -39.6 %" in said
    assert "C=16: 900 tok/s ± 2.0 % to 720 tok/s ± 2.0 %, -20.0 %" in said


def test_a_front_with_hundreds_of_ties_is_no_wall_of_numbers(say: Callable[..., Said]) -> None:
    said = say("many", "pareto").out
    (line,) = (line for line in said.splitlines() if line.startswith("Off the front by"))
    n = len(say("many", "pareto --json").document["perhaps"])
    assert n > 100 and line.endswith(f" and {n - 12} more") and line.count(",") == 11


def test_two_thousand_trials_are_told_whole(say: Callable[..., Said]) -> None:
    shown = say("many", "show").out.splitlines()
    assert sum(line.split()[:1] == [str(n)] for n, line in enumerate(shown[3:])) == N_MANY
    document = say("many", "pareto --json").document
    best = max(document["front"], key=lambda member: member["score"])
    assert document["best"]["score"] >= best["score"] - 0.005


# ---- values ---------------------------------------------------------------------------------


def test_csv_holds_the_values_of_the_records_unrounded(say: Callable[..., Said]) -> None:
    rows = list(csv.DictReader(io.StringIO(say("foreign", "show --csv").out)))
    front = say("foreign", "pareto --json").document
    for row, record in zip(rows, mixed(6), strict=True):
        assert int(row["speculative_num_steps"]) == record.flags["speculative_num_steps"]
        assert record.objectives is not None
        assert float(row["latency_s"]) == record.objectives["latency_s"].value
        assert float(row["throughput_tok_s_low"]) == record.objectives["throughput_tok_s"].low
        assert float(row["output_tok_s@16"]) == record.phases[1].output_tok_s.value
        assert row["status"] == record.status
        is_member = record.number in [member["trial"] for member in front["front"]]
        assert row["is_on_front"] == ("true" if is_member else "false")
        assert row["is_best"] == ("true" if record.number == front["best"]["trial"] else "false")
    best = rows[front["best"]["trial"]]
    assert float(best["gain_vs_baseline_pct"]) == front["best"]["gain_vs_baseline_pct"]


def test_a_cell_with_commas_quotes_and_lines_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = 'RuntimeError: "a", b\nand a second line\r\n; =1+1'
    config = replace(RunConfig(), command=tuple(COMMAND), study="s", engine="sglang")
    stored(tmp_path / "studies", [dead(0, evidence)], config)
    monkeypatch.chdir(tmp_path)
    assert run(["show", "--csv"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))
    assert row["failure_evidence"] == evidence


def test_json_and_csv_exclude_each_other(say: Callable[..., Said]) -> None:
    said = say("one", "show --json --csv")
    assert said.code == 2 and "exclude each other" in said.err and said.out == ""
