from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from autotune.core.ranking import flag_key
from autotune.core.trial import (
    Failure,
    FailureKind,
    Flags,
    FlagValue,
    Interval,
    TrialRecord,
    record_from,
)
from autotune.search import CanonicalTPESampler, MemoryWalls, SpaceExhausted
from autotune.space import SearchSpace, load_space

SMALL, LARGE = load_space("steps-only"), load_space("speculative")


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def study_with(sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    return optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)


def plain_values(flags: Flags) -> tuple[float, float]:
    """A smooth trade-off: deeper drafts answer faster and serve less."""
    steps = float(flags["speculative_num_steps"])
    return 2.0 / (1.0 + 0.3 * steps), 2000.0 - 90.0 * steps


def complete(number: int, flags: Flags) -> dict[str, Any]:
    latency, throughput = plain_values(flags)
    return TrialRecord(
        number=number,
        status="complete",
        flags=dict(flags),
        objectives={
            "latency_s": Interval(latency, latency, latency),
            "throughput_tok_s": Interval(throughput, throughput, throughput),
        },
    ).to_dict()


def failed(number: int, flags: Flags, kind: FailureKind) -> dict[str, Any]:
    failure = Failure(kind, "capture", "evidence", "remedy")
    return TrialRecord(number=number, status="failed", flags=dict(flags), failure=failure).to_dict()


def tell_complete(study: optuna.Study, trial: optuna.trial.Trial, flags: Flags) -> None:
    trial.set_user_attr("record", complete(trial.number, flags))
    study.tell(trial, plain_values(flags))


def tell_failed(
    study: optuna.Study, trial: optuna.trial.Trial, flags: Flags, kind: FailureKind
) -> None:
    trial.set_user_attr("record", failed(trial.number, flags, kind))
    study.tell(trial, state=TrialState.FAIL)


def test_a_plain_optuna_study_can_be_driven_with_it() -> None:
    study = study_with(CanonicalTPESampler(LARGE, seed=0))
    seen = set()
    for _ in range(12):
        trial = study.ask()
        flags = LARGE.suggest(trial)
        assert LARGE.contains(flags)
        assert set(trial.params) == set(LARGE.parameters)
        seen.add(flag_key(flags))
        tell_complete(study, trial, flags)
    assert len(seen) == 12
    assert study.best_trials


def test_a_small_space_is_launched_to_the_last_configuration_and_no_further() -> None:
    sampler = CanonicalTPESampler(SMALL, seed=3)
    study = study_with(sampler)
    seen = set()
    for _ in range(SMALL.size):
        trial = study.ask()
        flags = SMALL.suggest(trial)
        seen.add(flags["speculative_num_steps"])
        tell_complete(study, trial, flags)
    assert seen == {1, 2, 3, 4, 5}
    with pytest.raises(SpaceExhausted):
        sampler.propose(study, len(study.trials))
    trial = study.ask()
    assert SMALL.contains(SMALL.suggest(trial)), "Optuna is answered all the same"


def proposals(seed: int | None, space: SearchSpace, n: int = 8) -> list[dict[str, FlagValue]]:
    study = study_with(CanonicalTPESampler(space, seed=seed))
    made = []
    for _ in range(n):
        trial = study.ask()
        flags = space.suggest(trial)
        made.append(flags)
        tell_complete(study, trial, flags)
    return made


@pytest.mark.parametrize("seed", [0, 1, 50_000, 2**31])
def test_the_same_seed_proposes_the_same(seed: int) -> None:
    assert proposals(seed, LARGE) == proposals(seed, LARGE)


def test_other_seeds_propose_other_configurations() -> None:
    assert proposals(0, LARGE) != proposals(1, LARGE)


def test_a_sampler_made_anew_goes_on_as_the_old_one_would() -> None:
    study = study_with(CanonicalTPESampler(LARGE, seed=7))
    for _ in range(8):
        trial = study.ask()
        tell_complete(study, trial, LARGE.suggest(trial))
    number = len(study.trials)
    first = CanonicalTPESampler(LARGE, seed=7).propose(study, number)
    assert CanonicalTPESampler(LARGE, seed=7).propose(study, number) == first


def test_a_running_trial_is_not_proposed_again() -> None:
    study = study_with(CanonicalTPESampler(SMALL, seed=0))
    seen = [SMALL.suggest(study.ask())["speculative_num_steps"] for _ in range(SMALL.size)]
    assert sorted(seen) == [1, 2, 3, 4, 5]


def test_an_interrupted_configuration_may_be_proposed_again() -> None:
    sampler = CanonicalTPESampler(SMALL, seed=0)
    study = study_with(sampler)
    for _ in range(SMALL.size):
        trial = study.ask()
        tell_failed(study, trial, SMALL.suggest(trial), FailureKind.INTERRUPTED)
    assert SMALL.contains(sampler.propose(study, len(study.trials)))


def test_an_enqueued_trial_keeps_its_values() -> None:
    study = study_with(CanonicalTPESampler(LARGE, seed=0))
    wanted = {
        "speculative_num_steps": 2, "speculative_eagle_topk": 4,
        "speculative_num_draft_tokens": 9, "mem_fraction_static": 0.77,
    }  # fmt: skip
    study.enqueue_trial(wanted)
    assert LARGE.suggest(study.ask()) == wanted


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["complete", "failed", "running", "foreign", "junk", "enqueued"]),
        st.sampled_from(
            [
                FailureKind.GRAPH_CAPTURE_OOM, FailureKind.RUNTIME_OOM,
                FailureKind.KV_DOES_NOT_FIT, FailureKind.REJECTED_COMBINATION,
                FailureKind.CRASHED, FailureKind.INTERRUPTED,
            ]
        ),
        st.integers(0, 10**6),
    ),
    max_size=14,
)  # fmt: skip
FOREIGN_PARAMS: tuple[dict[str, Any], ...] = (
    {"x": 1.5},
    {"speculative_num_steps": 3, "other": 1},
    {"speculative_num_steps": 3.0},
    {"mem_fraction_static": 0.7},
)
JUNK: tuple[Any, ...] = (
    None, 7, "record", [], {}, {"schema": 99}, {"schema": 1, "number": 0, "status": "complete"},
    {"schema": 1, "number": 0, "status": "failed", "flags": {"speculative_num_steps": "auto"},
     "failure": {"kind": "runtime_oom", "stage": "", "evidence": "", "remedy": ""}},
)  # fmt: skip


def add_foreign(study: optuna.Study, params: dict[str, Any]) -> None:
    distributions: dict[str, optuna.distributions.BaseDistribution] = {
        name: optuna.distributions.FloatDistribution(0, 100) for name in params
    }
    study.add_trial(
        optuna.trial.create_trial(values=[1.0, 2.0], params=params, distributions=distributions)
    )


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([SMALL, LARGE]), STEPS, st.integers(0, 3))
def test_whatever_a_study_holds_a_proposal_is_legal_new_and_behind_no_wall(
    space: SearchSpace, history: list[tuple[str, FailureKind, int]], seed: int
) -> None:
    sampler = CanonicalTPESampler(space, seed=seed)
    study = study_with(sampler)
    taken: set[Any] = set()
    for event, kind, draw in history:
        if event == "foreign":
            add_foreign(study, FOREIGN_PARAMS[draw % len(FOREIGN_PARAMS)])
            continue
        if event == "enqueued":
            configurations = list(SMALL.configurations())
            chosen = configurations[draw % len(configurations)]
            study.enqueue_trial({k: v for k, v in chosen.items() if k in space.parameters})
        trial = study.ask()
        flags = space.suggest(trial)
        if event == "junk":
            trial.set_user_attr("record", JUNK[draw % len(JUNK)])
            study.tell(trial, state=TrialState.FAIL)
            continue
        if event == "complete":
            tell_complete(study, trial, flags)
        elif event == "failed":
            tell_failed(study, trial, flags, kind)
        if not (event == "failed" and kind is FailureKind.INTERRUPTED):
            taken.add(flag_key(flags))
    found = [record_from(t.user_attrs.get("record")) for t in study.trials]
    walls = MemoryWalls.learn(record for record in found if record is not None)
    try:
        proposed = sampler.propose(study, len(study.trials))
    except SpaceExhausted:
        free = [c for c in space.configurations() if flag_key(c) not in taken]
        assert len(free) < space.size
        alive = sum(walls.why_not(flags) is None for flags in free)
        assert space is SMALL or alive <= 0.01 * space.size, "a large space does not run out"
        return
    assert space.contains(proposed)
    assert flag_key(proposed) not in taken
    assert walls.why_not(proposed) is None


def test_a_study_of_ones_own_needs_only_the_public_names() -> None:
    import autotune
    import autotune.search

    space, objective = autotune.load_space("steps-only"), autotune.load_objective("agentic")
    assert objective.latency_weight == 0.7
    study = optuna.create_study(
        directions=["minimize", "maximize"],
        sampler=autotune.search.CanonicalTPESampler(space, seed=0),
    )
    seen = []
    for number in range(5):
        trial = study.ask()
        flags = space.suggest(trial)
        seen.append(space.key(flags))
        record = {"number": number, "status": "complete", "flags": flags}
        trial.set_user_attr("record", record)
        study.tell(trial, [1.0 / (number + 1), 100.0])
    assert len(set(seen)) == 5
