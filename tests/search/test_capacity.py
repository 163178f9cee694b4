from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autotune.search.capacity import keeps_states, room
from autotune.search.cost import Room
from autotune.search.memory import learn_memory
from autotune.search.observation import Observation
from autotune.space.rules import DRAFT, MEMORY

N = 200


def launched(fraction: float, draft: int, **told: Any) -> Observation:  # noqa: ANN401
    return Observation(0, {MEMORY: fraction, DRAFT: draft}, "measured", **told)


def predicted(seen: list[Observation], fraction: float, draft: float) -> Room:
    rng = np.random.default_rng(0)
    memory = learn_memory(seen, rng)
    return room(seen, memory, np.array([fraction]), np.array([float(draft)]), rng, N)


def hybrid(fraction: float, draft: int) -> float:
    """The limit of a made-up hybrid model."""
    return float(40 * (1 - 0.35 * ((draft / 4) ** 0.8 - 1) + 2.5 * (fraction - 0.8)))


@pytest.mark.parametrize(("fraction", "draft"), [(0.85, 5), (0.75, 4), (0.9, 6), (0.82, 3)])
def test_the_law_of_a_hybrid_model_is_learned_from_four_launches(
    fraction: float, draft: int
) -> None:
    settings = ((0.8, 4), (0.8, 8), (0.88, 4), (0.76, 6))
    seen = [launched(f, d, running_limit=hybrid(f, d)) for f, d in settings]
    limits = predicted(seen, fraction, draft).running_limit
    assert np.median(limits) == pytest.approx(hybrid(fraction, draft), rel=0.08)
    assert keeps_states(seen)


def test_a_limit_that_did_not_change_stays() -> None:
    seen = [launched(0.85, draft, running_limit=64.0) for draft in (3, 4, 8)]
    limits = predicted(seen, 0.7, 32).running_limit
    assert (limits == 64).mean() > 0.9
    assert not keeps_states(seen)


def test_a_round_default_is_taken_for_a_constant_at_once() -> None:
    seen = [launched(0.85, 4, running_limit=48.0)]
    assert (predicted(seen, 0.7, 32).running_limit == 48).mean() > 0.9
    assert not keeps_states(seen)


def test_one_odd_limit_leaves_open_which_law_holds() -> None:
    limits = predicted([launched(0.85, 4, running_limit=23.0)], 0.85, 16).running_limit
    assert 0.2 < (limits == 23).mean() < 0.8
    assert (limits > 0).all() and limits.min() < 20


def test_the_cache_grows_in_proportion_to_what_is_above_the_weights() -> None:
    seen = [launched(f, 4, gpu_gb=80.0, kv_tokens=1e6 * (f - 0.6)) for f in (0.75, 0.8, 0.85)]
    for fraction in (0.7, 0.9):
        tokens = predicted(seen, fraction, 4).kv_tokens
        assert np.median(tokens) == pytest.approx(1e6 * (fraction - 0.6), rel=0.1)


def test_nothing_told_is_no_limit() -> None:
    unknown = predicted([launched(0.85, 4)], 0.7, 4)
    assert np.isinf(unknown.running_limit).all() and np.isinf(unknown.kv_tokens).all()
    assert not keeps_states([launched(0.85, 4)])
