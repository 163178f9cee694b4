"""Accept length of a draft tree from a few unknowns: what one launch says about all the others.

The first choice at depth ``j`` is right with probability ``q exp(-decay (j - 1))``; each sibling
takes the share ``rho`` of what those before it left over. SGLang keeps ``topk`` nodes a level and
verifies the best ``draft - 1`` of all scored ones (speculative/eagle_utils.py,
``organize_draft_results``, 0.5.23), so that the accept length is 1 plus the sum of their path
probabilities. Text is a mixture of easy and hard contexts: half of it has a higher ``q``.

The expected length is smooth in the three unknowns and dear to compute, so that it is computed once
on a grid and interpolated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Triple = tuple[int, int, int]

_Q_LOGITS = np.linspace(-3.0, 6.0, 13)
_LOG_DECAYS = np.linspace(-5.0, -0.5, 6)
_RHO_LOGITS = np.linspace(-3.0, 1.5, 4)


def _sigmoid(x: npt.ArrayLike) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-np.asarray(x, dtype=np.float64))))


@dataclass(frozen=True, slots=True)
class AcceptTable:
    """Expected accept length of given draft trees at every point of the grid.

    Attributes:
        lengths: shape (q, decay, rho, tree), each >= 1.
    """

    lengths: Array

    @classmethod
    def of(cls, triples: Iterable[Triple]) -> AcceptTable:
        """Of (steps, topk, draft tokens); steps 0 is no speculation and accepts one token."""
        grid = np.zeros((_Q_LOGITS.size, _LOG_DECAYS.size, _RHO_LOGITS.size, 0))
        trees = [_tree(*triple)[..., None] for triple in triples]
        return cls(np.concatenate([grid, *trees], axis=-1))

    def expected(self, q_logit: Array, spread: Array, log_decay: Array, rho_logit: Array) -> Array:
        """Expected accept lengths, shape (draws, trees), of unknowns of shape (draws,)."""
        decay, rho = _place(_LOG_DECAYS, log_decay), _place(_RHO_LOGITS, rho_logit)
        easy = self._at(_place(_Q_LOGITS, q_logit + spread), decay, rho)
        hard = self._at(_place(_Q_LOGITS, q_logit - spread), decay, rho)
        return np.asarray(0.5 * (easy + hard))

    def _at(self, *places: tuple[npt.NDArray[np.intp], Array]) -> Array:
        total = np.zeros((places[0][0].size, self.lengths.shape[-1]))
        for corner in np.ndindex(2, 2, 2):
            weight = np.ones(places[0][0].size)
            index = []
            for (low, part), side in zip(places, corner, strict=True):
                weight = weight * (part if side else 1.0 - part)
                index.append(low + side)
            total += weight[:, None] * self.lengths[tuple(index)]
        return total


def _place(grid: Array, value: Array) -> tuple[npt.NDArray[np.intp], Array]:
    """Index below, and how far on to the next, clipped to the grid."""
    step = grid[1] - grid[0]
    position = np.clip((value - grid[0]) / step, 0.0, grid.size - 1.0)
    low = np.minimum(position.astype(np.intp), grid.size - 2)
    return low, position - low


@lru_cache(maxsize=65536)
def _tree(steps: int, topk: int, draft: int) -> Array:
    """Expected accept length of one tree on the whole grid, shape (q, decay, rho)."""
    paths = _sorted_paths(steps, topk)
    return np.asarray(1.0 + paths[..., : max(0, draft - 1)].sum(axis=-1))


@lru_cache(maxsize=256)
def _sorted_paths(steps: int, topk: int) -> Array:
    """Path probabilities of all scored nodes, the largest first, at each point of the grid."""
    q = _sigmoid(_Q_LOGITS)[:, None, None]
    decay, rho = np.exp(_LOG_DECAYS)[None, :, None], _sigmoid(_RHO_LOGITS)[None, None, :]
    shape = (q.size, decay.size, rho.size)
    frontier, scored = np.ones((*shape, 1)), [np.zeros((*shape, 0))]
    for depth in range(steps):
        first = np.broadcast_to(q * np.exp(-decay * depth), shape)
        siblings = [first]
        for _ in range(topk - 1):
            siblings.append(rho * (1.0 - sum(siblings)))
        branch = np.stack(siblings, axis=-1)
        children = (frontier[..., :, None] * branch[..., None, :]).reshape(*shape, -1)
        scored.append(children)
        frontier = -np.sort(-children, axis=-1)[..., :topk]
    return np.asarray(-np.sort(-np.concatenate(scored, axis=-1), axis=-1))
