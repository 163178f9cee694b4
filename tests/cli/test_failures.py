"""Servers that die: a failed trial is data, a failed baseline ends the study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from .commands import autotune, complaint, optimize_words, records, serve_words, servers_of

TOO_MUCH = """
name: too-much
parameters:
  speculative_num_steps: {low: 5, high: 6}
  speculative_eagle_topk: {choices: [4, 8]}
  speculative_num_draft_tokens: {low: 60, high: 64}
  mem_fraction_static: {low: 0.93, high: 0.95, step: 0.01}
"""


@pytest.fixture(scope="module")
def overloaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A study whose baseline lives, and whose space is deadly."""
    directory = tmp_path_factory.mktemp("overloaded")
    (directory / "deadly.yaml").write_text(TOO_MUCH)
    done = autotune(
        *optimize_words("--json", "--without-off", space="deadly.yaml", trials=4),
        cwd=directory,
    )
    assert done.returncode == 0, done.stderr
    return directory, done


def test_a_trial_that_dies_at_start_is_a_failed_trial_with_its_reason(
    overloaded: tuple[Path, Any],
) -> None:
    directory, _ = overloaded
    baseline, *rest = records(directory)
    assert baseline["status"] == "complete"
    failed = [record for record in rest if record["status"] == "failed"]
    assert failed
    for record in failed:
        failure = record["failure"]
        assert failure["kind"] in ("graph_capture_oom", "kv_does_not_fit", "runtime_oom")
        assert failure["stage"] in ("capture", "pool", "serving")
        assert any(word in failure["evidence"].lower() for word in ("memory", "too small"))
        assert failure["remedy"]
        assert record["objectives"] is None and record["phases"] == []
        assert record["flags"]["speculative_num_draft_tokens"] >= 60
    assert servers_of(directory) == []


def test_failed_trials_are_counted_by_kind(overloaded: tuple[Path, Any]) -> None:
    directory, done = overloaded
    counts = json.loads(done.stdout)["n_trials"]
    failed = [r for r in records(directory) if r["status"] == "failed"]
    assert counts["complete"] >= 1 and counts["failed"] == len(failed)
    assert sum(counts["by_kind"].values()) == len(failed)


def test_failed_trials_are_failed_in_optuna_too(overloaded: tuple[Path, Any]) -> None:
    directory, _ = overloaded
    backend = JournalFileBackend(str(directory / "studies" / "s" / "journal.log"))
    study = optuna.load_study(study_name="s", storage=optuna.storages.JournalStorage(backend))
    for trial, record in zip(study.trials, records(directory), strict=True):
        failed = record["status"] == "failed"
        assert (trial.state is optuna.trial.TrialState.FAIL) == failed
        assert (trial.values is None) == failed


def test_what_died_is_not_tried_again_with_more(overloaded: tuple[Path, Any]) -> None:
    directory, _ = overloaded
    seen: list[tuple[float, int]] = []
    for record in records(directory):
        flags = record["flags"]
        load = (flags["mem_fraction_static"], flags["speculative_num_draft_tokens"])
        assert not any(load[0] >= f and load[1] >= d for f, d in seen)
        if record["failure"] and record["failure"]["kind"] == "graph_capture_oom":
            seen.append(load)


def test_a_failed_trial_is_shown_and_cannot_be_exported(overloaded: tuple[Path, Any]) -> None:
    directory, _ = overloaded
    number = next(r["number"] for r in records(directory) if r["status"] == "failed")
    shown = autotune("show", cwd=directory)
    assert shown.returncode == 0 and "failed" in shown.stdout
    done = autotune("export", "--trial", str(number), cwd=directory)
    assert done.returncode == 2 and done.stdout == ""
    assert f"trial {number}" in complaint(done)


def test_a_baseline_that_cannot_start_ends_with_4_and_the_reason(tmp_path: Path) -> None:
    words = optimize_words(trials=1, serve=serve_words(fraction="0.5"))
    for attempt in (1, 2):  # the same command again tries again
        done = autotune(*words, cwd=tmp_path)
        assert done.returncode == 4, done.stderr
        said = complaint(done)
        assert "baseline" in said and "--mem-fraction-static" in said
        assert done.stdout == ""
        assert len(records(tmp_path)) == attempt
    assert records(tmp_path)[0]["failure"]["kind"] == "kv_does_not_fit"
    mended = autotune(*optimize_words(trials=1), cwd=tmp_path)
    assert mended.returncode == 0, "the remedy changes the command: nothing stands against it"


def test_a_baseline_with_an_unknown_flag_ends_with_4_and_names_it(tmp_path: Path) -> None:
    done = autotune(*optimize_words(serve=serve_words("--no-such-flag", "3")), cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert "--no-such-flag" in complaint(done)


def test_measure_of_a_command_that_cannot_start_ends_with_4(tmp_path: Path) -> None:
    done = autotune("measure", "--", *serve_words(fraction="0.5"), cwd=tmp_path)
    assert done.returncode == 4
    assert "; its log: autotune-measure.log" in complaint(done)
    assert "Not enough memory" in (tmp_path / "autotune-measure.log").read_text()
