from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.search.misfit import Misfit, odd_variances
from autotune.search.residual import Features

Array = npt.NDArray[np.float64]


def features(n: int, seed: int = 0, n_other: int = 0) -> Features:
    rng = np.random.default_rng(seed)
    other = rng.random((n, n_other))
    return Features(rng.normal(0, 1, (n, 4)), other, np.zeros(n_other, bool), np.arange(n))


def misfit(
    residual: Array, *, explained: Array | None = None, seed: int = 0, worse: float = 1.0
) -> Misfit:
    n = residual.size
    jacobian = np.zeros((n, 1)) if explained is None else explained
    return Misfit(features(n, seed), residual, np.full(n, 0.012**2), jacobian, worse)


def of_a_launch(off: float, at: int, usual: list[Array], seed: int) -> list[Misfit]:
    """Latency and throughput of launches, one of which is slower by ``off``."""
    here = off * (np.arange(usual[0].size) == at)
    return [
        misfit(values + worse * here, seed=seed, worse=worse)
        for values, worse in zip(usual, (1.0, -1.0), strict=True)
    ]


def test_the_amplitude_grows_with_what_is_left_unexplained() -> None:
    left = np.random.default_rng(0).normal(0, 1, 20)
    none = np.zeros(20)
    small, large = (misfit(scale * left).amplitude(none) for scale in (0.01, 0.2))
    assert small < 0.04 < large
    explained = misfit(0.2 * left, explained=left[:, None]).amplitude(none)
    assert explained < large, "what the unknowns of the physics explain is no misfit"


@given(st.integers(0, 200), st.integers(4, 12))
def test_one_slow_launch_is_found_and_the_others_are_believed(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    usual = [rng.normal(0, 0.012, n) for _ in range(2)]
    at = int(rng.integers(n))
    extra = odd_variances(of_a_launch(0.3, at, usual, seed))
    assert extra[at] > 0.1**2
    assert not np.delete(extra, at).any()


@given(st.integers(0, 200), st.integers(4, 12))
def test_no_launch_is_doubted_because_it_was_fast(seed: int, n: int) -> None:
    """Hosts and cards may be busy or hot; nothing makes a server faster than it is."""
    rng = np.random.default_rng(seed)
    usual = [rng.normal(0, 0.012, n) for _ in range(2)]
    at = int(rng.integers(n))
    assert odd_variances(of_a_launch(-0.3, at, usual, seed))[at] == 0.0


def test_launches_as_the_physics_expects_them_are_all_believed() -> None:
    wrong = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        both = [misfit(rng.normal(0, 0.02, 8), seed=seed) for _ in range(2)]
        wrong += int(odd_variances(both).any())
    assert wrong <= 3


def test_two_launches_are_too_few_to_say_which_of_them_is_odd() -> None:
    assert not odd_variances(of_a_launch(0.5, 1, [np.zeros(2)] * 2, 0)).any()


def test_what_the_physics_can_explain_is_not_odd() -> None:
    """A value far from the others, where the unknowns reach that far."""
    left = np.array([0.0, 0.0, 0.0, 0.0, 0.4])
    reach = 0.5 * (left > 0).astype(float)[:, None]
    assert not odd_variances([misfit(left, explained=reach)] * 2).any()


def test_errors_of_values_left_out_are_those_of_leaving_each_out() -> None:
    m = misfit(np.random.default_rng(3).normal(0, 0.1, 8))
    none = np.zeros(8)
    told = m.surprises(none)
    covariance = np.diag(m.noise + 1e-8) + m._between(m.amplitude(none))
    for i in range(8):
        rest = np.delete(np.arange(8), i)
        weight = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, i])
        variance = covariance[i, i] - weight @ covariance[rest, i]
        error = m.residual[i] - weight @ m.residual[rest]
        assert told[i] == pytest.approx(error / np.sqrt(variance))
