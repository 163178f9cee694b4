from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trial import FailureKind, TrialRecord
from autotune.study.budget import Budget, gpu_hours, settled

from .fakes import chain, record_of


def launches(*kinds: FailureKind | None, wall_s: float = 60.0) -> list[TrialRecord]:
    timings = {"wall_s": wall_s, "launch_s": 1000.0, "measure_s": 700.0, "stop_s": 100.0}
    return [
        record_of(i, chain(3), kind or (1.0, 100.0), timings=timings)
        for i, kind in enumerate(kinds)
    ]


def test_every_launch_counts_but_the_interrupted_ones() -> None:
    records = launches(None, FailureKind.RUNTIME_OOM, FailureKind.INTERRUPTED)
    assert len(settled(records)) == 2
    assert Budget(3).why_stop(records, 0) is None
    assert Budget(2).why_stop(records, 0) == "all 2 launches are used"


def test_no_launch_begins_that_would_end_too_late() -> None:
    records = launches(None, None)
    assert Budget(9, time_s=200).why_stop(records, 139) is None
    assert "after the 3 min allowed" in (Budget(9, time_s=200).why_stop(records, 141) or "")
    assert "after the 80 s allowed" in (Budget(9, time_s=80).why_stop(records, 21) or "")


def test_the_time_of_a_launch_is_the_mean_of_this_study() -> None:
    records = [*launches(None, wall_s=30.0), *launches(None, wall_s=90.0)]
    assert Budget(4).left_s(records) == pytest.approx(120.0)
    assert Budget(4, time_s=100).why_stop(records, 39) is None
    assert Budget(4, time_s=100).why_stop(records, 41) is not None


def test_whichever_limit_is_reached_first_is_the_reason() -> None:
    records = launches(None, None)
    assert "all 2 launches" in (Budget(2, time_s=100, gpu_hours=1.1).why_stop(records, 90) or "")
    assert "allowed" in (Budget(3, time_s=100, gpu_hours=1.1).why_stop(records, 90) or "")
    assert "GPU hours" in (Budget(3, time_s=900, gpu_hours=1.1).why_stop(records, 90) or "")


def test_the_first_launch_is_made_whatever_its_time() -> None:
    assert Budget(9, time_s=1, gpu_hours=0.001).why_stop([], 0.5) is None


def test_gpu_hours_count_all_gpus_and_the_next_launch() -> None:
    records = [
        TrialRecord(
            number=i, status="complete", flags={}, machine={"n_gpus": 4},
            timings={"launch_s": 1000.0, "measure_s": 700.0, "stop_s": 100.0},
        )
        for i in range(2)
    ]  # fmt: skip
    assert gpu_hours(records) == pytest.approx(4.0)
    assert Budget(9, gpu_hours=6.0).why_stop(records, 0) is None
    assert "4.00 of 5.9 GPU hours" in (Budget(9, gpu_hours=5.9).why_stop(records, 0) or "")


def test_the_time_left_is_told_once_a_launch_has_ended() -> None:
    assert Budget(5).left_s([]) is None
    assert Budget(5).left_s(launches(None, None)) == pytest.approx(180.0)


@given(
    st.integers(1, 9), st.floats(1, 1e5), st.floats(0.01, 100), st.floats(0, 1e5),
    st.lists(st.sampled_from([None, *FailureKind]), max_size=12),
)  # fmt: skip
def test_a_study_within_its_budget_has_launches_left(
    trials: int, time_s: float, hours: float, elapsed_s: float, kinds: list[FailureKind | None]
) -> None:
    records = launches(*kinds)
    budget = Budget(trials, time_s, hours)
    if budget.why_stop(records, elapsed_s) is None:
        assert len(settled(records)) < trials
        assert gpu_hours(records) <= hours
