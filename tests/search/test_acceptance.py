from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from autotune.search.acceptance import AcceptTable

Q_LOGIT, LOG_DECAY, RHO_LOGIT = 0.75, -3.2, 0.0
"""Points of the grid, or the interpolation is tested too."""


def expected(
    triple: tuple[int, int, int],
    q_logit: float = Q_LOGIT,
    decay: float = LOG_DECAY,
    rho: float = RHO_LOGIT,
) -> float:
    table = AcceptTable.of([triple])

    def one(value: float) -> npt.NDArray[np.float64]:
        return np.array([value])

    return float(table.expected(one(q_logit), one(0.0), one(decay), one(rho))[0, 0])


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def by_hand(triple: tuple[int, int, int]) -> float:
    """Node by node: each level keeps its best, and the best of all scored ones are verified."""
    steps, topk, draft = triple
    q, decay, rho = sigmoid(Q_LOGIT), math.exp(LOG_DECAY), sigmoid(RHO_LOGIT)
    level, scored = [1.0], []
    for depth in range(steps):
        children = []
        for parent in level:
            left = 1.0
            for sibling in range(topk):
                share = q * math.exp(-decay * depth) if sibling == 0 else rho * left
                left -= share
                children.append(parent * share)
        scored += children
        level = sorted(children, reverse=True)[:topk]
    return 1.0 + sum(sorted(scored, reverse=True)[: draft - 1])


@pytest.mark.parametrize(
    "triple", [(1, 1, 2), (3, 1, 4), (1, 4, 5), (2, 2, 5), (3, 4, 16), (5, 8, 32), (4, 2, 64)]
)
def test_it_is_the_sum_of_the_paths_of_the_verified_nodes(triple: tuple[int, int, int]) -> None:
    assert expected(triple) == pytest.approx(by_hand(triple), rel=0.01)


def test_without_speculation_a_pass_yields_one_token() -> None:
    assert expected((0, 1, 1)) == 1.0


def test_it_grows_with_steps_width_draft_and_acceptance() -> None:
    chains = [expected((steps, 1, steps + 1)) for steps in range(1, 9)]
    assert chains == sorted(chains)
    assert expected((4, 1, 5)) < expected((4, 2, 8)) < expected((4, 2, 12)) < expected((4, 8, 32))
    by_q = [expected((4, 2, 8), q) for q in (-3.0, -1.0, 0.5, 2.0, 6.0)]
    assert by_q == sorted(by_q)
    assert expected((4, 1, 5), decay=-0.5) < expected((4, 1, 5), decay=-5.0)


@pytest.mark.parametrize("q_logit", [-50.0, -1.0, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("triple", [(1, 1, 2), (4, 1, 5), (3, 8, 40), (8, 4, 64)])
def test_it_lies_between_one_and_a_full_path(triple: tuple[int, int, int], q_logit: float) -> None:
    assert 1.0 <= expected(triple, q_logit, rho=1.5) <= triple[0] + 1


def test_a_table_of_no_tree_is_empty() -> None:
    assert AcceptTable.of([]).lengths.shape[-1] == 0
