"""Deaths that memory does not explain: which combinations to keep away from.

A kernel-weighted share of failures: every launch speaks for the configurations like it, the more
alike the louder, against a prior of few crashes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.core.trial import FailureKind
from autotune.search.memory import MEMORY_KINDS
from autotune.search.observation import Observation
from autotune.search.residual import Features

Array = npt.NDArray[np.float64]

_PRIOR_FAILURES, _PRIOR_LAUNCHES = 0.02, 1.0
_CERTAIN = frozenset({FailureKind.REJECTED_COMBINATION, FailureKind.BAD_FLAG})
"""The server refuses these flags every time; other deaths may have been bad luck."""


def survival(seen: Sequence[Observation], points: Features, at: Features) -> Array:
    """Probability that no death of this kind comes, shape (n_at,).

    Args:
        seen: launches that ended, in the order of ``points``.
    """
    if not seen:
        return np.ones(at.own.size)
    dead = np.array([_weight(o) for o in seen])
    if not dead.any():
        return np.ones(at.own.size)
    alike = np.exp(-0.5 * _squared(at, points))
    failures = _PRIOR_FAILURES + alike @ dead
    launches = _PRIOR_LAUNCHES + alike @ np.maximum(dead, 1.0)
    share = failures / launches
    certain = np.array([o.failure is not None and o.failure.kind in _CERTAIN for o in seen])
    refused = (at.own[:, None] == points.own[None, certain]).any(axis=1)
    return np.where(refused, 0.0, 1.0 - np.minimum(share, 1.0))


def _weight(observation: Observation) -> float:
    failure = observation.failure
    if observation.outcome != "failed" or failure is None or failure.kind in MEMORY_KINDS:
        return 0.0
    return 4.0 if failure.kind in _CERTAIN else 1.0


def _squared(a: Features, b: Features) -> Array:
    """Squared distance: the tree by its own length scales, other numbers by a quarter of theirs."""
    columns = a.tree.shape[1]
    total = ((a.tree[:, None, :] - b.tree[None, :, :]) ** 2).sum(-1) if columns else 0.0
    for j in range(a.other.shape[1]):
        apart = a.other[:, j, None] - b.other[None, :, j]
        total = total + np.where(apart != 0, 2.0, 0.0) * a.categorical[j]
        total = total + (apart / 0.35) ** 2 * (not a.categorical[j])
    return np.asarray(total + np.zeros((a.own.size, b.own.size)))
