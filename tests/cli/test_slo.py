"""Limits on the way: how far each trial is from them, wherever the trial is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from autotune.cli.summary import summary
from autotune.core.trial import TrialRecord
from autotune.study.reading import StudyView
from autotune.study.verdict import none_feasible

from ..report.studies import launch, store, view_of
from .commands import autotune, complaint, optimize_words, records

TTFT, DECODE = "ttft_p95_s@16<=0.5", "decode_tok_s@1>=50"


def limited(number: int, ttft: float, decode: float, role: str = "") -> TrialRecord:
    """Violations of the two limits: negative is to spare."""
    record = launch(number, feasible=ttft <= 0 and decode <= 0)
    constraints = {TTFT: ttft, DECODE: decode}
    found = msgspec.structs.replace(record, constraints=constraints)
    return msgspec.structs.replace(found, role=role) if role else found


STUDY = (limited(0, -0.123, -0.4), limited(1, 0.5, -0.1), limited(2, -0.02, -0.3))


def view(launches: tuple[TrialRecord, ...]) -> StudyView:
    found = view_of(launches)
    return replace(found, config=replace(found.config, slo=(TTFT, DECODE)))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("limited")
    store(STUDY, directory)
    config = directory / "studies" / "made-up" / "study.yaml"
    config.write_text(config.read_text().replace("slo: []", f"slo: ['{TTFT}', '{DECODE}']"))
    return directory


def row(text: str, number: int) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"  {number} "))


def test_each_row_has_its_tightest_limit(kept: Path) -> None:
    shown = autotune("show", cwd=kept).stdout
    assert "tightest SLO" in shown
    assert f"− 50 % {TTFT}" in row(shown, 1) and "(SLO)" in row(shown, 1)
    assert f"+ 2.0 % {TTFT}" in row(shown, 2)
    front = autotune("pareto", cwd=kept).stdout
    assert f"+ 12 % {TTFT}" in row(front, 0)
    assert not any(line.startswith("  1 ") for line in front.splitlines()), "not on the front"


def test_programs_read_every_limit_of_every_configuration(kept: Path) -> None:
    document = json.loads(autotune("pareto", "--json", cwd=kept).stdout)
    assert document["baseline"]["constraints"] == {TTFT: -0.123, DECODE: -0.4}
    trials = json.loads(autotune("show", "--json", cwd=kept).stdout)["trials"]
    assert trials[1]["constraints"] == {TTFT: 0.5, DECODE: -0.1}


def test_the_summary_says_what_the_flags_to_use_have_to_spare() -> None:
    said = summary(view(STUDY), "all 3 launches are used")
    told = [line for line in said.splitlines() if line.startswith("Meets ")]
    assert told == [f"Meets    {TTFT} (2.0 % to spare) · {DECODE} (30 % to spare)"]
    assert "Meets" not in summary(view_of([launch(0)]), "") or "ttft" in summary(
        view_of([launch(0)]), ""
    )


def test_the_launch_that_keeps_it_least_speaks_for_its_flags() -> None:
    again = msgspec.structs.replace(STUDY[2], number=3, constraints={TTFT: -0.01, DECODE: -0.35})
    best = view((*STUDY, again)).ranking.best
    assert best is not None and best.trials == (2, 3)
    assert best.constraints == {TTFT: -0.01, DECODE: -0.3}


@pytest.mark.parametrize(
    ("worst", "said"),
    [
        ({1: (0.5, 0.2)}, f"misses {TTFT} by 50% of the limit and {DECODE} by 20% of the limit"),
        ({1: (0.5, -0.2)}, f"misses {TTFT} by 50% of the limit (steps 4"),
        ({1: (0.5, 0.0), 2: (-0.1, 0.02)}, f"trial 2 comes closest: it misses {DECODE} by 2%"),
    ],
)
def test_the_closest_miss_is_named_with_all_that_it_misses(
    worst: Mapping[int, tuple[float, float]], said: str
) -> None:
    assert said in none_feasible([limited(n, *by) for n, by in worst.items()])


def test_speculation_off_is_no_closest_miss_and_is_named_where_it_meets_them() -> None:
    missed, off = limited(0, 0.5, 0.2, "baseline"), limited(1, -0.5, -0.2, "reference")
    told = none_feasible([missed, off])
    assert "trial 0 comes closest" in told
    assert told.endswith("; speculation off (trial 1) meets them")
    assert none_feasible([]) == "no configuration meets the constraints"


def test_limits_at_one_load_decide_what_is_on_the_front(tmp_path: Path) -> None:
    """One that all keep, and one that none keeps: of another metric, percentile and load."""
    met, missed = "decode_tok_s@1>=5", "itl_p99_s@16<=0.0001"
    words = ("--slo", met, "--slo", missed)
    done = autotune(*optimize_words(*words, trials=1), cwd=tmp_path)
    assert done.returncode == 6, done.stderr
    assert re.search(rf"trial 0 comes closest: it misses {missed} by [\d,]+%", complaint(done))
    (record,) = records(tmp_path)
    assert record["status"] == "infeasible"
    assert record["constraints"][met] < 0 < record["constraints"][missed]
    backend = JournalFileBackend(str(tmp_path / "studies" / "s" / "journal.log"))
    storage = optuna.storages.JournalStorage(backend)
    (trial,) = optuna.load_study(study_name="s", storage=storage).trials
    assert list(trial.constraints.values()) == list(record["constraints"].values())
