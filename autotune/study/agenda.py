"""What a study launches before its sampler is asked, and whether there is anything left to ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.core.ranking import flag_key
from autotune.core.trial import RETRIED_ONCE, Flags, TrialRecord
from autotune.search import MemoryWalls
from autotune.space import SearchSpace
from autotune.study.budget import settled


@dataclass(frozen=True, slots=True)
class Launch:
    """Flags to launch, and why."""

    flags: Flags
    reason: str


def measured_baseline(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The first launch of the user's own flags that carries values."""
    return next((r for r in records if r.role == "baseline" and r.objectives is not None), None)


def due(space: SearchSpace, records: Sequence[TrialRecord]) -> Iterator[Launch]:
    """Flags whose launches have said nothing about them: they come before any of a sampler."""
    for record in records:
        if record.role != "search" or not space.contains(record.flags):
            continue
        same = [r for r in records if flag_key(r.flags) == flag_key(record.flags)]
        ended = [r for r in same if not r.is_interrupted]
        if not ended:
            yield Launch(record.flags, "cut off before")
        elif len(ended) == 1 and ended[0].failure and ended[0].failure.kind in RETRIED_ONCE:
            yield Launch(record.flags, f"{ended[0].failure.kind} before: once more")


def is_used_up(space: SearchSpace, records: Sequence[TrialRecord]) -> bool:
    """Whether every configuration that can live was launched."""
    inside = [r for r in settled(records) if r.role != "reference"]
    taken = {flag_key(record.flags) for record in inside}
    walls = MemoryWalls.learn(inside)
    free = (
        flags
        for flags in space.configurations()
        if flag_key(flags) not in taken and walls.why_not(flags) is None
    )
    return next(free, None) is None
