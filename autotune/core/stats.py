"""Intervals for measured values. Everything is deterministic: the bootstrap is seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from autotune.core.trial import Interval

_RESAMPLES = 1000
_SEED = 20240607
Statistic = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]


def mean_interval(samples: Sequence[float]) -> Interval:
    """Mean with a 95 % bootstrap interval over the samples (requests, not tokens)."""
    return _bootstrap(samples, lambda a: np.asarray(a.mean(axis=-1)))


def median_interval(samples: Sequence[float]) -> Interval:
    """Median with a 95 % bootstrap interval over the samples."""
    return _bootstrap(samples, lambda a: np.asarray(np.median(a, axis=-1)))


def rate_interval(amounts: Sequence[float], width_s: float) -> Interval:
    """Mean rate of equally long, consecutive slices of a window.

    Batch means with Student's t: neighbouring slices of a stream are nearly independent once a
    slice is longer than the typical gap between events (Law & Kelton, Simulation Modeling and
    Analysis, ch. 9).

    Args:
        amounts: what was counted in each slice, at least one.
        width_s: length of one slice, > 0.
    """
    rates = np.asarray(amounts, dtype=np.float64) / width_s
    centre = float(rates.mean())
    if rates.size < 2:
        return Interval(centre, centre, centre)
    half = (
        student_quantile(0.975, rates.size - 1)
        * float(rates.std(ddof=1))
        / float(np.sqrt(rates.size))
    )
    return Interval(centre, max(0.0, centre - half), centre + half)


def ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """Sum over sum with a 95 % bootstrap interval over the pairs (one pair for each request).

    Args:
        denominators: as many as numerators; their sum is > 0, or everything is 0.
    """
    tops = np.asarray(numerators, dtype=np.float64)
    bottoms = np.asarray(denominators, dtype=np.float64)
    if bottoms.sum() <= 0:
        return Interval(0.0, 0.0, 0.0)
    centre = float(tops.sum() / bottoms.sum())
    chosen = np.random.default_rng(_SEED).integers(0, tops.size, size=(_RESAMPLES, tops.size))
    below = np.maximum(bottoms[chosen].sum(axis=-1), 1e-12)
    return _around(centre, tops[chosen].sum(axis=-1) / below)


def share_interval(n_yes: int, n: int) -> Interval:
    """A share with its 95 % Wilson score interval (Wilson 1927); 0 of 0 is 0."""
    if n == 0:
        return Interval(0.0, 0.0, 0.0)
    z2, share = 1.959964**2, n_yes / n
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = (z2 * (share * (1 - share) / n + z2 / (4 * n * n))) ** 0.5 / (1 + z2 / n)
    return Interval(share, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def percentiles(
    samples: Sequence[float], weights: Sequence[float] | None = None
) -> dict[str, float]:
    """p50, p90, p95 and p99; empty without samples.

    Without weights they are interpolated; with weights, each is the smallest sample that has at
    least that share of the weight at or below it.
    """
    if not samples:
        return {}
    data, points = np.asarray(samples, dtype=np.float64), (50, 90, 95, 99)
    if weights is None:
        values = np.percentile(data, points)
    else:
        order = np.argsort(data)
        reached = np.cumsum(np.asarray(weights, dtype=np.float64)[order])
        places = np.searchsorted(reached, np.asarray(points) / 100 * reached[-1])
        values = data[order][np.minimum(places, data.size - 1)]
    return {f"p{point}": float(value) for point, value in zip(points, values, strict=True)}


def quantiles(samples: Sequence[float], n: int = 21) -> tuple[float, ...]:
    """The distribution in ``n`` numbers at equal steps from the least to the most; () without any.

    Interpolated, and rounded to four digits: a picture shows no more.
    """
    if not samples:
        return ()
    values = np.quantile(np.asarray(samples, dtype=np.float64), np.linspace(0.0, 1.0, n))
    return tuple(float(f"{value:.4g}") for value in values)


def drift(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Mean of ``after`` against that of ``before``, as a fraction; None where noise explains it.

    Welch's t test at 99 %: with some twenty phases in a study, 95 % would cry wolf in each.
    """
    if min(len(before), len(after)) < 3:
        return None
    from scipy.special import stdtr

    a, b = (np.asarray(part, dtype=np.float64) for part in (before, after))
    spreads = a.var(ddof=1) / a.size, b.var(ddof=1) / b.size
    variance = float(sum(spreads))
    if a.mean() <= 0 or variance <= 0:
        return None
    t = float(b.mean() - a.mean()) / variance**0.5
    degrees = variance**2 / (spreads[0] ** 2 / (a.size - 1) + spreads[1] ** 2 / (b.size - 1))
    if 2 * float(stdtr(degrees, -abs(t))) > 0.01:
        return None
    return float(b.mean() / a.mean() - 1)


def _bootstrap(samples: Sequence[float], statistic: Statistic) -> Interval:
    data = np.asarray(samples, dtype=np.float64)
    if data.size == 0:
        return Interval(0.0, 0.0, 0.0)
    centre = float(statistic(data))
    rng = np.random.default_rng(_SEED)
    return _around(centre, statistic(data[rng.integers(0, data.size, (_RESAMPLES, data.size))]))


def _around(centre: float, draws: npt.NDArray[np.float64]) -> Interval:
    low, high = (float(q) for q in np.percentile(draws, (2.5, 97.5)))
    return Interval(centre, min(low, centre), max(high, centre))


def student_quantile(share: float, degrees: float) -> float:
    """Quantile of Student's t with ``degrees`` >= 1 degrees of freedom."""
    from scipy.special import stdtrit  # a tenth of the import time of scipy.stats

    return float(stdtrit(degrees, share))


def time_average(steps: Sequence[tuple[float, int]], begin_s: float, end_s: float) -> float:
    """Average of a step function over ``[begin_s, end_s]``."""
    if end_s <= begin_s:
        return 0.0
    area = 0.0
    for (from_s, level), (to_s, _) in pairwise((*steps, (end_s, 0))):
        area += level * max(0.0, min(to_s, end_s) - max(from_s, begin_s))
    return area / (end_s - begin_s)
