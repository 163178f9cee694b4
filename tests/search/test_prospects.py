"""After its first phase a launch is left only where the model has no hope left for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.trial import TrialState

from autotune.core.objective import PRESETS, objective_named
from autotune.core.ranking import flag_key
from autotune.core.trial import Flags, FlagValue
from autotune.search import Prospects, SpeculativeSampler, prospects, recommend
from autotune.search.knowledge import Knowledge
from autotune.search.observation import observations
from autotune.space import load_space
from tests.search.histories import measured_record, new_study
from tests.study.fakes import chain, half_record

SPACE = load_space("speculative")
AGENTIC = objective_named("agentic")


def at(steps: int, topk: int = 1, draft: int | None = None) -> dict[str, FlagValue]:
    flags = {**chain(steps), "mem_fraction_static": 0.85}
    return flags | ({} if draft is None else {
        "speculative_eagle_topk": topk, "speculative_num_draft_tokens": draft,
    })  # fmt: skip


def study_of(values: Mapping[int, tuple[float, float]], **more: Any) -> optuna.Study:  # noqa: ANN401
    """A chain of each number of steps, measured."""
    study = new_study(SpeculativeSampler(SPACE, AGENTIC, seed=0))
    for steps, (latency, throughput) in values.items():
        add(study, at(steps), latency, throughput, **more)
    return study


def add(
    study: optuna.Study, flags: Flags, latency: float, throughput: float, *, feasible: bool = True
) -> None:
    study.enqueue_trial(dict(flags))
    trial = study.ask()
    SPACE.suggest(trial)
    record = measured_record(trial.number, flags, feasible=feasible)
    around = {"latency_s": latency, "throughput_tok_s": throughput}
    record["objectives"] = {
        name: {"value": v, "low": 0.99 * v, "high": 1.01 * v} for name, v in around.items()
    }
    record["phases"][0]["turn_latency_s"] = record["objectives"]["latency_s"]
    for phase in record["phases"][1:]:
        phase["output_tok_s"] = record["objectives"]["throughput_tok_s"]
    trial.set_user_attr("record", record)
    study.tell(trial, [latency, throughput])


def left_at(study: optuna.Study, flags: Flags, latency_s: float) -> Prospects | None:
    half = half_record(len(study.trials), flags, latency_s)
    return prospects(study, SPACE, AGENTIC, half.to_dict(), seed=0)


KNOWN = {2: (1.0, 1500.0), 3: (0.9, 1500.0), 4: (0.85, 1480.0), 5: (0.86, 1400.0)}


def test_a_launch_that_is_slow_at_once_is_hopeless() -> None:
    found = left_at(study_of(KNOWN), at(6, 8, 48), 2.5)
    assert found is not None and found.are_hopeless
    assert "less than 0.1 % likely to become the best" in found.why()


def test_a_launch_that_is_as_fast_as_the_best_is_not() -> None:
    found = left_at(study_of(KNOWN), at(4, 4, 8), 0.86)
    assert found is not None and not found.are_hopeless and found.best > 0.02


def test_what_may_add_to_the_front_is_not() -> None:
    """Slow alone, and it may be the most that the box can serve."""
    falling = {3: (0.9, 1250.0), 4: (0.85, 1000.0), 5: (0.86, 800.0)}
    found = left_at(study_of(falling), at(2), 1.0)
    assert found is not None and found.front > 0.005 and not found.are_hopeless


def test_before_three_configurations_nobody_can_tell() -> None:
    study = study_of({2: KNOWN[2], 3: KNOWN[3]})
    assert left_at(study, at(8, 8, 48), 9.0) is None
    add(study, at(3), 0.91, 1490.0)
    assert left_at(study, at(8, 8, 48), 9.0) is None, "a repeat is no other configuration"


def test_where_nothing_keeps_the_constraints_nothing_is_left() -> None:
    assert left_at(study_of(KNOWN, feasible=False), at(8, 8, 48), 9.0) is None


def test_a_record_without_a_latency_tells_nothing() -> None:
    record = half_record(4, at(8), 1.0).to_dict() | {"phases": []}
    assert prospects(study_of(KNOWN), SPACE, AGENTIC, record) is None


@settings(max_examples=12)
@given(
    latencies=st.lists(st.floats(0.5, 2.0), min_size=3, max_size=5),
    throughputs=st.lists(st.floats(300.0, 3000.0), min_size=5, max_size=5),
    steps=st.integers(1, 8),
    topk=st.sampled_from([2, 4, 8]),
    faster=st.floats(0.2, 0.999),
)
def test_whoever_is_faster_alone_than_all_others_is_never_left(
    latencies: list[float], throughputs: list[float], steps: int, topk: int, faster: float
) -> None:
    values = dict(enumerate(zip(latencies, throughputs, strict=False), start=2))
    found = left_at(study_of(values), at(steps, topk, 1 + topk), faster * min(latencies))
    assert found is not None and not found.are_hopeless


# ---- what a pruned trial teaches -------------------------------------------------------------


def prune(study: optuna.Study, flags: Flags, record: dict[str, Any] | None) -> None:
    study.enqueue_trial(dict(flags))
    trial = study.ask()
    SPACE.suggest(trial)
    if record is not None:
        trial.set_user_attr("record", record | {"number": trial.number})
    study.tell(trial, state=TrialState.PRUNED)


@pytest.mark.parametrize("told", [True, False])
def test_it_is_taken_and_no_crash(told: bool) -> None:
    study = study_of(KNOWN)
    flags = at(6, 8, 48)
    prune(study, flags, half_record(0, flags, 2.5).to_dict() if told else None)
    last = observations(study, SPACE)[-1]
    assert (last.outcome, last.failure, last.throughput) == ("pruned", None, None)
    assert (last.latency is not None) == told
    sampler = SpeculativeSampler(SPACE, AGENTIC, seed=0)
    for number in range(len(study.trials), len(study.trials) + 3):
        assert flag_key(sampler.propose(study, number)) != flag_key(flags)
    assert recommend(study, SPACE, AGENTIC).flags != flags


def test_its_latency_is_learned_and_its_throughput_stays_open() -> None:
    slow = at(6, 8, 48)
    predicted = []
    for is_pruned in (False, True):
        study = study_of(KNOWN)
        if is_pruned:
            prune(study, slow, half_record(0, slow, 2.5).to_dict())
        known = Knowledge(SPACE, PRESETS["agentic"], observations(study, SPACE), [0, 0])
        features = known.catalogue.encoder.features([slow])
        found = known.surrogate.predict([slow], features)
        sd = math.hypot(float(found.log_throughput.std()), float(found.throughput_sd[0]))
        predicted.append((float(found.log_latency.mean()), sd, len(known.in_hand[0])))
    assert abs(predicted[1][0] - math.log(2.5)) < abs(predicted[0][0] - math.log(2.5))
    assert abs(predicted[1][0] - math.log(2.5)) < 0.1
    assert predicted[1][1] > 0.02, "nobody has measured its throughput"
    assert predicted[1][2] == predicted[0][2], "and nobody can deploy it on that"


def test_a_launch_that_breaks_a_limit_beyond_doubt_is_hopeless_however_fast() -> None:
    study = study_of({1: (2.0, 1000.0), 2: (1.8, 1000.0), 3: (1.7, 1000.0), 4: (1.65, 1000.0)})
    record = half_record(9, at(5), 1.2).to_dict()
    kept = prospects(study, SPACE, AGENTIC, record)
    assert kept is not None and not kept.are_hopeless
    for over, hopeless in ((0.3, True), (0.01, False)):
        broken = prospects(study, SPACE, AGENTIC, {**record, "constraints": {"ttft_p95_s@1": over}})
        assert broken is not None
        assert broken.are_hopeless == hopeless
