"""How far the physics misses what was measured, and which launches no neighbour bears out.

A launch may be slow for reasons of its own: a busy host, a hot card, somebody else's job. One such
launch in a handful bends everything that is fitted to it, so that it is asked of every launch
whether the others are more plausible without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from autotune.search.residual import Features, Kernel

Array = npt.NDArray[np.float64]

_AMPLITUDES = (0.02, 0.04, 0.08, 0.15, 0.4)
_AMPLITUDE_PRIOR = (-3.0, 0.7)
_OTHERS_SHARE = 2.0
"""The other flags, which have no physics, are missed by about so many times as much as the tree."""
_ODD_LOG_ODDS = -4.0
"""Prior of a launch that says nothing about its flags: about one in fifty."""
_ODD_VARIANCE = 0.25**2
"""By how much (squared, log scale) such a launch may be off."""
_MIN_TO_JUDGE = 3
_LOOKED_AT = 4
_MOST_ODD_SHARE = 0.2


@dataclass(frozen=True)
class Misfit:
    """What a model that is linear in its unknowns leaves of one value of n launches.

    Attributes:
        residual: shape (n,), at unknowns of zero.
        noise: variances, shape (n,).
        explained: the model's Jacobian, shape (n, unknowns); unknowns are standard normal and
            integrated out.
        worse: 1 where a larger value is a worse one, else -1.
    """

    points: Features
    residual: Array
    noise: Array
    explained: Array
    worse: float

    def amplitude(self, extra: Array) -> float:
        """How far the physics is off, by evidence (standard deviation, log scale).

        Args:
            extra: variances beside the noise, shape (n,).
        """
        scores = self.log_evidences(extra)
        share = np.exp(scores - scores.max())
        return float(np.sqrt(np.average(np.square(_AMPLITUDES), weights=share)))

    def log_evidences(self, extra: Array) -> Array:
        """Of each amplitude, its prior included."""
        spread = np.diag(self.noise + extra + 1e-8)
        scores = []
        for amplitude, between in zip(_AMPLITUDES, self._covariances, strict=True):
            off = (np.log(amplitude) - _AMPLITUDE_PRIOR[0]) / _AMPLITUDE_PRIOR[1]
            scores.append(_evidence(spread + between, self.residual) - 0.5 * off**2)
        return np.array(scores)

    def surprises(self, extra: Array) -> Array:
        """How much worse each value is than all others predict, in standard deviations."""
        covariance = self._between(self.amplitude(extra)) + np.diag(self.noise + extra + 1e-8)
        inverse = np.linalg.inv(covariance)
        return np.asarray(self.worse * (inverse @ self.residual) / np.sqrt(np.diag(inverse)))

    @cached_property
    def _covariances(self) -> list[Array]:
        return [self._between(amplitude) for amplitude in _AMPLITUDES]

    def _between(self, amplitude: float) -> Array:
        kernel = Kernel(amplitude, _OTHERS_SHARE * amplitude, np.ones(self.points.other.shape[1]))
        return kernel.between(self.points, self.points) + self.explained @ self.explained.T


def odd_variances(misfits: Sequence[Misfit]) -> Array:
    """Variances to add to the noise of launches that are odd, 0 for all others; shape (n,).

    What goes wrong with a launch goes wrong with all its values, so that they are judged together.
    Nothing makes a server faster than it is: only launches that are worse than expected are odd.

    Args:
        misfits: of each value, of the same launches.
    """
    n = misfits[0].residual.size
    extra = np.zeros(n)
    if n < _MIN_TO_JUDGE:
        return extra
    evidence = _together(misfits, extra)
    for _ in range(max(1, int(_MOST_ODD_SHARE * n))):
        surprises = np.array([m.surprises(extra) for m in misfits])
        size = (surprises**2).sum(axis=0)
        suspects = np.flatnonzero((extra == 0) & (surprises.sum(axis=0) > 0))
        tried = []
        for i in suspects[np.argsort(-size[suspects])][:_LOOKED_AT]:
            other = extra.copy()
            other[i] = _ODD_VARIANCE
            tried.append((_together(misfits, other) + _ODD_LOG_ODDS, other))
        if not tried:
            break
        better, other = max(tried, key=lambda each: each[0])
        if better <= evidence:
            break
        evidence, extra = better, other
    return extra


def _together(misfits: Sequence[Misfit], extra: Array) -> float:
    return float(sum(logsumexp(misfit.log_evidences(extra)) for misfit in misfits))


def _evidence(covariance: Array, residual: Array) -> float:
    factor = np.linalg.cholesky(covariance)
    half = solve_triangular(factor, residual, lower=True)
    return float(-0.5 * half @ half - np.log(np.diag(factor)).sum())
