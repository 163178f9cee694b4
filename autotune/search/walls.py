"""What failed launches rule out: memory walls that are monotone in the flags.

One death says much: what ran out of memory at a fraction and a tree also does so with more of
either, and what had no room for its KV cache has none with less memory or a larger tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from autotune.core.trial import Failure, FailureKind, Flags, FlagValue, TrialRecord
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK

_TOO_MUCH = (FailureKind.GRAPH_CAPTURE_OOM, FailureKind.RUNTIME_OOM)
_TOO_LITTLE = (FailureKind.KV_DOES_NOT_FIT,)
_JUST_BELOW = 1e-6

Tree = tuple[FlagValue | None, FlagValue | None, FlagValue | None]


@dataclass(slots=True)
class MemoryWalls:
    """Walls learned from failed records.

    Attributes:
        above: (fraction, draft tokens) that ran out of memory beside the static pool.
        below: (fraction, draft tokens) that left no room in the pool.
        rejected: (steps, topk, draft tokens) that SGLang refuses whatever the memory.
    """

    above: list[tuple[float, float]] = field(default_factory=list)
    below: list[tuple[float, float]] = field(default_factory=list)
    rejected: set[Tree] = field(default_factory=set)

    @classmethod
    def learn(cls, records: Iterable[TrialRecord]) -> Self:
        """Reads the walls off a study's records; most teach none."""
        walls = cls()
        for record in records:
            # A baseline may have failed under a command that was mended since.
            if record.failure is not None and record.role != "baseline":
                walls._take(record.failure, record.flags)
        return walls

    def why_not(self, flags: Flags) -> str | None:
        """Why these flags cannot live, in words; None where nothing speaks against them."""
        if _tree(flags) in self.rejected:
            return "the server refused this draft tree before"
        fraction, draft = _load(flags)
        if fraction is None:
            return None
        for at_fraction, at_draft in self.above:
            if fraction >= at_fraction and draft >= at_draft:
                return f"out of memory at fraction {at_fraction:g} with {at_draft} draft tokens"
        for at_fraction, at_draft in self.below:
            if fraction <= at_fraction and draft >= at_draft:
                return f"no room for the KV cache at fraction {at_fraction:g}"
        return None

    def _take(self, failure: Failure, flags: Flags) -> None:
        kind, bound = failure.kind, failure.bound
        fraction, draft = _load(flags)
        if kind is FailureKind.REJECTED_COMBINATION and None not in _tree(flags):
            self.rejected.add(_tree(flags))
        elif fraction is not None and bound and (bound.flag, bound.side) == (MEMORY, "at_least"):
            # The server told how much would do; a pool that ran dry at run time tells it too,
            # which is the wall below and not, as else at run time, the one above.
            self.below.append((max(fraction, bound.value - _JUST_BELOW), draft))
        elif fraction is not None and kind in _TOO_MUCH:
            self.above.append((fraction, draft))
        elif fraction is not None and kind in _TOO_LITTLE:
            self.below.append((fraction, draft))


def _load(flags: Flags) -> tuple[float | None, float]:
    fraction, draft = flags.get(MEMORY), flags.get(DRAFT, 1)
    return (
        float(fraction) if isinstance(fraction, int | float) else None,
        draft if isinstance(draft, int | float) else 1,
    )


def _tree(flags: Flags) -> Tree:
    return flags.get(STEPS), flags.get(TOPK), flags.get(DRAFT)
