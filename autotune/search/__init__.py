"""Which configuration to launch next, which to deploy, and when to stop."""

from __future__ import annotations

from autotune.search.prospects import Prospects, prospects
from autotune.search.recommend import Recommendation, recommend
from autotune.search.sampler import CanonicalTPESampler, SpaceExhausted
from autotune.search.simple import (
    SAMPLERS,
    AnySampler,
    GaussianProcessSampler,
    GridSampler,
    Proposer,
    RandomSampler,
    SweepSampler,
    sampler_named,
)
from autotune.search.speculative import SpeculativeSampler
from autotune.search.walls import MemoryWalls

__all__ = [
    "SAMPLERS",
    "AnySampler",
    "CanonicalTPESampler",
    "GaussianProcessSampler",
    "GridSampler",
    "MemoryWalls",
    "Proposer",
    "Prospects",
    "RandomSampler",
    "Recommendation",
    "SpaceExhausted",
    "SpeculativeSampler",
    "SweepSampler",
    "prospects",
    "recommend",
    "sampler_named",
]
