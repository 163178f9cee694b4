"""What a study and its judge need of a world: a box with flags to search, and its truth."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from autotune.core.pareto import Point, hypervolume
from autotune.core.trial import Flags, FlagValue
from autotune.space import SearchSpace

SERVING = (16, 32)
"""Serving concurrencies."""
LIKELY = 0.05
"""A configuration that dies more often than this is no answer."""

Array = npt.NDArray[np.float64]


class Candidates(NamedTuple):
    """True values of the sound configurations, in any order."""

    latency_s: Array
    throughput_tok_s: Array


class World(Protocol):
    """A box.

    Attributes:
        name: of the kind of box.
        seed: which one of them.
    """

    name: str
    seed: int
    space: SearchSpace

    @property
    def baseline(self) -> dict[str, FlagValue]:
        """Flags that its owner runs today: they live."""

    @property
    def candidates(self) -> Candidates:
        """By enumeration."""

    def risk(self, flags: Flags) -> tuple[float, Point | None]:
        """How likely a configuration is to die for its flags, and its true values if it lives."""

    def launch(self, flags: Flags, number: int) -> dict[str, Any]:
        """The record of trial ``number``. Equal numbers have equal luck, whichever the sampler."""


def point_of(world: World, flags: Flags) -> Point | None:
    """True latency and throughput; None for a configuration that fails, or may well."""
    risk, point = world.risk(flags)
    return point if risk <= LIKELY else None


def best_score(world: World, latency_weight: float) -> float:
    """Score of the true optimum, on the scale of ``plain_score``."""
    latency_s, throughput_tok_s = world.candidates
    scores = -latency_weight * np.log(latency_s) + (1 - latency_weight) * np.log(throughput_tok_s)
    return float(scores.max())


def plain_score(point: Point, latency_weight: float) -> float:
    """The objective without a baseline, which only shifts it."""
    return -latency_weight * math.log(point[0]) + (1 - latency_weight) * math.log(point[1])


def reference_of(world: World) -> Point:
    """Half as good as the best in each goal: where the hypervolume begins."""
    latency_s, throughput_tok_s = world.candidates
    return 2.0 * float(latency_s.min()), 0.5 * float(throughput_tok_s.max())


def best_hypervolume(world: World) -> float:
    """Hypervolume of the true front."""
    latency_s, throughput_tok_s = world.candidates
    order = np.lexsort((-throughput_tok_s, latency_s))
    rising = np.maximum.accumulate(throughput_tok_s[order])
    front = order[np.flatnonzero(np.diff(rising, prepend=0.0))]
    points = list(zip(latency_s[front].tolist(), throughput_tok_s[front].tolist(), strict=True))
    return hypervolume(points, reference_of(world))
