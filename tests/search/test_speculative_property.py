"""Whatever a study holds: never an exception or a warning, always a legal proposal."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from autotune.core.objective import PRESETS, objective_named
from autotune.core.ranking import flag_key
from autotune.core.trial import FailureKind
from autotune.search import SpeculativeSampler, recommend
from autotune.search.observation import observations
from autotune.space import SearchSpace
from tests.search.histories import ABSURD, EVENTS, PLACES, SPACES, Event, new_study, play

DEAR = ("speculative", "large")


def check(space: SearchSpace, history: list[Event], seed: int) -> None:
    objective = objective_named(sorted(PRESETS)[seed % len(PRESETS)])
    sampler = SpeculativeSampler(space, objective, seed=seed)
    study = new_study(sampler)
    play(study, space, history)
    number = len(study.trials)
    proposed = sampler.propose(study, number)
    assert space.contains(proposed)
    again = SpeculativeSampler(space, objective, seed=seed).propose(study, number)
    assert again == proposed, "the study and the seed decide"
    choice = recommend(study, space, objective)
    measured = {o.number: o.flags for o in observations(study, space) if o.outcome == "measured"}
    assert (choice.trial is None) == (not measured)
    if choice.trial is None:
        assert choice.flags == {}
        return
    assert flag_key(choice.flags) == flag_key(measured[choice.trial])
    assert math.isfinite(choice.score) and math.isfinite(choice.score_sd)
    assert choice.expected_further_gain >= 0 and 0 <= choice.sure_below <= 1
    assert choice.why()


# Without shrinking, which takes minutes here: a history is at most eight trials long.
PROPERTY = settings(
    max_examples=25,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
SEEDS = st.integers(0, 2**31)


@pytest.mark.parametrize("name", [name for name in SPACES if name not in DEAR])
@PROPERTY
@given(history=st.lists(EVENTS, max_size=8), seed=SEEDS)
def test_whatever_a_study_holds_a_proposal_is_legal_and_a_recommendation_was_measured(
    name: str, history: list[Event], seed: int
) -> None:
    check(SPACES[name], history, seed)


@pytest.mark.parametrize("name", DEAR)
@settings(PROPERTY, max_examples=8)
@given(history=st.lists(EVENTS, max_size=5), seed=SEEDS)
def test_so_it_is_in_a_space_of_many_configurations(
    name: str, history: list[Event], seed: int
) -> None:
    check(SPACES[name], history, seed)


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: repr(value)[:24])
def test_no_absurd_value_in_any_place_of_a_record_breaks_a_proposal(value: object) -> None:
    """Each place in a record of its own, of a measured launch and of a failed one."""
    history = [Event("anywhere", "measured", FailureKind.CRASHED, None, 1, ())]
    for i, place in enumerate(PLACES):
        for seed in (10 * i + 2, 10 * i + 7):  # of a measured launch, of a failed one
            kind = list(FailureKind)[i % len(FailureKind)]
            history.append(Event("anywhere", "garbage", kind, None, seed, ((place, value),)))
    check(SPACES["mixed"], history, 0)
