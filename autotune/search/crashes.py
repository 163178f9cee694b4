"""Deaths that memory does not explain: which combinations to keep away from.

Two views, and the darker one counts. A kernel-weighted share of failures: every launch speaks for
the configurations like it, the more alike the louder, against a prior of few crashes. And a
logistic regression over all flags, which sees from a few deaths that one backend or the large end
of a range is what they share.
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
_NEWTON_STEPS = 12
_SLOPE_SD, _CATEGORY_SD = 3.0, 1.5
"""Prior of the log odds over the whole range of a number, and of one choice of a category."""
_LOG_ODDS = (-3.0, 1.0)
_FORESEEN = 0.3
"""A memory model that gave a launch no more than this has explained its death."""


def survival(
    seen: Sequence[Observation], points: Features, at: Features, unforeseen: Array
) -> Array:
    """Probability that no death of this kind comes, shape (n_at,).

    Args:
        seen: launches that ended, in the order of ``points``.
        unforeseen: probability that memory lasts there, by the model of it, shape (n,): a death
            for want of memory where it should have lasted has a cause that this model must learn.
    """
    dead = np.array([_weight(o, lasts) for o, lasts in zip(seen, unforeseen, strict=True)])
    if not dead.any():
        return np.ones(at.own.size)
    alike = np.exp(-0.5 * _squared(at, points))
    risk = (_PRIOR_FAILURES + alike @ dead) / (_PRIOR_LAUNCHES + alike @ np.maximum(dead, 1.0))
    if at.other.shape[1]:
        risk = np.maximum(risk, _shared_risk(dead > 0, points, at))
    certain = np.array([o.failure is not None and o.failure.kind in _CERTAIN for o in seen])
    refused = (at.own[:, None] == points.own[None, certain]).any(axis=1)
    return np.where(refused, 0.0, 1.0 - np.minimum(risk, 1.0))


def _weight(observation: Observation, unforeseen: float) -> float:
    """How loud a death speaks; the memory model answers for those that it foresees."""
    failure = observation.failure
    if observation.outcome != "failed" or failure is None:
        return 0.0
    if failure.kind in MEMORY_KINDS:
        return unforeseen if unforeseen > _FORESEEN else 0.0
    return 4.0 if failure.kind in _CERTAIN else 1.0


def _shared_risk(dead: npt.NDArray[np.bool_], points: Features, at: Features) -> Array:
    """Logistic regression at its most plausible, shape (n_at,)."""
    columns, sds = _columns(points, points)
    asked, _ = _columns(at, points)
    precision = np.diag(1.0 / sds**2)
    centre = np.zeros(sds.size)
    centre[0] = _LOG_ODDS[0]
    beta = centre.copy()
    for _ in range(_NEWTON_STEPS):
        p = _logistic(columns @ beta)
        gradient = columns.T @ (dead - p) - precision @ (beta - centre)
        hessian = (columns * (p * (1 - p))[:, None]).T @ columns + precision
        beta = beta + np.clip(np.linalg.solve(hessian, gradient), -2.0, 2.0)
    return _logistic(asked @ beta)


def _columns(at: Features, points: Features) -> tuple[Array, Array]:
    """(1, numbers centred on their range, one column per category seen), and their prior sds."""
    parts, sds = [np.ones((at.own.size, 1))], [_LOG_ODDS[1]]
    for j in range(at.other.shape[1]):
        if at.categorical[j]:
            values = np.unique(points.other[:, j])
            parts.append((at.other[:, j, None] == values[None, :]).astype(np.float64))
            sds += [_CATEGORY_SD] * values.size
        else:
            parts.append(at.other[:, j, None] - 0.5)
            sds.append(_SLOPE_SD)
    return np.hstack(parts), np.array(sds)


def _logistic(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(x, -30.0, 30.0))))


def _squared(a: Features, b: Features) -> Array:
    """Squared distance: the tree by its own length scales, other numbers by a third of theirs."""
    total = ((a.tree[:, None, :] - b.tree[None, :, :]) ** 2).sum(axis=-1)
    for j in range(a.other.shape[1]):
        apart = a.other[:, j, None] - b.other[None, :, j]
        total = total + (2.0 * (apart != 0) if a.categorical[j] else (apart / 0.35) ** 2)
    return np.asarray(total)
