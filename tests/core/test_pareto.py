from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.pareto import Point, dominates, front, hypervolume, knee

coordinate = st.integers(1, 12).map(float)
points = st.lists(st.tuples(coordinate, coordinate), max_size=20)


@given(points)
def test_nobody_on_the_front_is_beaten_and_everybody_else_is(given_points: list[Point]) -> None:
    chosen = front(given_points)
    on_it = {given_points[i] for i in chosen}
    assert len(on_it) == len(chosen)  # twins count once
    for point in given_points:
        beaten = any(dominates(other, point) for other in given_points)
        assert (point in on_it) != beaten


@given(points)
def test_the_front_goes_from_low_latency_to_high_throughput(given_points: list[Point]) -> None:
    members = [given_points[i] for i in front(given_points)]
    assert members == sorted(members)
    assert [m[1] for m in members] == sorted(m[1] for m in members)


@given(points)
def test_the_knee_is_on_the_front(given_points: list[Point]) -> None:
    bend = knee(given_points)
    assert (bend is None) == (not given_points)
    if bend is not None:
        assert bend in front(given_points)


def test_the_knee_is_the_point_farthest_above_the_chord() -> None:
    assert knee([(1.0, 10.0), (1.5, 80.0), (2.0, 90.0), (3.0, 100.0)]) == 1


def test_the_knee_does_not_depend_on_the_units() -> None:
    seconds = [(1.0, 10.0), (1.5, 40.0), (2.0, 90.0), (3.0, 100.0)]
    assert knee(seconds) == knee([(1000 * x, y / 60) for x, y in seconds]) == 2


def test_two_points_have_no_bend() -> None:
    assert knee([(2.0, 90.0), (1.0, 10.0)]) == 1


@given(points, st.tuples(coordinate, coordinate), st.tuples(coordinate, coordinate))
def test_one_more_point_never_lowers_the_hypervolume(
    given_points: list[Point], more: Point, reference: Point
) -> None:
    before = hypervolume(given_points, reference)
    assert before >= 0.0
    assert hypervolume([*given_points, more], reference) >= before - 1e-9


@given(points, st.tuples(coordinate, coordinate))
def test_only_the_front_counts_for_the_hypervolume(
    given_points: list[Point], reference: Point
) -> None:
    alone = [given_points[i] for i in front(given_points)]
    assert hypervolume(alone, reference) == hypervolume(given_points, reference)


def test_the_hypervolume_of_a_staircase_is_the_sum_of_its_steps() -> None:
    steps = [(1.0, 10.0), (2.0, 20.0)]
    assert hypervolume(steps, (3.0, 0.0)) == pytest.approx(2.0 * 10.0 + 1.0 * 10.0)


def test_points_outside_the_reference_add_nothing() -> None:
    assert hypervolume([(4.0, 50.0), (1.0, -5.0)], (3.0, 0.0)) == 0.0
