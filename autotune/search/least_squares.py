"""Bayesian non-linear regression: the most plausible unknowns, and draws around them.

Unknowns are standard normal under the prior. The most plausible ones are found by Levenberg's
method; around them the posterior is taken as normal (Laplace), with the curvature of the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Model = Callable[[Array], Array]
"""(draws, unknowns) to (draws, observations)."""

_DELTA = 1e-4
_ITERATIONS = 15
_CONVERGED = 1e-3
_FARTHEST = 4.5
"""Standard deviations of the prior beyond which no unknown is believed."""


@dataclass(frozen=True, slots=True)
class Posterior:
    """Normal around ``centre``, with ``factor @ factor.T`` as its precision.

    Attributes:
        centre: shape (unknowns,).
        factor: lower Cholesky factor of the precision.
        jacobian: of the model at the centre, shape (observations, unknowns).
        fitted: the model at the centre, shape (observations,).
        loss: half the squared misfit in standard deviations, the prior's included.
    """

    centre: Array
    factor: Array
    jacobian: Array
    fitted: Array
    loss: float = 0.0

    def draw(self, normals: Array) -> Array:
        """Unknowns from standard normal numbers, both of shape (draws, unknowns)."""
        return np.asarray(self.centre + normals @ np.linalg.inv(self.factor))


def fit(model: Model, y: Array, covariances: Sequence[Array], n_unknowns: int) -> Posterior:
    """Fits ``y = model(z) + noise`` with ``z`` standard normal.

    Args:
        y: shape (observations,).
        covariances: of the noise of consecutive blocks of observations, positive definite; where
            they are independent, their variances alone, of shape (observations,).
    """
    whiten = _Whitening(covariances)
    z, damping = np.zeros(n_unknowns), 1.0
    value, jacobian = _linearised(model, z)
    loss = _loss(z, whiten(y - value))
    for _ in range(_ITERATIONS):
        tilted = whiten(jacobian)
        gradient = tilted.T @ whiten(y - value) - z
        hessian = tilted.T @ tilted + np.eye(n_unknowns)
        step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
        tried = np.clip(z + step, -_FARTHEST, _FARTHEST)
        tried_value, tried_jacobian = _linearised(model, tried)
        tried_loss = _loss(tried, whiten(y - tried_value))
        if tried_loss < loss:
            gained = loss - tried_loss
            z, value, jacobian, loss = tried, tried_value, tried_jacobian, tried_loss
            damping = max(damping / 6.0, 1e-6)
            if gained < _CONVERGED:
                break
        else:
            damping *= 8.0
    tilted = whiten(jacobian)
    factor = np.asarray(np.linalg.cholesky(tilted.T @ tilted + np.eye(n_unknowns)))
    return Posterior(z, factor, jacobian, value, loss)


class _Whitening:
    """Turns observations into independent ones of variance 1, block by block.

    The blocks are small and used often, so that each is inverted once: a triangular solve of every
    use wakes the threads of BLAS, which takes ten times as long as the product.
    """

    def __init__(self, covariances: Sequence[Array]) -> None:
        self._inverses = [
            1.0 / np.sqrt(c) if c.ndim == 1 else np.linalg.inv(np.linalg.cholesky(c))
            for c in covariances
        ]
        self._ends = np.cumsum([0, *(inverse.shape[0] for inverse in self._inverses)])

    def __call__(self, v: Array) -> Array:
        parts = zip(self._inverses, self._ends[:-1], self._ends[1:], strict=True)
        return np.concatenate([_times(inverse, v[a:b]) for inverse, a, b in parts])


def _times(inverse: Array, v: Array) -> Array:
    """The product with a matrix, or with a diagonal that is given as a vector."""
    return np.asarray(inverse @ v if inverse.ndim == 2 else (inverse * v.T).T)


def _linearised(model: Model, z: Array) -> tuple[Array, Array]:
    """The model at ``z`` and its Jacobian, by differences, in one vectorised call."""
    values = model(np.vstack([z, z + _DELTA * np.eye(z.size)]))
    return values[0], (values[1:] - values[0]).T / _DELTA


def _loss(z: Array, whitened: Array) -> float:
    return float(0.5 * (z @ z + whitened @ whitened))
