from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from autotune.search.least_squares import fit

Array = npt.NDArray[np.float64]
X = np.linspace(0, 4, 15)
SD = 0.02
NOISE = [np.eye(X.size) * SD**2]


def decay(z: Array) -> Array:
    """Amplitude, rate and floor; only the first two can be told from these points."""
    return np.exp(0.5 * z[:, :1]) * np.exp(-np.exp(0.4 * z[:, 1:2]) * X)


def test_it_recovers_the_unknowns_of_a_curve() -> None:
    truth = np.array([1.2, -0.8, 0.0])
    found = fit(decay, decay(truth[None])[0], NOISE, 3)
    assert found.centre == pytest.approx(truth, abs=0.05)
    assert found.fitted == pytest.approx(decay(truth[None])[0], abs=SD)


def test_what_the_data_do_not_tell_stays_as_the_prior_says() -> None:
    found = fit(decay, decay(np.array([[1.2, -0.8, 0.0]]))[0], NOISE, 3)
    draws = found.draw(np.random.default_rng(0).standard_normal((4000, 3)))
    assert draws[:, 2].mean() == pytest.approx(0.0, abs=0.1)
    assert draws[:, 2].std() == pytest.approx(1.0, abs=0.1)
    assert (draws[:, :2].std(axis=0) < 0.15).all()


def test_the_posterior_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(150):
        truth = rng.standard_normal(3)
        y = decay(truth[None])[0] + rng.normal(0, SD, X.size)
        found = fit(decay, y, NOISE, 3)
        off = found.factor.T @ (truth - found.centre)
        inside.append(off @ off < 6.25)  # the 90th percentile of chi squared with 3 degrees
    assert 0.82 <= np.mean(inside) <= 0.97


def test_it_is_ridge_regression_where_the_model_is_linear() -> None:
    rng = np.random.default_rng(2)
    a, y = rng.standard_normal((6, 2)), rng.standard_normal(6)
    found = fit(lambda z: z @ a.T, y, [np.eye(4), 4 * np.eye(2)], 2)
    weight = np.diag([1.0] * 4 + [0.25] * 2)
    precision = a.T @ weight @ a + np.eye(2)
    assert found.centre == pytest.approx(np.linalg.solve(precision, a.T @ weight @ y), abs=1e-2)
    assert found.factor @ found.factor.T == pytest.approx(precision, abs=1e-3)


def test_absurd_data_keep_the_unknowns_within_the_prior() -> None:
    found = fit(decay, np.full(X.size, 1e6), NOISE, 3)
    assert (np.abs(found.centre) <= 4.5).all()
