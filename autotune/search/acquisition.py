"""What a launch is worth: expected gain in score, expected gain in front, per expected minute."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

Array = npt.NDArray[np.float64]

_FAILED_SHARE = 0.5
"""A failed launch takes about half of a whole one where the study has not seen any."""


def expected_improvement(means: Array, sd: Array, incumbent: Array) -> Array:
    """Averaged over the draws of the unknowns, shape (n,).

    Args:
        means: scores, shape (draws, n).
        sd: of what a launch would tell beside the draw, shape (n,).
        incumbent: best score already in hand, shape (draws,).
    """
    return np.asarray(excess(means - incumbent[:, None], sd).mean(axis=0))


def excess(mean: Array, sd: Array) -> Array:
    """Expected part above zero of a normal variable; shapes broadcast."""
    z = mean / sd
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return np.asarray(mean * ndtr(z) + sd * density)


def value_of_replicate(mean: float, sd: float, rival: float) -> float:
    """What another launch of a configuration in hand may bring: it may change which one is best.

    Args:
        mean: its score.
        sd: how far that may move.
        rival: best score of all other configurations in hand.
    """
    return float(excess(np.array(-abs(mean - rival)), np.array(sd)))


def told_by_a_launch(sd: Array, noise: float) -> Array:
    """How far the estimate would move, from its own standard deviation and that of a launch.

    A configuration that was launched before is worth less this way: much of it is known.
    """
    return np.asarray(np.maximum(sd**2 / np.sqrt(sd**2 + noise**2), 1e-6))


def hypervolume(points: Array, reference: Array) -> float:
    """Area that points (maximised, shape (n, 2)) dominate above a reference."""
    front = _front(points, reference)
    if not front.size:
        return 0.0
    widths = np.diff(np.concatenate([[reference[0]], front[:, 0]]))
    return float((widths * (front[:, 1] - reference[1])).sum())


def expected_hypervolume_improvement(sampled: Array, front: Array, reference: Array) -> Array:
    """Area that a sampled point adds to the front, averaged over the draws, shape (n,).

    Args:
        sampled: shape (draws, n, 2), maximised.
        front: points in hand, shape (m, 2).
        reference: shape (2,).
    """
    steps = _front(front, reference)
    left = np.concatenate([[reference[0]], steps[:, 0]])
    right = np.concatenate([steps[:, 0], [np.inf]])
    height = np.concatenate([steps[:, 1], [reference[1]]])
    x, y = sampled[..., 0], sampled[..., 1]
    area = np.zeros(x.shape)
    for low, high, above in zip(left, right, height, strict=True):
        area += np.maximum(np.minimum(x, high) - low, 0.0) * np.maximum(y - above, 0.0)
    return np.asarray(area.mean(axis=0))


def _front(points: Array, reference: Array) -> Array:
    """Points above the reference that no other dominates, by rising first coordinate."""
    inside = points[(points > reference).all(axis=1)]
    inside = inside[np.lexsort((inside[:, 1], inside[:, 0]))]
    if not inside.size:
        return inside.reshape(0, 2)
    highest_right = np.maximum.accumulate(inside[::-1, 1])[::-1]
    keeps = np.append(inside[:-1, 1] > highest_right[1:], True)
    return np.asarray(inside[keeps])


def per_minute(gain: Array, survival: Array, minutes: float, failed_minutes: float | None) -> Array:
    """Expected gain for each expected minute: who may die gains less, and may cost less too."""
    failed = _FAILED_SHARE * minutes if failed_minutes is None else min(failed_minutes, minutes)
    return np.asarray(gain * survival / (survival * minutes + (1.0 - survival) * failed))
