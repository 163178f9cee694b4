from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from autotune.search.acquisition import (
    expected_hypervolume_improvement,
    expected_improvement,
    hypervolume,
    per_minute,
    told_by_a_launch,
    value_of_replicate,
)

RNG = np.random.default_rng(0)


def test_expected_improvement_is_that_of_many_draws() -> None:
    means, sd, best = RNG.normal(0, 1, (3, 4)), np.array([0.1, 0.5, 1.0, 2.0]), RNG.normal(0, 1, 3)
    normals = RNG.standard_normal((200_000, 1, 1))
    drawn = np.maximum(means + sd * normals - best[:, None], 0).mean(axis=(0, 1))
    assert expected_improvement(means, sd, best) == pytest.approx(drawn, abs=0.01)


def test_a_second_launch_is_worth_what_the_better_decision_after_it_gains() -> None:
    for mean, rival, sd in ((0.0, 0.0, 0.1), (0.05, 0.0, 0.1), (0.0, 0.05, 0.1)):
        then = np.maximum(mean + sd * RNG.standard_normal(400_000), rival).mean()
        told = value_of_replicate(mean, sd, rival)
        assert float(told) == pytest.approx(then - max(mean, rival), abs=5e-4)


def test_a_second_launch_is_worth_nothing_where_no_rival_is_near() -> None:
    assert float(value_of_replicate(1.0, 0.01, 0.0)) == pytest.approx(0.0, abs=1e-12)
    assert float(value_of_replicate(0.0, 0.01, 1.0)) == pytest.approx(0.0, abs=1e-12)
    close, far = value_of_replicate(0.0, 0.1, 0.01), value_of_replicate(0.0, 0.1, 0.2)
    assert close > far > 0


def test_a_second_launch_is_worth_the_same_from_either_side() -> None:
    above, below = value_of_replicate(0.3, 0.1, 0.2), value_of_replicate(0.2, 0.1, 0.3)
    assert float(above) == pytest.approx(float(below))


def test_what_is_known_moves_less_than_what_is_not() -> None:
    moved = told_by_a_launch(np.array([0.0, 0.001, 0.02, 1.0]), 0.02)
    assert (np.diff(moved) >= 0).all() and (moved > 0).all()
    assert moved[-1] == pytest.approx(1.0, rel=0.01)
    assert (moved <= np.maximum([0.0, 0.001, 0.02, 1.0], 1e-6)).all()


def area_by_counting(points: npt.NDArray[np.float64], n: int = 400) -> float:
    """Share of a grid of cells of the unit square, all below some point."""
    at = (np.arange(n) + 0.5) / n
    x, y = np.meshgrid(at, at)
    covered = np.zeros((n, n), dtype=bool)
    for px, py in points:
        covered |= (x <= px) & (y <= py)
    return float(covered.mean())


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_the_hypervolume_is_the_area_below_the_points(n: int) -> None:
    points = RNG.uniform(0, 1, (n, 2))
    assert hypervolume(points, np.zeros(2)) == pytest.approx(area_by_counting(points), abs=0.01)


def test_points_that_are_equal_or_below_the_reference_add_nothing() -> None:
    points = np.array([[0.5, 0.5], [0.5, 0.5], [0.2, 0.5], [-1.0, 3.0], [0.0, 2.0]])
    assert hypervolume(points, np.zeros(2)) == pytest.approx(0.25)
    assert hypervolume(np.array([[-1.0, -1.0]]), np.zeros(2)) == 0.0


@pytest.mark.parametrize("n_front", [1, 3, 8])
def test_the_expected_growth_is_that_of_adding_each_draw(n_front: int) -> None:
    front = RNG.uniform(0.2, 0.8, (n_front, 2))
    sampled = RNG.uniform(-0.2, 1.2, (6, 7, 2))
    zero = np.zeros(2)
    before = hypervolume(front, zero)
    grown = [[hypervolume(np.vstack([front, p]), zero) - before for p in row] for row in sampled]
    found = expected_hypervolume_improvement(sampled, front, zero)
    assert found == pytest.approx(np.mean(grown, axis=0))


def test_who_may_die_is_worth_less_and_a_cheap_death_less_dear() -> None:
    gain, survival = np.ones(3), np.array([1.0, 0.5, 0.0])
    late, early = per_minute(gain, survival, 4.0, 4.0), per_minute(gain, survival, 4.0, 1.0)
    assert late == pytest.approx([0.25, 0.125, 0.0])
    assert early[1] > late[1] and early[0] == late[0] and early[2] == 0
    assert per_minute(gain, survival, 4.0, None)[1] == pytest.approx(0.5 / 3)
