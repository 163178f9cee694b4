"""What launches teach that were left after their latency: half of two values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from autotune.search.observation import Measured, Observation

UNKNOWN_SD = 3.0
"""Of ln throughput where none was measured: a thousandth of the weight of a real launch, so that
a value may stand in its place and says nothing."""


def with_halfway(
    measured: Sequence[Observation], ended: Sequence[Observation]
) -> list[Observation]:
    """The measured launches, then the pruned ones, whose throughput may be anything.

    Args:
        measured: carry both values.
        ended: all that came to an end.
    """
    left = [o for o in ended if o.outcome == "pruned" and o.latency is not None]
    if not left:
        return list(measured)
    known = [o.throughput.log for o in measured if o.throughput]
    anything = Measured(fmean(known), UNKNOWN_SD)
    return [*measured, *(replace(o, throughput=anything) for o in left)]
