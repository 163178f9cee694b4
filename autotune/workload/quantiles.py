"""Distributions known by a few published quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise


def at_quantile(points: Mapping[float, float], share: float) -> float:
    """The value below which this share lies, in [0, 1]: geometric between the known points.

    Args:
        points: value (> 0) at share, ascending, from 0.0 to 1.0.
    """
    for (below, low), (above, high) in pairwise(points.items()):
        if share <= above:
            return float(low * (high / low) ** ((share - below) / (above - below)))
    raise ValueError(f"{share} is not in [0, 1]")
