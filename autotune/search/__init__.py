"""Which configuration to launch next, which to deploy, and when to stop."""

from __future__ import annotations

from autotune.search.recommend import Recommendation, recommend
from autotune.search.sampler import CanonicalTPESampler, SpaceExhausted
from autotune.search.speculative import SpeculativeSampler
from autotune.search.walls import MemoryWalls

__all__ = [
    "CanonicalTPESampler",
    "MemoryWalls",
    "Recommendation",
    "SpaceExhausted",
    "SpeculativeSampler",
    "recommend",
]
