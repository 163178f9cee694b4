from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_ind

from autotune.core.stats import (
    drift,
    mean_interval,
    median_interval,
    percentiles,
    quantiles,
    rate_interval,
    ratio_interval,
    share_interval,
)

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


@given(st.lists(st.floats(0.001, 1e3), max_size=60))
def test_quantiles_rise_from_the_least_to_the_most(values: list[float]) -> None:
    found = quantiles(values)
    assert list(found) == sorted(found) and len(found) == (21 if values else 0)
    if values:
        assert found[0] == pytest.approx(min(values), rel=1e-3)
        assert found[-1] == pytest.approx(max(values), rel=1e-3)


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


# ---- ratios, shares, drift, weights -------------------------------------------------------------

pairs = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 200)), min_size=1, max_size=30)


@settings(max_examples=60)
@given(pairs)
def test_a_ratio_is_sum_over_sum_within_the_ratios_of_its_pairs(
    told: list[tuple[int, int]],
) -> None:
    tops, bottoms = [float(a) for a, _ in told], [float(b) for _, b in told]
    interval = ratio_interval(tops, bottoms)
    assert interval.value == pytest.approx(sum(tops) / sum(bottoms))
    assert interval.low <= interval.value <= interval.high
    ratios = [a / b for a, b in zip(tops, bottoms, strict=True)]
    assert min(ratios) <= interval.low * (1 + 1e-9)
    assert interval.high <= max(ratios) * (1 + 1e-9)
    assert interval == ratio_interval(tops, bottoms)


def test_a_ratio_to_nothing_is_zero() -> None:
    assert ratio_interval([], []).value == ratio_interval([3.0], [0.0]).high == 0.0


def test_the_ratio_interval_covers_the_truth_about_as_often_as_it_claims() -> None:
    draw, covered = random.Random(5), 0
    for _ in range(200):
        cycles = [draw.randint(20, 200) for _ in range(30)]
        tokens = [n * draw.gauss(3.0, 0.4) for n in cycles]
        interval = ratio_interval(tokens, [float(n) for n in cycles])
        covered += interval.low <= 3.0 <= interval.high
    assert 175 <= covered <= 199


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_share_has_the_interval_of_wilson(told: tuple[int, int]) -> None:
    n_yes, n = told
    interval = share_interval(n_yes, n)
    expected = binomtest(n_yes, n).proportion_ci(0.95, method="wilson")
    assert interval.value == n_yes / n
    assert interval.low == pytest.approx(expected.low, abs=1e-6)
    assert interval.high == pytest.approx(expected.high, abs=1e-6)
    assert 0.0 <= interval.low <= interval.value <= interval.high <= 1.0


def test_a_share_of_nothing_is_zero() -> None:
    assert share_interval(0, 0).value == 0.0


weighted = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 40)), min_size=1, max_size=30)


@settings(max_examples=300)
@given(weighted)
def test_a_weight_counts_as_so_many_equal_samples(told: list[tuple[int, int]]) -> None:
    values, weights = [v for v, _ in told], [w for _, w in told]
    found = percentiles([float(v) for v in values], [float(w) for w in weights])
    repeated = np.sort(np.repeat(values, weights))
    for name, value in found.items():
        place = -(-int(name[1:]) * len(repeated) // 100)  # the first with that share at or below
        assert value == repeated[place - 1], name


@settings(max_examples=100)
@given(samples, samples, st.floats(0.01, 100.0))
def test_a_drift_has_no_unit_and_turns_round_with_its_halves(
    before: list[float], after: list[float], scale: float
) -> None:
    there, back = drift(before, after), drift(after, before)
    assert (there is None) == (back is None) or min(len(before), len(after)) < 3
    if there is not None and back is not None:
        assert (1 + there) * (1 + back) == pytest.approx(1.0)
        scaled = drift([scale * x for x in before], [scale * x for x in after])
        assert scaled is None or scaled == pytest.approx(there)


def test_a_drift_is_what_welchs_t_test_finds_at_99_percent() -> None:
    draw, n_told = random.Random(2), 0
    for _ in range(150):
        before = [draw.gauss(10.0, 1.0) for _ in range(draw.randint(3, 20))]
        after = [draw.gauss(draw.choice((10.0, 11.5)), 2.0) for _ in range(draw.randint(3, 20))]
        found = drift(before, after)
        p = ttest_ind(after, before, equal_var=False).pvalue
        assert (found is not None) == (p <= 0.01)
        n_told += found is not None
        if found is not None:
            assert found == pytest.approx(statistics.fmean(after) / statistics.fmean(before) - 1)
    assert 5 < n_told < 145


def test_too_few_or_equal_samples_have_no_drift() -> None:
    assert drift([1.0, 2.0], [5.0, 6.0, 7.0]) is None
    assert drift([1.0] * 5, [1.0] * 5) is None
    assert drift([0.0] * 4, [1.0, 2.0, 3.0]) is None
