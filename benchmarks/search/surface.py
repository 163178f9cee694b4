"""What no cost model knows: the stress set's slow paths and smooth errors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.engine.simulated.physics import Speculation
from benchmarks.search.jitter import rng_of

_AMPLITUDE = 0.10
_SLOW_PATH = 1.25
_SLOW_TOPK = 1.12
_WAVES = 6
_OWN_SHARE = 0.6
"""How much of the surface differs between C=1 and under load."""


@dataclass(frozen=True, slots=True)
class Surface:
    """Factors on the time of a decode cycle.

    Attributes:
        waves: frequency and phase of each wave, (waves, 4).
        weights: of the waves at C=1 and under load, (2, waves).
        topk: the one that is 12 % slower.
        slow_above: draft tokens above which a cycle takes 25 % longer; None: a region does.
        slow_region: (topk, fewest steps) of that region.
    """

    waves: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    topk: int
    slow_above: int | None
    slow_region: tuple[int, int]

    def slowdown(self, speculation: Speculation, is_loaded: bool) -> float:
        """Factor on the time of a cycle."""
        place = _place(speculation)
        heights = np.sin(self.waves[:, :3] @ place + self.waves[:, 3])
        factor = 1.0 + float(self.weights[int(is_loaded)] @ heights)
        if speculation.topk == self.topk:
            factor *= _SLOW_TOPK
        return factor * _SLOW_PATH if self._is_slow(speculation) else factor

    def _is_slow(self, speculation: Speculation) -> bool:
        if self.slow_above is not None:
            return speculation.draft_tokens > self.slow_above
        topk, steps = self.slow_region
        return speculation.topk == topk and speculation.steps >= steps


def surface_of(name: str, seed: int) -> Surface:
    """The surface of the box of this family with this number."""
    rng = rng_of("surface", name, seed)
    waves = np.column_stack([rng.normal(0, 2.0, (_WAVES, 3)), rng.uniform(0, 2 * math.pi, _WAVES)])
    shared = rng.normal(size=_WAVES)
    weights = np.stack([shared + _OWN_SHARE * rng.normal(size=_WAVES) for _ in range(2)])
    heights = _typical_heights(waves)
    weights *= _AMPLITUDE / np.abs(weights @ heights).max(axis=1, keepdims=True)
    return Surface(
        waves,
        weights,
        topk=int(rng.choice([1, 2, 4, 8])),
        slow_above=int(rng.choice([4, 6, 8, 12, 16])) if rng.random() < 0.5 else None,
        slow_region=(int(rng.choice([1, 2, 4, 8])), int(rng.integers(2, 6))),
    )


def _place(speculation: Speculation) -> npt.NDArray[np.float64]:
    """Steps, topk and draft tokens, each from 0 to about 1."""
    return np.array(
        [
            speculation.steps / 8,
            math.log2(speculation.topk) / 3,
            math.log2(speculation.draft_tokens) / 6,
        ]
    )


def _typical_heights(waves: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    trees = [
        Speculation(steps, topk, min(draft, Speculation(steps, topk, draft).largest_tree))
        for steps in range(1, 9)
        for topk in (1, 2, 4, 8)
        for draft in (2, 4, 8, 16, 32, 64)
    ]
    places = np.stack([_place(tree) for tree in trees], axis=1)
    return np.asarray(np.sin(waves[:, :3] @ places + waves[:, 3:]))
