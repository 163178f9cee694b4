from __future__ import annotations

import itertools
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.engine.simulated.acceptance import (
    AcceptDistribution,
    DraftQuality,
    accept_distribution,
)

probability = st.floats(0.05, 0.98)
qualities = st.builds(
    lambda share, a, b, decay, rho: DraftQuality(((share, a), (1 - share, b)), decay, rho=rho),
    st.floats(0.0, 1.0),
    probability,
    probability,
    st.floats(0.0, 0.3),
    st.floats(0.0, 0.9),
)
depths, widths, sizes = st.integers(1, 6), st.integers(1, 6), st.integers(1, 40)


@given(qualities, depths, widths, sizes)
def test_the_mean_lies_between_one_token_and_a_full_path(
    quality: DraftQuality, steps: int, topk: int, draft_tokens: int
) -> None:
    mean = accept_distribution(quality, steps, topk, draft_tokens).mean
    assert 1.0 <= mean <= min(steps, draft_tokens - 1) + 1 + 1e-9


@given(qualities, depths, widths, sizes)
def test_it_is_a_distribution(
    quality: DraftQuality, steps: int, topk: int, draft_tokens: int
) -> None:
    cumulative = accept_distribution(quality, steps, topk, draft_tokens).cumulative
    assert len(cumulative) == steps + 1 and cumulative[-1] == 1.0
    assert all(0.0 <= c <= 1.0 for c in cumulative)
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(cumulative))


@given(qualities, depths, widths, sizes)
def test_a_larger_tree_never_accepts_less(
    quality: DraftQuality, steps: int, topk: int, draft_tokens: int
) -> None:
    means = [
        accept_distribution(quality, steps, topk, d).mean for d in (draft_tokens, draft_tokens + 1)
    ]
    assert means[1] >= means[0] - 1e-12


@given(probability, depths)
def test_a_chain_of_equal_chances_is_a_geometric_series(q: float, steps: int) -> None:
    quality = DraftQuality(((1.0, q),), decay=0.0)
    mean = accept_distribution(quality, steps, 1, steps + 1).mean
    assert mean == pytest.approx(sum(q**depth for depth in range(steps + 1)))


@given(probability, st.floats(0.0, 0.3), depths)
def test_decay_lowers_each_depth(q: float, decay: float, steps: int) -> None:
    mean = accept_distribution(DraftQuality(((1.0, q),), decay), steps, 1, steps + 1).mean
    expected, path = 1.0, 1.0
    for depth in range(1, steps + 1):
        path *= q * math.exp(-decay * depth)
        expected += path
    assert mean == pytest.approx(expected)


def test_a_tree_beats_a_chain_of_the_same_depth() -> None:
    quality = DraftQuality(((1.0, 0.6),), decay=0.02)
    chain = accept_distribution(quality, 3, 1, 4).mean
    assert accept_distribution(quality, 3, 4, 16).mean > chain


def test_a_mixture_is_the_average_of_its_parts() -> None:
    easy, hard = (DraftQuality(((1.0, q),), 0.03) for q in (0.9, 0.4))
    both = DraftQuality(((0.6, 0.9), (0.4, 0.4)), 0.03)
    means = [accept_distribution(quality, 4, 1, 5).mean for quality in (easy, hard, both)]
    assert means[2] == pytest.approx(0.6 * means[0] + 0.4 * means[1])


def test_without_speculation_every_pass_is_one_token() -> None:
    alone = accept_distribution(DraftQuality(((1.0, 0.9),), 0.0), 0, 1, 1)
    assert alone == AcceptDistribution((1.0,))
    assert (alone.mean, alone.draw(0.0), alone.draw(0.999)) == (1.0, 1, 1)


@settings(max_examples=25)
@given(qualities, depths, widths, st.integers(2, 20), st.integers(0, 99))
def test_draws_come_as_often_as_the_distribution_says(
    quality: DraftQuality, steps: int, topk: int, draft_tokens: int, seed: int
) -> None:
    distribution = accept_distribution(quality, steps, topk, draft_tokens)
    draw, n = Random(seed), 4000
    seen = [distribution.draw(draw.random()) for _ in range(n)]
    assert min(seen) >= 1 and max(seen) <= min(steps, draft_tokens - 1) + 1
    for tokens, cumulative in enumerate(distribution.cumulative, start=1):
        share = sum(s <= tokens for s in seen) / n
        assert abs(share - cumulative) < 5 * math.sqrt(0.25 / n)
