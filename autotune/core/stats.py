"""Intervals for measured values. Everything is deterministic: the bootstrap is seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
    half = _student_975(rates.size - 1) * float(rates.std(ddof=1)) / float(np.sqrt(rates.size))
    return Interval(centre, max(0.0, centre - half), centre + half)


def percentiles(samples: Sequence[float]) -> dict[str, float]:
    """p50, p90, p95 and p99 (linear interpolation); empty without samples."""
    if not samples:
        return {}
    points = np.percentile(np.asarray(samples, dtype=np.float64), (50, 90, 95, 99))
    return dict(zip(("p50", "p90", "p95", "p99"), map(float, points), strict=True))


def _bootstrap(samples: Sequence[float], statistic: Statistic) -> Interval:
    data = np.asarray(samples, dtype=np.float64)
    if data.size == 0:
        return Interval(0.0, 0.0, 0.0)
    centre = float(statistic(data))
    rng = np.random.default_rng(_SEED)
    draws = statistic(data[rng.integers(0, data.size, size=(_RESAMPLES, data.size))])
    low, high = (float(q) for q in np.percentile(draws, (2.5, 97.5)))
    return Interval(centre, min(low, centre), max(high, centre))


def _student_975(degrees: int) -> float:
    """The 0.975 quantile of Student's t with ``degrees`` >= 1 degrees of freedom."""
    from scipy.special import stdtrit  # a tenth of the import time of scipy.stats

    return float(stdtrit(degrees, 0.975))
