"""What a study launches before its sampler is asked: nothing here depends on a new measurement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.core.ranking import flag_key
from autotune.core.trial import RETRIED_ONCE, Flags, FlagValue, TrialRecord
from autotune.search.sampler import is_interrupted
from autotune.space import SearchSpace
from autotune.space.rules import DRAFT, STEPS, TOPK

_TREES = ((3, 1, 4), (5, 1, 6), (3, 2, 6), (5, 4, 8))
FIRST_TRIALS: tuple[dict[str, FlagValue], ...] = tuple(
    dict(zip((STEPS, TOPK, DRAFT), tree, strict=True)) for tree in _TREES
)
"""Good places to start whatever the model: SGLang's own two automatic choices, (3, 1, 4) and
(5, 4, 8), and between them a deeper chain and a small tree."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Flags to launch, and why."""

    flags: Flags
    reason: str


def measured_baseline(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The first launch of the user's own flags that carries values."""
    return next((r for r in records if r.role == "baseline" and r.objectives is not None), None)


def due(space: SearchSpace, baseline: Flags, records: Sequence[TrialRecord]) -> Iterator[Launch]:
    """What comes next whatever the sampler thinks: launches that were lost, then usual starts.

    Args:
        baseline: flags of the baseline, completed by its server where it was measured.
    """
    yield from _once_more(space, records)
    taken = {flag_key(record.flags) for record in records}
    for start in FIRST_TRIALS:
        usual = _completed(space, start, baseline)
        if usual is not None and flag_key(usual) not in taken:
            taken.add(flag_key(usual))
            yield Launch(usual, "a usual starting point")


def _once_more(space: SearchSpace, records: Sequence[TrialRecord]) -> Iterator[Launch]:
    """Flags whose launches have said nothing about them."""
    for record in records:
        if record.role != "search" or not space.contains(record.flags):
            continue
        same = [r for r in records if flag_key(r.flags) == flag_key(record.flags)]
        ended = [r for r in same if not is_interrupted(r)]
        if not ended:
            yield Launch(record.flags, "cut off before")
        elif len(ended) == 1 and ended[0].failure and ended[0].failure.kind in RETRIED_ONCE:
            yield Launch(record.flags, f"{ended[0].failure.kind} before: once more")


def _completed(space: SearchSpace, start: Flags, baseline: Flags) -> Flags | None:
    """A starting point with the baseline's values elsewhere; None where the space lacks it."""
    known = {**baseline, **start}
    flags = {name: known[name] for name in space.names if name in known}
    if any(name not in flags for name in space.parameters):
        return None
    legal = space.nearest_legal(flags)
    return legal if legal.items() >= start.items() else None
