"""What a study does after each kind of failure."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.core.trial import POLICIES, FailureKind, Flags, Policy
from autotune.errors import LaunchError

from .fakes import Bench, Model, Outcome, asked, trade_off

SEARCHED = sorted(set(FailureKind) - {FailureKind.INTERRUPTED})
FIRST_SEARCH_TRIAL = 1


def failing_launches(kind: FailureKind, *numbers: int) -> Model:
    def model(flags: Flags, number: int) -> Outcome:
        return kind if number in numbers else trade_off(flags, number)

    return model


def test_every_kind_has_a_policy() -> None:
    assert set(POLICIES) == set(FailureKind)


@pytest.mark.parametrize("kind", SEARCHED)
def test_a_failed_trial_is_learnt_from_launched_again_or_the_end(
    tmp_path: Path, kind: FailureKind
) -> None:
    tuner = Bench(tmp_path).tuner(failing_launches(kind, FIRST_SEARCH_TRIAL))
    if POLICIES[kind] is Policy.STOP:
        with pytest.raises(LaunchError):
            tuner.run()
        assert len(asked(tuner)) == 2
        return
    tuner.run()
    launches = asked(tuner).count(asked(tuner)[FIRST_SEARCH_TRIAL])
    assert launches == (2 if POLICIES[kind] is Policy.RETRY_ONCE else 1)


@pytest.mark.parametrize("kind", SEARCHED)
def test_a_baseline_that_fails_ends_the_study_whatever_the_kind(
    tmp_path: Path, kind: FailureKind
) -> None:
    """As a bad flag in the base command, which every launch would repeat."""
    tuner = Bench(tmp_path).tuner(failing_launches(kind, 0, 1))
    with pytest.raises(LaunchError, match="baseline"):
        tuner.run()
    assert len(asked(tuner)) == (2 if POLICIES[kind] is Policy.RETRY_ONCE else 1)
