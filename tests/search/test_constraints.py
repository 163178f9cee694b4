from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import TrialState

from autotune.core.objective import objective_named
from autotune.core.trial import Flags
from autotune.search import Recommendation, SpeculativeSampler, recommend
from autotune.search.constraints import Constraints
from autotune.search.residual import Features
from autotune.space.rules import STEPS
from benchmarks.search.tasks import world_named
from tests.search.histories import SPACES, measured_record, new_study, values_of

SPACE = SPACES["speculative"]
AGENTIC = objective_named("agentic")


def at(values: list[float]) -> Features:
    tree = np.zeros((len(values), 4))
    tree[:, 0] = values
    return Features(tree, np.zeros((len(values), 0)), np.zeros(0, bool), np.arange(len(values)))


def learned(violations: Sequence[Mapping[str, float]], latency: list[float]) -> Constraints:
    values = np.column_stack([latency, np.zeros(len(latency))])
    return Constraints.learn(violations, at(latency), values)


def test_no_constraint_is_always_kept() -> None:
    nothing = learned([{}, {}], [0.0, 0.1])
    assert nothing.probability(at([0.5]), np.zeros((1, 2))).tolist() == [1.0]


def test_what_kept_a_limit_by_far_keeps_it_and_what_broke_it_does_not() -> None:
    constraints = learned([{"a": -0.4}, {"a": 0.5}], [0.0, 0.8])
    kept, broken = constraints.probability(at([0.0, 0.8]), np.array([[0.0, 0.0], [0.8, 0.0]]))
    assert kept > 0.99
    assert broken < 0.01


def test_one_launch_over_the_limit_says_that_less_latency_is_likelier_to_keep_it() -> None:
    constraints = learned([{"a": 0.2}], [0.0])
    asked = np.array([[-0.6, 0.0], [-0.3, 0.0], [0.3, 0.0]])
    less, somewhat, more = constraints.probability(at([9.0, 9.0, 9.0]), asked)
    assert less > somewhat > more


def test_a_launch_must_keep_all_limits() -> None:
    one = learned([{"a": -0.1}], [0.0])
    two = learned([{"a": -0.1, "b": 0.3}], [0.0])
    point, values = at([0.0]), np.zeros((1, 2))
    assert two.probability(point, values)[0] < 0.1 < one.probability(point, values)[0]


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.floats(-1, 1e6), max_size=2), min_size=1),
    st.integers(0, 99),
)
def test_whatever_launches_tell_the_answer_is_a_probability(
    violations: list[dict[str, float]], seed: int
) -> None:
    latency = np.random.default_rng(seed).normal(0, 1, len(violations)).tolist()
    constraints = learned(violations, latency)
    found = constraints.probability(at([0.0, 3.0]), np.array([[0.0, 0.0], [3.0, -3.0]]))
    assert ((found >= 0) & (found <= 1)).all()


@given(st.integers(0, 99))
def test_progress_is_never_negative_and_none_where_the_limit_is_kept(seed: int) -> None:
    rng = np.random.default_rng(seed)
    violations = [{"a": float(v)} for v in rng.normal(0.3, 0.3, 4)]
    constraints = learned(violations, rng.normal(0, 0.5, 4).tolist())
    asked = (at([0.0, 2.0, 9.0]), rng.normal(0, 0.5, (3, 2)))
    assert (constraints.progress(*asked, {"a": 0.4}) >= -1e-12).all()
    assert constraints.progress(*asked, {"a": -0.2}) == pytest.approx(0.0, abs=1e-12)


def test_what_comes_closer_to_a_far_limit_is_worth_more_than_what_is_known_least() -> None:
    constraints = learned([{"a": 0.6}], [0.0])
    closer, unknown = constraints.progress(
        at([1.0, 9.0]), np.array([[-0.2, 0.0], [0.3, -1.0]]), {"a": 0.6}
    )
    assert closer > unknown


def with_limit(number: int, flags: Flags, most_s: float) -> dict[str, Any]:
    record = measured_record(number, flags)
    off = record["objectives"]["latency_s"]["value"] / most_s - 1
    return {**record, "constraints": {"turn_latency_s@1": off}}


def test_a_search_finds_what_keeps_a_limit_that_few_configurations_keep() -> None:
    world = world_named("poor-draft-32b", 2)
    latencies = world.candidates.latency_s
    most_s = 1.03 * float(latencies.min())
    assert np.mean(latencies <= most_s) < 0.05
    sampler = SpeculativeSampler(world.space, AGENTIC, seed=0)
    study = new_study(sampler)
    study.enqueue_trial({name: world.baseline[name] for name in world.space.parameters})

    def goes_on(n_launches: int) -> Recommendation:
        for _ in range(n_launches):
            trial = study.ask()
            record = world.launch(world.space.suggest(trial), trial.number)
            if record["failure"] is None:
                off = record["objectives"]["latency_s"]["value"] / most_s - 1
                record["constraints"] = {"turn_latency_s@1": off}
            trial.set_user_attr("record", record)
            study.tell(trial, state=TrialState.FAIL)  # the record alone teaches
        return recommend(study, world.space, AGENTIC)

    _, point = world.risk(goes_on(8).flags)
    assert point is not None
    assert point[0] <= most_s, "in truth: one launch keeps a limit or misses it by its luck"
    assert goes_on(4).keeps_limits


def test_where_no_launch_keeps_the_limits_the_search_says_so_and_goes_on() -> None:
    study = new_study(SpeculativeSampler(SPACE, AGENTIC, seed=0))
    for steps in (1, 2, 3, 4, 5):
        flags = SPACE.nearest_legal({**next(SPACE.configurations()), STEPS: steps})
        trial = study.ask(SPACE.distributions())
        most_s = values_of(flags)[0] / (1.1 + 0.1 * abs(steps - 3))
        trial.set_user_attr("record", with_limit(trial.number, flags, most_s))
        study.tell(trial, values_of(flags))
    found = recommend(study, SPACE, AGENTIC)
    assert not found.keeps_limits
    assert not found.stop
    assert "no launch has kept every limit" in found.why()
    closest = min(
        study.trials, key=lambda t: t.user_attrs["record"]["constraints"]["turn_latency_s@1"]
    )
    assert found.trial == closest.number
