"""What several launches of one configuration say together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.core.ranking import pool
from autotune.core.trial import Interval, Phase, TrialRecord


def pooled(phases: Iterable[Phase], metric: str) -> Interval | None:
    """A metric over phases of one load; None where it was not measured.

    Args:
        metric: name of an interval of ``Phase``.
    """
    found = [getattr(phase, metric) for phase in phases]
    positive = [value for value in found if value is not None and value.value > 0]
    return pool(positive) if positive else None


def told(records: Sequence[TrialRecord], name: str) -> float | None:
    """A number that the server itself told of its settings, of the first launch that has it."""
    found = (record.effective.get(name) for record in records)
    numbers = (v for v in found if isinstance(v, int | float) and not isinstance(v, bool))
    return next((float(number) for number in numbers), None)
