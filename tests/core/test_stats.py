from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.stats import mean_interval, median_interval, percentiles, rate_interval

samples = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40)


@settings(max_examples=60)
@given(samples)
def test_an_interval_contains_its_value(values: list[float]) -> None:
    for interval in (mean_interval(values), median_interval(values)):
        assert interval.low <= interval.value <= interval.high
    assert mean_interval(values).value == pytest.approx(statistics.fmean(values))
    assert median_interval(values).value == pytest.approx(statistics.median(values))


@settings(max_examples=60)
@given(samples)
def test_the_bootstrap_gives_the_same_interval_every_time(values: list[float]) -> None:
    assert mean_interval(values) == mean_interval(values)
    assert median_interval(values) == median_interval(values)


def test_equal_samples_have_an_interval_without_width() -> None:
    interval = mean_interval([2.5] * 9)
    assert (interval.low, interval.high) == (2.5, 2.5)


def test_no_samples_give_zeros_and_no_percentiles() -> None:
    assert mean_interval([]).value == median_interval([]).high == 0.0
    assert percentiles([]) == {}


def test_the_mean_interval_covers_the_truth_about_as_often_as_it_claims() -> None:
    draw = random.Random(11)
    covered = 0
    for _ in range(200):
        interval = mean_interval([draw.gauss(10.0, 2.0) for _ in range(30)])
        covered += interval.low <= 10.0 <= interval.high
    assert 178 <= covered <= 199


def test_a_rate_interval_is_students_t_over_the_slices() -> None:
    # Rates 90, 100, 110 in slices of 2 s: standard error 10/sqrt(3), t(2) = 4.302653.
    interval = rate_interval([180.0, 200.0, 220.0], 2.0)
    half = 4.302653 * 10.0 / math.sqrt(3.0)
    assert interval.value == pytest.approx(100.0)
    assert interval.low == pytest.approx(100.0 - half, rel=1e-5)
    assert interval.high == pytest.approx(100.0 + half, rel=1e-5)


def test_a_rate_is_never_negative() -> None:
    assert rate_interval([0.0, 0.0, 9.0], 1.0).low == 0.0


def test_one_slice_says_nothing_about_the_spread() -> None:
    interval = rate_interval([50.0], 0.5)
    assert (interval.low, interval.value, interval.high) == (100.0, 100.0, 100.0)


@given(samples, st.floats(1e-2, 1e2))
def test_a_rate_is_all_that_was_counted_over_the_whole_time(
    amounts: list[float], width_s: float
) -> None:
    rate = rate_interval(amounts, width_s)
    assert rate.value == pytest.approx(sum(amounts) / (width_s * len(amounts)))
    assert rate.low <= rate.value <= rate.high


def test_percentiles_interpolate_between_samples() -> None:
    assert percentiles([float(i) for i in range(101)]) == {
        "p50": 50.0,
        "p90": 90.0,
        "p95": 95.0,
        "p99": 99.0,
    }
    assert percentiles([0.0, 1.0])["p90"] == pytest.approx(0.9)


@given(samples)
def test_percentiles_rise(values: list[float]) -> None:
    points = list(percentiles(values).values())
    assert points == sorted(points)
    assert min(values) <= points[0] and points[-1] <= max(values)
