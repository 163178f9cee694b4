"""Which configuration to launch next."""

from __future__ import annotations

from autotune.search.sampler import CanonicalTPESampler, SpaceExhausted
from autotune.search.walls import MemoryWalls

__all__ = ["CanonicalTPESampler", "MemoryWalls", "SpaceExhausted"]
