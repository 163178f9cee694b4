"""A Gaussian process on what the physics misses, and on the flags it does not know.

The kernel is a sum: a small part over the draft tree and the fraction, smooth (Matern-5/2) and with
jumps along topk and the draft, a part over all other searched flags with a length scale for each,
their product, and an effect of the single configuration that no smooth surface can express. Values
enter with the variance of their own interval; outliers are found by leaving each out, and count
less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve, solve_triangular
from scipy.optimize import minimize

Array = npt.NDArray[np.float64]

_WITH_TOPK = 3
"""Columns of a tree at least: steps, topk, draft tokens."""
_SQRT5 = np.sqrt(5.0)
OWN_SD = 0.012
"""Effect of one configuration on ln(value): kernels chosen for exactly these shapes."""
PATH_SD = 0.08
"""Chains and trees run through other code (masks, kernels, scheduling): what the physics misses of
one says little of the other. Between the two, log scale."""
_JUMPS = 0.5
"""Share of what the physics misses that may change at once, between one size and the next."""
_JUMP_COLUMNS = (1, 2)
"""Of a tree: topk and draft tokens."""
_OTHER_AMPLITUDE = (-1.9, 0.9)
_OTHER_LENGTH = (0.0, 0.9)
_FITTED_TO = 60
"""Points, spread over the study, that are enough to tell how far each flag reaches."""
ALONE = 0.7
"""Share of what flags do each alone: effects of single flags are larger than interactions."""


@dataclass(frozen=True, slots=True)
class Features:
    """Configurations as points.

    Attributes:
        tree: shape (n, 4): steps, log2 topk, log2 draft, fraction, each by its length scale.
        other: shape (n, k): numbers scaled to [0, 1]; a category stands as its index.
        categorical: shape (k,): which of ``other`` are categories.
        own: shape (n,): equal for equal configurations.
    """

    tree: Array
    other: Array
    categorical: npt.NDArray[np.bool_]
    own: npt.NDArray[np.int64]

    def at(self, index: npt.NDArray[np.intp]) -> Features:
        return replace(self, tree=self.tree[index], other=self.other[index], own=self.own[index])

    def joined(self, more: Features) -> Features:
        """These points, then others of the same space."""
        return Features(
            np.vstack([self.tree, more.tree]),
            np.vstack([self.other, more.other]),
            self.categorical,
            np.concatenate([self.own, more.own]),
        )


@dataclass(frozen=True, slots=True)
class Kernel:
    """Amplitudes are standard deviations of the logarithm of a value."""

    tree_sd: float
    other_sd: float
    lengths: Array
    own_sd: float = OWN_SD

    def between(self, a: Features, b: Features) -> Array:
        """Covariances, shape (n_a, n_b)."""
        tree = _tree_between(a, b)
        total = self.tree_sd**2 * tree + np.outer(_path(a), _path(b))
        if self.lengths.size:
            other = _other_between(a, b, self.lengths)
            total = total + self.other_sd**2 * other * (1.0 + 0.25 * tree)
        return np.asarray(total + self.own_sd**2 * (a.own[:, None] == b.own[None, :]))

    def variance(self, at: Features) -> float:
        """Of one value of such points before anything is known."""
        other = 1.25 * self.other_sd**2 if self.lengths.size else 0.0
        path = 0.25 * PATH_SD**2 if _has_paths(at) else 0.0
        return self.tree_sd**2 + path + other + self.own_sd**2


def _has_paths(at: Features) -> bool:
    return bool(at.tree.shape[1] >= _WITH_TOPK)


def _path(at: Features) -> Array:
    """Half of what lies between chains and trees, down for the one and up for the other."""
    if not _has_paths(at):
        return np.zeros(at.own.size)
    return np.asarray(np.where(at.tree[:, 1] > 0, 0.5, -0.5) * PATH_SD)


def _tree_between(a: Features, b: Features) -> Array:
    """Correlations of what the physics misses of two sets of trees, shape (n_a, n_b).

    Partly smooth, partly with jumps (Matern-1/2) along topk and along the draft: a kernel or a mask
    that is slower from some size on bends nothing, it breaks, and what was launched beyond the
    break says little of what lies before it.
    """
    smooth = _matern(_distance(a.tree, b.tree, np.ones(a.tree.shape[1])))
    if not _has_paths(a):
        return smooth
    jumps = [np.exp(-np.abs(a.tree[:, j, None] - b.tree[None, :, j])) for j in _JUMP_COLUMNS]
    return np.asarray((1.0 - _JUMPS) * smooth + _JUMPS * np.mean(jumps, axis=0))


def _matern(distance: Array) -> Array:
    scaled = _SQRT5 * distance
    return np.asarray((1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled))


def _slope(distance: Array) -> Array:
    """Of the Matern kernel against minus half the squared distance."""
    return np.asarray((5.0 / 3.0) * (1.0 + _SQRT5 * distance) * np.exp(-_SQRT5 * distance))


def _distance(a: Array, b: Array, lengths: Array) -> Array:
    a, b = a / lengths, b / lengths
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2.0 * a @ b.T
    return np.asarray(np.sqrt(np.maximum(squared, 0.0)))


def _columns_apart(a: Features, b: Features) -> Iterator[Array]:
    """Squared distances along each other flag, shape (n_a, n_b): one at a time, for they are large.

    Of categories 0 where they are equal and 1 elsewhere.
    """
    for j, is_category in enumerate(a.categorical):
        difference = a.other[:, j, None] - b.other[None, :, j]
        yield (difference != 0).astype(np.float64) if is_category else difference**2


def _other_shape(apart: Iterable[Array], lengths: Array) -> Array:
    """Mostly a sum of what each flag does alone, partly what they do together; 1 at distance 0."""
    alone, squared = np.zeros(()), np.zeros(())
    for column, length in zip(apart, lengths, strict=True):
        scaled = column / length**2
        alone = alone + _matern(np.sqrt(scaled))
        squared = squared + scaled
    return _mixed(alone, squared, lengths.size)


def _other_between(a: Features, b: Features, lengths: Array) -> Array:
    """``_other_shape`` of two sets of points, shape (n_a, n_b).

    Flags take few values, so that both sums are products with the rows of small tables: a matrix
    product is much faster than an exponential for each pair of points and each flag.
    """
    alone, squared, is_value = [], [], []
    for j, length in enumerate(lengths):
        values, place = np.unique(b.other[:, j], return_inverse=True)
        apart = a.other[:, j, None] - values[None, :]
        scaled = (apart != 0 if a.categorical[j] else apart**2) / length**2
        alone.append(_matern(np.sqrt(scaled)))
        squared.append(scaled)
        is_value.append(np.eye(values.size)[:, place])
    has = np.vstack(is_value)
    return _mixed(np.hstack(alone) @ has, np.hstack(squared) @ has, lengths.size)


def _mixed(alone: Array, squared: Array, n_flags: int) -> Array:
    together = _matern(np.sqrt(squared))
    return np.asarray(ALONE * alone / n_flags + (1.0 - ALONE) * together)


@dataclass(frozen=True, slots=True)
class Process:
    """The process conditioned on where it was looked at, whatever was seen there."""

    kernel: Kernel
    points: Features
    factor: Array

    @classmethod
    def over(cls, kernel: Kernel, points: Features, noise: Array) -> Process:
        """Args: noise: variances, shape (n,)."""
        covariance = kernel.between(points, points) + np.diag(noise + 1e-8)
        return cls(kernel, points, np.asarray(np.linalg.cholesky(covariance)))

    def weights(self, at: Features) -> tuple[Array, Array]:
        """(cross covariance (n_at, n), variance (n_at,)) of predictions.

        Of a configuration that was never looked at, what is peculiar to it is no part of the
        variance: it cannot be told from that of its neighbours, and would make a lottery of them.
        """
        cross = self.kernel.between(at, self.points)
        half = solve_triangular(self.factor, cross.T, lower=True)
        new = ~np.isin(at.own, self.points.own)
        variance = self.kernel.variance(at) - new * self.kernel.own_sd**2 - (half**2).sum(0)
        return cross, np.maximum(variance, 1e-8)

    def draws(self, at: Features, normals: Array) -> Array:
        """Joint deviations from the prediction, shape (draws, n_at), from standard normals.

        Of the smooth parts only: what is peculiar to one configuration no model leads to.
        """
        smooth = replace(self.kernel, own_sd=0.0)
        half = solve_triangular(self.factor, smooth.between(at, self.points).T, lower=True)
        covariance = smooth.between(at, at) - half.T @ half
        factor = np.linalg.cholesky(covariance + 1e-7 * np.eye(at.own.size))
        return np.asarray(normals @ factor.T)

    def solve(self, residuals: Array) -> Array:
        """``(K + noise)^-1 residuals``; shape (n,) or (n, draws)."""
        return np.asarray(cho_solve((self.factor, True), residuals))


def fit_other(kernel: Kernel, points: Features, residual: Array, noise: Array) -> Kernel:
    """The kernel with amplitude and length scales of the other flags at their most plausible."""
    n_other = points.other.shape[1]
    if n_other == 0 or residual.size < 4:
        return kernel
    if residual.size > _FITTED_TO:
        some = np.unique(np.linspace(0, residual.size - 1, _FITTED_TO).astype(np.intp))
        points, residual, noise = points.at(some), residual[some], noise[some]
    tree = _tree_between(points, points)
    rest = replace(kernel, other_sd=0.0, lengths=np.zeros(0)).between(points, points)
    rest = rest + np.diag(noise + 1e-8)
    apart = np.array(list(_columns_apart(points, points)))

    def loss(u: Array) -> tuple[float, Array]:
        return _other_loss(u, rest, 1.0 + 0.25 * tree, apart, residual)

    start = np.concatenate([[_OTHER_AMPLITUDE[0]], np.full(n_other, _OTHER_LENGTH[0])])
    bounds = [(-5.0, 1.0), *[(-3.0, 3.5)] * n_other]
    found = minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 15}
    )
    return replace(kernel, other_sd=float(np.exp(found.x[0])), lengths=np.exp(found.x[1:]))


def _other_loss(
    u: Array, rest: Array, modulation: Array, apart: Array, residual: Array
) -> tuple[float, Array]:
    """Negative log posterior of (ln amplitude, ln lengths), and its gradient."""
    lengths = np.exp(u[1:])
    part = np.exp(2.0 * u[0]) * modulation
    shape = _other_shape(apart, lengths)
    covariance = rest + part * shape
    factor = np.linalg.cholesky(covariance)
    alpha = cho_solve((factor, True), residual)
    inverse = cho_solve((factor, True), np.eye(residual.size))
    inner = inverse - np.outer(alpha, alpha)
    weighted = inner * part
    scaled = apart / lengths[:, None, None] ** 2
    alone = _slope(np.sqrt(scaled)) * scaled / u[1:].size
    together = _slope(np.sqrt(scaled.sum(axis=0))) * scaled
    of_lengths = 0.5 * ((ALONE * alone + (1.0 - ALONE) * together) * weighted).sum(axis=(1, 2))
    of_amplitude = float((weighted * shape).sum())
    off = np.concatenate(
        [
            [(u[0] - _OTHER_AMPLITUDE[0]) / _OTHER_AMPLITUDE[1] ** 2],
            (u[1:] - _OTHER_LENGTH[0]) / _OTHER_LENGTH[1] ** 2,
        ]
    )
    prior = 0.5 * ((u[0] - _OTHER_AMPLITUDE[0]) / _OTHER_AMPLITUDE[1]) ** 2
    prior += 0.5 * (((u[1:] - _OTHER_LENGTH[0]) / _OTHER_LENGTH[1]) ** 2).sum()
    value = 0.5 * float(residual @ alpha) + float(np.log(np.diag(factor)).sum()) + prior
    return value, np.concatenate([[of_amplitude], of_lengths]) + off
