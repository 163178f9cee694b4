"""The draft tree: the three speculative flags of a space, and which triples of them are legal.

Steps, topk and draft tokens are one decision. Asked in the order topk, steps, draft tokens, each
answer leaves at least one legal value for the next, so that no draw is ever thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.space.rules import DRAFT, LIMITS, draft_range


@dataclass(frozen=True, slots=True)
class DraftTree:
    """The values a space allows for each of the three flags, a fixed flag being one value.

    Attributes:
        steps: draft steps, >= 1, in order.
        topks: branches per step, >= 1, in order.
        draft_low_tok: fewest draft tokens that the space allows.
        draft_high_tok: most draft tokens that the space allows.
    """

    steps: tuple[int, ...]
    topks: tuple[int, ...]
    draft_low_tok: int = int(LIMITS[DRAFT][0])
    draft_high_tok: int = int(LIMITS[DRAFT][1])

    def drafts_for(self, steps: int, topk: int) -> range:
        """Legal draft tokens of this pair inside the space; empty where there are none."""
        low, high = draft_range(steps, topk)
        return range(max(low, self.draft_low_tok), min(high, self.draft_high_tok) + 1)

    def steps_for(self, topk: int) -> tuple[int, ...]:
        """Steps that leave a legal number of draft tokens: neighbours, for they grow together."""
        return tuple(steps for steps in self.steps if self.drafts_for(steps, topk))

    def triples(self) -> Iterator[tuple[int, int, int]]:
        """Every legal (steps, topk, draft tokens)."""
        for topk in self.topks:
            for steps in self.steps_for(topk):
                for draft_tok in self.drafts_for(steps, topk):
                    yield steps, topk, draft_tok

    @property
    def n_triples(self) -> int:
        pairs = ((steps, topk) for topk in self.topks for steps in self.steps)
        return sum(len(self.drafts_for(steps, topk)) for steps, topk in pairs)
