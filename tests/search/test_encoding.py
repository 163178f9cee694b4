from __future__ import annotations

import numpy as np
import pytest

from autotune.core.ranking import flag_key
from autotune.core.trial import Flags
from autotune.search.encoding import OFF, Encoder, Pool, fractions, triple_of
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from tests.search.histories import SPACES, at_random


@pytest.mark.parametrize("name", SPACES)
def test_equal_flags_are_equal_points_and_all_numbers_are_finite(name: str) -> None:
    space = SPACES[name]
    encoder = Encoder(space)
    flags = [at_random(space, i % 10) for i in range(20)]
    points = encoder.features(flags)
    assert (points.own[:10] == points.own[10:]).all()
    assert np.isfinite(points.tree).all() and np.isfinite(points.other).all()
    assert len(encoder.physical) + len(encoder.others) >= len(space.parameters)
    numeric = points.other[:, ~points.categorical]
    assert ((numeric >= 0) & (numeric <= 1)).all()
    assert encoder.features([]).own.size == 0


def test_words_and_switches_have_no_order_and_numbers_to_choose_from_have() -> None:
    encoder = Encoder(SPACES["ordinary"])
    kinds = dict(zip(encoder.others, encoder.features([]).categorical, strict=True))
    assert {name for name, is_category in kinds.items() if is_category} == {
        "attention_backend", "schedule_policy", "enable_mixed_chunk",
    }  # fmt: skip


def test_values_that_are_missing_or_none_of_the_space_are_points_too() -> None:
    for name in ("ordinary", "mixed"):
        points = Encoder(SPACES[name]).features(
            [{}, {"attention_backend": "unheard", "chunked_prefill_size": "x", STEPS: "auto"}]
        )
        assert np.isfinite(points.tree).all() and np.isfinite(points.other).all()


def test_flags_without_a_tree_are_speculation_off() -> None:
    assert triple_of({STEPS: 3, TOPK: 1, DRAFT: 4}) == (3, 1, 4)
    foreign: tuple[Flags, ...] = (
        {}, {STEPS: 3}, {STEPS: 0, TOPK: 1, DRAFT: 1}, {STEPS: "x", TOPK: 1, DRAFT: 2},
    )  # fmt: skip
    for flags in foreign:
        assert triple_of(flags) == OFF
    assert list(fractions([{MEMORY: 0.7}, {}, {MEMORY: "auto"}], 0.8)) == [0.7, 0.8, 0.8]


@pytest.mark.parametrize("name", ["steps-only", "single", "no fraction", "mixed"])
def test_a_small_space_is_looked_at_whole(name: str) -> None:
    pool = Pool.whole(SPACES[name])
    assert pool is not None and pool.complete
    assert len({flag_key(f) for f in pool.configurations}) == SPACES[name].size


def test_of_a_large_space_legal_configurations_are_drawn_each_once() -> None:
    space = SPACES["large"]
    assert Pool.whole(space) is None
    good = at_random(space, 1)
    pool = Pool.sampled(space, [good, {STEPS: 3}], np.random.default_rng(0))
    keys = {flag_key(f) for f in pool.configurations}
    assert len(keys) == len(pool.configurations) > 250
    assert all(space.contains(f) for f in pool.configurations[::17])
    beside = {**good, "enable_mixed_chunk": not good["enable_mixed_chunk"]}
    assert flag_key(beside) in keys, "neighbours of good ones are there"
