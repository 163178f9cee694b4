from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from optuna.storages.journal import JournalFileBackend

from .commands import autotune, complaint, environment, optimize_words, records, serve_words
from .conftest import FinishedStudy

INTERVAL = {"value", "low", "high"}
OPENED = {"speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"}


def open_with_optuna(folder: Path) -> optuna.Study:
    backend = JournalFileBackend(str(folder / "journal.log"))
    return optuna.load_study(study_name="s", storage=optuna.storages.JournalStorage(backend))


def is_interval(value: Mapping[str, float]) -> bool:
    return set(value) == INTERVAL and value["low"] <= value["value"] <= value["high"]


def test_a_study_ends_with_the_flags_to_use_and_the_next_commands(finished: FinishedStudy) -> None:
    said = finished.run.stdout
    assert re.search(r"^Use\s+--speculative-num-steps \d", said, re.M)
    assert "one agent turn" in said and "tok/s" in said
    assert "all 3 launches are used" in said
    for command in ("export --study s --format shell", "dashboard --study s", "report --study s"):
        assert f"autotune {command}" in said
    assert "SIMULATED" in said


def test_a_study_of_faked_accept_lengths_says_so_wherever_it_is_read(tmp_path: Path) -> None:
    env = environment(SGLANG_SIMULATE_ACC_LEN="2.5")
    words = optimize_words("--allow-simulated-acceptance", trials=1)
    done = autotune(*words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert "FAKED: SGLANG_SIMULATE_ACC_LEN set the accept length" in done.stdout
    assert "! the server's environment makes it fake its accept length" in done.stderr
    assert "FAKED" in autotune("show", cwd=tmp_path).stdout
    assert "FAKED" in autotune("export", cwd=tmp_path).stdout


def test_progress_and_introduction_go_to_stderr(finished: FinishedStudy) -> None:
    assert "study s · objective agentic" in finished.run.stderr
    assert "space steps-only: 5 legal configurations of 5" in finished.run.stderr
    for number in range(3):
        assert f"trial {number}:" in finished.run.stderr
    assert "Use " not in finished.run.stderr
    assert "A new study created" not in finished.run.stderr, "Optuna talks to itself"


def test_a_study_leaves_its_files(finished: FinishedStudy) -> None:
    folder = finished.folder
    for name in ("journal.log", "study.yaml", "report.html"):
        assert (folder / name).stat().st_size > 100, name
    for number in range(3):
        trial = folder / "trials" / f"{number:04d}"
        assert {path.name for path in trial.iterdir()} == {
            "record.json", "server.log", "launch.sh",
        }  # fmt: skip
        assert os.access(trial / "launch.sh", os.X_OK)
    assert yaml.safe_load((folder / "study.yaml").read_text())["space"] == "steps-only"
    assert "plotly" in (folder / "report.html").read_text().lower()


def test_a_record_has_the_shape_that_is_promised(finished: FinishedStudy) -> None:
    for number, record in enumerate(records(finished.directory)):
        assert record["schema"] == 1 and record["number"] == number
        assert record["status"] == "complete" and record["failure"] is None
        assert set(record["flags"]) == OPENED
        assert record["effective"]["max_running_requests"] > 0
        assert {"max_total_num_tokens", "weights_gb", "available_gpu_mem_gb"} <= set(
            record["effective"]
        )
        assert [(p["role"], p["concurrency"]) for p in record["phases"]] == [
            ("latency", 1), ("serving", 16),
        ]  # fmt: skip
        for phase in record["phases"]:
            assert phase["n_requests"] > 0 and phase["n_failed"] == 0 and phase["duration_s"] > 0
            for name in ("ttft_s", "tpot_s", "turn_latency_s", "decode_tok_s", "output_tok_s"):
                assert is_interval(phase[name]), name
            assert 1 <= phase["accept_length"] <= record["flags"]["speculative_num_steps"] + 1
            assert 0 < phase["in_flight_mean"] <= phase["concurrency"]
        assert set(record["objectives"]) == {"latency_s", "throughput_tok_s"}
        assert all(map(is_interval, record["objectives"].values()))
        assert all(set(w) == {"code", "text", "remedy"} for w in record["warnings"])
        assert {"launch_s", "measure_s", "stop_s"} <= set(record["timings"])
        assert record["machine"]["n_gpus"] == 4 and "gpu_memory_gb" in record["machine"]
        assert {"sglang", "autotune"} <= set(record["versions"])
    assert records(finished.directory)[0]["role"] == "baseline"


def check_standing(standing: dict[str, Any]) -> None:
    assert {
        "trial", "flags", "latency_s", "throughput_tok_s", "score", "gain_vs_baseline_pct",
    } <= set(standing)  # fmt: skip
    assert is_interval(standing["latency_s"]) and is_interval(standing["throughput_tok_s"])


def test_pareto_as_json_has_the_shape_that_is_promised(finished: FinishedStudy) -> None:
    done = autotune("pareto", "--json", cwd=finished.directory)
    document = json.loads(done.stdout)
    assert done.returncode == 0 and done.stderr == ""
    assert set(document) == {
        "schema", "simulated", "study", "objective", "baseline", "best", "knee", "front",
        "n_trials", "ties", "perhaps", "hypervolume_frac", "weight_ranges",
    }  # fmt: skip
    assert document["schema"] == 1
    assert document["simulated"] is True
    assert document["study"] == "s"
    assert document["objective"] == {
        "name": "agentic", "weights": {"latency": 0.7, "throughput": 0.3},
    }  # fmt: skip
    for standing in (document["baseline"], document["best"], document["knee"], *document["front"]):
        check_standing(standing)
    assert document["baseline"]["trial"] == 0 and document["baseline"]["score"] == 0
    counts = {"complete": 3, "failed": 0, "infeasible": 0, "pruned": 0, "by_kind": {}}
    assert document["n_trials"] == counts
    latencies = [standing["latency_s"]["value"] for standing in document["front"]]
    assert latencies == sorted(latencies)


def test_plain_optuna_reads_the_study(finished: FinishedStudy) -> None:
    study = open_with_optuna(finished.folder)
    assert [d.name for d in study.directions] == ["MINIMIZE", "MAXIMIZE"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        assert study.metric_names == ["latency_s", "throughput_tok_s"]
    on_disk = records(finished.directory)
    for trial, record in zip(study.trials, on_disk, strict=True):
        assert trial.state is optuna.trial.TrialState.COMPLETE
        assert trial.user_attrs["record"] == record
        assert trial.values == [
            record["objectives"][name]["value"] for name in ("latency_s", "throughput_tok_s")
        ]
        assert trial.params == {"speculative_num_steps": record["flags"]["speculative_num_steps"]}
    assert study.best_trials


def test_a_finished_study_says_so_at_once_and_launches_nothing(finished: FinishedStudy) -> None:
    before = sorted((finished.folder / "trials").iterdir())
    done = autotune(*optimize_words(trials=3), cwd=finished.directory)
    assert done.returncode == 0, done.stderr
    assert "3 done before" in done.stderr and "trial 0:" not in done.stderr
    assert "all 3 launches are used" in done.stdout
    assert sorted((finished.folder / "trials").iterdir()) == before


def test_more_trials_go_on_with_a_study_until_its_space_is_used_up(
    finished: FinishedStudy, tmp_path: Path
) -> None:
    shutil.copytree(finished.directory / "studies", tmp_path / "studies")
    words = optimize_words("--json", "--exhaust", "--without-off", trials=20)
    done = autotune(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["stopped"].startswith("nothing is left to learn")
    after = records(tmp_path)
    assert after[:3] == records(finished.directory)
    assert {r["flags"]["speculative_num_steps"] for r in after} == {1, 2, 3, 4, 5}
    assert document["best"]["flags"]["speculative_num_steps"] in (3, 4, 5)


@pytest.mark.parametrize(("objective", "steps"), [("agentic", 4), ("throughput", 3)])
def test_the_hand_sweep_takes_six_launches(tmp_path: Path, objective: str, steps: int) -> None:
    words = ("--objective", objective, "--serving-concurrency", "32", "--workload", "agentic-short")
    serve = serve_words(speed=30)
    done = autotune(*optimize_words(*words, trials=6, serve=serve), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Use      --speculative-num-steps {steps} " in done.stdout
    made = records(tmp_path)
    assert [r["role"] for r in made[:2]] == ["baseline", "reference"]
    assert made[1]["effective"].get("speculative_algorithm") is None
    assert all(phase["accept_length"] is None for phase in made[1]["phases"])
    assert "speculative_num_steps" not in made[1]["flags"]
    refused = autotune("export", "--trial", "1", cwd=tmp_path)
    assert refused.returncode == 2 and "speculation off" in complaint(refused)
    best = json.loads(autotune("pareto", "--json", cwd=tmp_path).stdout)["best"]
    assert best["flags"]["speculative_num_steps"] == steps


def test_another_command_is_refused_and_the_difference_is_named(finished: FinishedStudy) -> None:
    done = autotune(*optimize_words(serve=serve_words("--tp", "8")), cwd=finished.directory)
    assert done.returncode == 7
    said = complaint(done)
    assert "another command" in said and "--tp 8" in said and "--study" in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--seed", "5"), "another seed"),
        (("--serving-concurrency", "16,32"), "serving_concurrency"),
        (("--slo", "ttft_p95_s<=3"), "another slo"),
    ],
)
def test_another_setting_that_changes_the_numbers_is_refused(
    finished: FinishedStudy, words: tuple[str, ...], named: str
) -> None:
    done = autotune(*optimize_words(*words), cwd=finished.directory)
    assert done.returncode == 7
    assert named in complaint(done)


def test_another_objective_is_no_other_study(finished: FinishedStudy, tmp_path: Path) -> None:
    shutil.copytree(finished.directory / "studies", tmp_path / "studies")
    done = autotune(*optimize_words("--objective", "throughput", "--json", trials=3), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["objective"]["name"] == "throughput"


def test_a_dry_run_starts_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    done = autotune(*optimize_words("--dry-run"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "nothing was started" in done.stdout
    assert "--speculative-num-steps 2" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_with_json_stdout_is_one_document_and_the_talk_is_on_stderr(tmp_path: Path) -> None:
    done = autotune(*optimize_words("--json", trials=1), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["baseline"]["trial"] == document["best"]["trial"] == 0
    assert "trial 0:" in done.stderr


def test_without_a_command_the_first_line_says_that_all_is_simulated(tmp_path: Path) -> None:
    done = autotune("optimize", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0
    first = done.stderr.splitlines()[0]
    assert "SIMULATED" in first and "no launch command" in first


def test_a_study_in_which_nothing_meets_the_slo_ends_with_6(tmp_path: Path) -> None:
    done = autotune(*optimize_words("--slo", "ttft_p95_s<=0.0001", trials=2), cwd=tmp_path)
    assert done.returncode == 6, done.stderr
    said = complaint(done)
    assert "no configuration meets the constraints" in said
    assert re.search(r"trial \d comes closest: it misses ttft_p95_s<=0.0001 by [\d,]+%", said)
    assert [r["status"] for r in records(tmp_path)] == ["infeasible", "infeasible"]
    assert all(r["constraints"]["ttft_p95_s<=0.0001"] > 0 for r in records(tmp_path))
    refused = autotune("export", cwd=tmp_path)
    assert refused.returncode == 6 and refused.stdout == ""
    refused = autotune("export", "--trial", "1", cwd=tmp_path)
    assert refused.returncode == 2 and "--allow-infeasible" in complaint(refused)
    allowed = autotune("export", "--trial", "1", "--allow-infeasible", cwd=tmp_path)
    assert allowed.returncode == 0 and "--speculative-num-steps" in allowed.stdout
    study = open_with_optuna(tmp_path / "studies" / "s")
    assert study.trials[0].system_attrs["constraints"][0] > 0
