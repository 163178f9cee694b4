from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from autotune.search.residual import (
    Features,
    Kernel,
    Process,
    _columns_apart,
    _other_loss,
    fit_other,
)

Array = npt.NDArray[np.float64]
RNG = np.random.default_rng(0)
KERNEL = Kernel(0.05, 0.15, np.array([0.6, 1.0, 1.5]))


def points(n: int, seed: int = 0) -> Features:
    rng = np.random.default_rng(seed)
    other = np.column_stack([rng.random(n), rng.random(n), rng.integers(0, 3, n)])
    category = np.array([False, False, True])
    return Features(rng.normal(0, 1, (n, 4)), other, category, np.arange(n))


def test_the_kernel_is_a_covariance() -> None:
    at = points(40)
    covariance = KERNEL.between(at, at)
    assert covariance == pytest.approx(covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > 0
    assert np.diag(covariance) == pytest.approx(KERNEL.variance(at))


def test_the_gradient_of_the_loss_is_that_of_differences() -> None:
    at = points(12)
    rest = replace(KERNEL, other_sd=0.0, lengths=np.zeros(0)).between(at, at) + 1e-3 * np.eye(12)
    modulation = 1.0 + 0.25 * Kernel(1.0, 0.0, np.zeros(0), 0.0).between(at, at)
    apart, residual = np.array(list(_columns_apart(at, at))), RNG.normal(0, 0.2, 12)
    for u in (np.array([-1.9, 0.0, 0.0, 0.0]), np.array([-1.0, -0.7, 0.8, 1.5])):
        _, gradient = _other_loss(u, rest, modulation, apart, residual)
        for i, step in enumerate(1e-5 * np.eye(4)):
            up = _other_loss(u + step, rest, modulation, apart, residual)[0]
            down = _other_loss(u - step, rest, modulation, apart, residual)[0]
            assert gradient[i] == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-5)


def test_what_was_seen_is_known_and_what_is_far_is_not() -> None:
    at, noise = points(6), np.full(6, 1e-6)
    process, residual = Process.over(KERNEL, at, noise), RNG.normal(0, 0.1, 6)
    cross, variance = process.weights(at)
    assert cross @ process.solve(residual) == pytest.approx(residual, abs=1e-3)
    assert (variance < 1e-5).all()
    far = replace(at, tree=at.tree + 50, other=at.other + 9, own=at.own + 100)
    _, unknown = process.weights(far)
    assert (unknown > 0.5 * (KERNEL.variance(at) - KERNEL.own_sd**2)).all()


def test_a_flag_that_matters_gets_a_shorter_length_than_one_that_does_not() -> None:
    at = points(60)
    effect = 0.2 * np.sin(5 * at.other[:, 0]) + RNG.normal(0, 0.01, 60)
    found = fit_other(Kernel(0.02, 0.15, np.ones(3)), at, effect, np.full(60, 1e-4))
    assert found.lengths[0] < 0.7 * found.lengths[1]
    assert found.other_sd > 0.05


def test_slow_above_a_size_says_little_of_what_is_below_it() -> None:
    """Kernels and masks break at a size: drafts of 8 and more that are slow condemn none of 6."""

    def trees(*drafts: int) -> Features:
        rows = [[4 / 2.0, 2 / 1.5, np.log2(draft) / 1.2, 0.85 / 0.5] for draft in drafts]
        nothing = np.zeros((len(drafts), 0))
        return Features(np.array(rows), nothing, np.zeros(0, dtype=bool), np.array(drafts))

    kernel, seen = Kernel(0.1, 0.0, np.zeros(0), 0.0), trees(8, 12, 16)
    process = Process.over(kernel, seen, np.full(3, 1e-4))
    cross, variance = process.weights(trees(6, 14))
    below, among = cross @ process.solve(np.full(3, 0.2))
    assert among == pytest.approx(0.2, abs=0.03)
    assert below < among
    assert np.sqrt(variance[0]) > 0.042, "0.035 where everything is smooth"
    assert np.sqrt(variance[1]) < 0.03
