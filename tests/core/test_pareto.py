from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.pareto import (
    Point,
    Region,
    dominates,
    dominates_for_sure,
    front,
    hypervolume,
    knee,
    same,
    uncertain_front,
    weight_ranges,
)

from .samples import exactly

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


# ---- with intervals -------------------------------------------------------------------------


def region(latency: float, throughput: float, half: float = 0.01) -> Region:
    return Region(exactly(latency, half), exactly(throughput, half))


regions = st.lists(
    st.builds(region, coordinate, coordinate, st.sampled_from([0.001, 0.05, 0.4])), max_size=12
)


@given(regions)
def test_the_uncertain_front_is_the_front_and_its_equals(given_regions: list[Region]) -> None:
    members = front([r.point for r in given_regions])
    kept = uncertain_front(given_regions)
    assert set(members) <= set(kept)
    for i, candidate in enumerate(given_regions):
        beaten = any(dominates_for_sure(given_regions[m], candidate) for m in members)
        assert (i in kept) == (i in members or not beaten)


@given(regions)
def test_nobody_is_told_from_itself_and_equality_has_no_order(given_regions: list[Region]) -> None:
    for a in given_regions:
        assert same(a, a) and not dominates_for_sure(a, a)
        for b in given_regions:
            assert same(a, b) == same(b, a)


def test_only_noise_keeps_a_point_off_the_front() -> None:
    best, beside, behind = region(1.0, 100.0), region(1.008, 99.5), region(1.1, 90.0)
    assert uncertain_front([best, beside, behind]) == [0, 1]
    assert uncertain_front([region(1.0, 100.0, 0.2), beside, behind]) == [0, 1, 2]


# ---- weights --------------------------------------------------------------------------------

gain = st.integers(-6, 6).map(float)


@given(st.lists(st.tuples(gain, gain), min_size=1, max_size=12))
def test_the_winner_of_each_range_has_the_highest_score_in_it(gains: list[Point]) -> None:
    ranges = weight_ranges(gains)
    assert ranges[0].low == 0.0 and ranges[-1].high == 1.0
    assert all(a.high == b.low for a, b in pairwise(ranges))
    for member, low, high in ranges:
        assert low < high
        for w in (low, (low + high) / 2, high):
            scores = [w * a + (1 - w) * b for a, b in gains]
            assert scores[member] == pytest.approx(max(scores), abs=1e-9)


def test_nobody_wins_where_nobody_is() -> None:
    assert weight_ranges([]) == []


# ---- hypervolume, counted in another way ----------------------------------------------------


@given(points, st.tuples(coordinate, coordinate))
def test_the_hypervolume_is_the_number_of_unit_squares(
    given_points: list[Point], reference: Point
) -> None:
    squares = {
        (x, y)
        for latency, throughput in given_points
        for x in range(int(latency), int(reference[0]))
        for y in range(int(reference[1]), int(throughput))
    }
    assert hypervolume(given_points, reference) == len(squares)
