"""How many tokens one verify pass yields: the accept length of a draft tree.

The draft model's first choice at depth ``j`` is right with probability
``q * exp(-decay * j**depth_power)``; each further sibling gets a share ``rho`` of what the
siblings before it left over. The tree is the one SGLang builds: every kept node is expanded to
``topk`` children, ``topk`` nodes survive a level, and the best ``draft_tokens - 1`` of all scored
nodes are verified (SGLang 0.5.23, ``speculative/eagle_utils.py``, ``organize_draft_results``).
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class DraftQuality:
    """How well the draft model guesses, over a mixture of kinds of text.

    Attributes:
        mixture: ``(share, q)`` pairs; shares sum to 1, ``q`` in (0, 1) is the first-choice
            acceptance before decay.
        decay: loss per depth, in nats, at depth 1.
        depth_power: how that loss grows with depth; large values make a cliff.
        rho: share of the remaining probability that each further sibling takes, in [0, 1).
    """

    mixture: tuple[tuple[float, float], ...]
    decay: float
    depth_power: float = 1.0
    rho: float = 0.35

    def scaled(self, factor: float) -> DraftQuality:
        """A draft that guesses so much worse: 0 never guesses right, 1 changes nothing."""
        mixture = tuple((share, q * factor) for share, q in self.mixture)
        return replace(self, mixture=mixture, rho=self.rho * factor)

    def first_choice(self, q: float, depth: int) -> float:
        """Probability that the first choice at ``depth`` (1-based) is accepted."""
        return q * math.exp(-self.decay * depth**self.depth_power)


@dataclass(frozen=True, slots=True)
class AcceptDistribution:
    """Tokens per verify pass: ``cumulative[n]`` is P(tokens <= n + 1), the last entry is 1."""

    cumulative: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Expected accept length, the target's own token included; at least 1."""
        return 1.0 + sum(1.0 - c for c in self.cumulative[:-1])

    def draw(self, uniform: float) -> int:
        """Accept length at a uniform number in [0, 1)."""
        return 1 + bisect_right(self.cumulative, uniform)


@lru_cache(maxsize=4096)
def accept_distribution(
    quality: DraftQuality, steps: int, topk: int, draft_tokens: int
) -> AcceptDistribution:
    """Distribution of the accept length of a draft tree.

    Args:
        quality: the draft model on this text.
        steps: tree depth, >= 0; 0 means no speculation (always one token).
        topk: children per node, >= 1.
        draft_tokens: nodes sent to verification, the root included, >= 1.
    """
    survival = [0.0] * steps
    for share, q in quality.mixture:
        for depth, probability in enumerate(_depth_sums(quality, q, steps, topk, draft_tokens)):
            survival[depth] += share * probability
    return AcceptDistribution((*(1.0 - s for s in survival), 1.0))


def faked_distribution(mean: float, steps: int) -> AcceptDistribution:
    """What ``SGLANG_SIMULATE_ACC_LEN`` makes SGLang accept: ``mean`` rounded down or up at random,
    within 1 to ``steps + 1`` (``match-expected`` in ``speculative/spec_utils.py``, 0.5.6).
    """
    mean = min(max(mean, 1.0), steps + 1.0)
    return AcceptDistribution(tuple(min(1.0, max(0.0, n + 1 - mean)) for n in range(1, steps + 2)))


def _depth_sums(
    quality: DraftQuality, q: float, steps: int, topk: int, draft_tokens: int
) -> list[float]:
    """P(at least ``depth`` draft tokens are accepted) for depth 1 … steps."""
    scored: list[tuple[float, int]] = []
    frontier = [1.0]
    for depth in range(1, steps + 1):
        branch = _sibling_probabilities(quality.first_choice(q, depth), quality.rho, topk)
        candidates = [path * p for path in frontier for p in branch]
        scored.extend((p, depth) for p in candidates)
        frontier = heapq.nlargest(topk, candidates)
    sums = [0.0] * steps
    for probability, depth in heapq.nlargest(draft_tokens - 1, scored):
        sums[depth - 1] += probability
    return sums


def _sibling_probabilities(first: float, rho: float, topk: int) -> list[float]:
    siblings = [first]
    while len(siblings) < topk:
        siblings.append(rho * (1.0 - sum(siblings)))
    return siblings
