"""Whether a configuration keeps the limits of the user (SLOs), learned from how far launches did.

A limit is on some metric of some load, which goes up and down with latency and throughput in a way
that a few launches show. What that leaves is taken by a Gaussian process over the flags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from autotune.search.acquisition import excess
from autotune.search.residual import Features, Kernel, Process

Array = npt.NDArray[np.float64]

_LEVEL_SD = 0.7
"""Of how far an average configuration is off a limit, relative to it."""
_SLOPES, _SLOPE_SD = np.array([0.7, -0.6]), 0.6
"""What is worse for latency or throughput is usually worse for a metric of theirs, by up to as
much: of ln latency and ln throughput."""
_TREE_SD, _OTHER_SD = 0.08, 0.15
NOISE_SD = 0.04
"""Of a percentile that was measured once, relative to it."""


@dataclass(frozen=True)
class _Limit:
    """One constraint: a linear model of two values, and a process on what it leaves."""

    process: Process
    columns: Array
    weights: Array

    @classmethod
    def learn(cls, violations: Array, points: Features, values: Array) -> _Limit:
        kernel = Kernel(_TREE_SD, _OTHER_SD, np.ones(points.other.shape[1]))
        columns = _columns(values)
        covariance = kernel.between(points, points) + columns @ columns.T
        covariance += NOISE_SD**2 * np.eye(violations.size)
        factor = np.asarray(np.linalg.cholesky(covariance))
        process = Process(kernel, points, factor)
        left = squeezed(violations) - values @ _SLOPES
        return cls(process, columns, process.solve(left))

    def expected(self, at: Features, values: Array) -> tuple[Array, Array]:
        """How far configurations are off (squeezed), and its standard deviation; shapes (n,)."""
        columns = _columns(values)
        cross = self.process.kernel.between(at, self.process.points) + columns @ self.columns.T
        solved = self.process.solve(cross.T)
        variance = self.process.kernel.variance(at) + (columns**2).sum(axis=1)
        variance = variance - (cross.T * solved).sum(axis=0) + NOISE_SD**2
        return values @ _SLOPES + cross @ self.weights, np.sqrt(np.maximum(variance, 1e-6))


@dataclass(frozen=True)
class Constraints:
    """All of them; each is taken to be kept or not by itself."""

    limits: Mapping[str, _Limit]
    centre: Array

    @classmethod
    def learn(
        cls, violations: Sequence[Mapping[str, float]], points: Features, values: Array
    ) -> Constraints:
        """From launches that were measured.

        Args:
            violations: for each launch, constraint to how far it is off, relative to the limit; at
                most 0: kept. A launch may lack some.
            values: ln latency and ln throughput, shape (n, 2).
        """
        centre, limits = values.mean(axis=0), dict[str, _Limit]()
        for name in sorted({name for told in violations for name in told}):
            has = np.array([i for i, told in enumerate(violations) if name in told], dtype=np.intp)
            off = np.array([violations[i][name] for i in has])
            limits[name] = _Limit.learn(off, points.at(has), values[has] - centre)
        return cls(limits, centre)

    def probability(self, at: Features, values: Array) -> Array:
        """That every limit is kept, shape (n,).

        Args:
            values: expected ln latency and ln throughput, shape (n, 2).
        """
        kept = np.ones(at.own.size)
        for limit in self.limits.values():
            off, sd = limit.expected(at, values - self.centre)
            kept = kept * ndtr(-off / sd)
        return kept

    def progress(self, at: Features, values: Array, so_far: Mapping[str, float]) -> Array:
        """By how much violations are expected to shrink, down to none, shape (n,).

        To reach a limit counts twice as much as to come as close to it. Where hardly anything is
        likely to keep a limit, the likeliest is what is known least; what leads there is what comes
        closer.

        Args:
            so_far: the violations of the configuration that came closest.
        """
        gained = np.zeros(at.own.size)
        for name, limit in self.limits.items():
            off, sd = limit.expected(at, values - self.centre)
            least = max(0.0, float(squeezed(np.array(so_far.get(name, 1.0)))))
            gained = gained + excess(least - off, sd) - excess(-off, sd)
            gained = gained + least * ndtr(-off / sd)
        return gained


def _columns(values: Array) -> Array:
    """What the linear model multiplies, each by the standard deviation of its coefficient."""
    level = np.full((values.shape[0], 1), _LEVEL_SD)
    return np.hstack([level, _SLOPE_SD * values])


def squeezed(violations: Array) -> Array:
    """Far off is far off: a tenfold latency must not bend what is learned near the limit."""
    return np.asarray(np.sign(violations) * np.log1p(np.abs(violations)))
