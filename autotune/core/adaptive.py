"""Steps by batch size: what each load wants, from measured curves, and where to change. Pure.

A server that adapts has one number of draft steps for each range of batch sizes. The numbers come
from loads that were measured with several step counts each; between two loads the change lies where
the two curves cross, interpolated on the scale of the logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.core.compare import is_tie
from autotune.core.trial import Interval

OFF = 0
"""Steps of a server that does not speculate."""
_SMALLEST_SHARE = 0.75
"""Of the requests in flight that are in the batch at least: the others have just ended, wait for
their first token, or are being sent."""

Curve = Mapping[int, Interval]
"""Steps to a value at one load, more being better; ``OFF`` stands for speculation off."""


@dataclass(frozen=True, slots=True, order=True)
class Tier:
    """From a batch size on, up to the next tier, ``steps`` draft steps; 0: no speculation."""

    batch: int
    steps: int


@dataclass(frozen=True, slots=True)
class Load:
    """What was measured at one load.

    Attributes:
        concurrency: requests in flight.
        batch: those of them that run at once: the server may have fewer slots.
    """

    concurrency: int
    batch: int
    curve: Curve


def best_steps(curve: Curve, *, with_off: bool = True) -> int:
    """The smallest step count that nothing beats beyond the noise.

    Speculation off is simplest of all and yet chosen only where it wins beyond the noise: it is
    measured once, and a server that adapts pays for the drafts that it does not use.

    Args:
        curve: at least one positive step count.
        with_off: whether off may be chosen.
    """
    speculating = {steps: value for steps, value in curve.items() if steps != OFF}
    top = max(speculating.values(), key=lambda value: value.value)
    best = min(steps for steps, value in speculating.items() if is_tie(value, top))
    off = curve.get(OFF)
    if with_off and off is not None and off.value > top.value and not is_tie(off, top):
        return OFF
    return best


def tiers(loads: Sequence[Load], *, with_off: bool = True) -> tuple[Tier, ...]:
    """The table: the first tier begins at batch size 1, and neighbours differ in their steps.

    Loads with one batch size share a tier, for a server cannot tell them apart.

    Args:
        loads: by rising concurrency, at least one.
    """
    merged = _merged(loads)
    best = [best_steps(load.curve, with_off=with_off) for load in merged]
    found = [Tier(1, best[0])]
    for i in range(1, len(merged)):
        if best[i] != found[-1].steps:
            begin = _crossing(merged[i - 1], merged[i], best[i - 1], best[i])
            found.append(Tier(max(begin, found[-1].batch + 1), best[i]))
    return tuple(found)


def _merged(loads: Sequence[Load]) -> list[Load]:
    found: list[Load] = []
    for load in loads:
        if found and found[-1].batch == load.batch:
            shared = found[-1].curve.keys() & load.curve.keys()
            if shared - {OFF}:
                curve = {
                    steps: _mean(found[-1].curve[steps], load.curve[steps]) for steps in shared
                }
                found[-1] = Load(load.concurrency, load.batch, curve)
                continue
        found.append(load)
    return found


def _mean(one: Interval, other: Interval) -> Interval:
    """Geometric mean of two values whose units may differ: only its ratios mean something."""
    return Interval(*(math.sqrt(max(a, 1e-12) * max(b, 1e-12))
                      for a, b in zip(_ends(one), _ends(other), strict=True)))  # fmt: skip


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def _crossing(low: Load, high: Load, before: int, after: int) -> int:
    """The first batch size that runs ``after`` steps, between those of two neighbouring loads."""
    lead_low, lead_high = _lead(low.curve, before, after), _lead(high.curve, before, after)
    share = 0.5
    if lead_low is not None and lead_high is not None and lead_low > lead_high:
        share = min(1.0, max(0.0, lead_low / (lead_low - lead_high)))
    at = math.exp(math.log(low.batch) + share * math.log(high.batch / low.batch))
    latest = max(low.batch + 1, math.floor(_SMALLEST_SHARE * high.batch))
    return min(latest, max(low.batch + 1, math.ceil(at)))


def _lead(curve: Curve, before: int, after: int) -> float | None:
    """Log of how far ``before`` is ahead of ``after`` at a load; None: one was not measured."""
    if before not in curve or after not in curve:
        return None
    return math.log(curve[before].value / curve[after].value)
