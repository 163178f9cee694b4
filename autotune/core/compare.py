"""Two measurements of the same load: better, worse or a tie. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from autotune.core.trial import Interval, Phase, TrialRecord

Verdict = Literal["better", "worse", "tie"]

_COMPARED: tuple[tuple[str, bool], ...] = (
    ("turn_latency_s", False),
    ("ttft_s", False),
    ("tpot_s", False),
    ("output_tok_s", True),
    ("accept_length_interval", True),
)
"""Metric of ``Phase`` and whether more is better."""
_TIE_FRAC = 0.005
"""A difference below half a percent is a tie however sure it is: no launch repeats to that."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of one phase, after against before.

    Attributes:
        change_frac: after / before − 1 with its 95 % interval; positive where the value grew.
        verdict: ``tie`` where the interval holds 0, or the change is below half a percent.
    """

    role: str
    load: str
    metric: str
    before: Interval
    after: Interval
    change_frac: Interval
    verdict: Verdict


def differences(before: TrialRecord, after: TrialRecord) -> Iterator[Difference]:
    """Each metric that both have, of each phase that both have, in the order of ``after``."""
    known = {_load(phase): phase for phase in before.phases}
    for phase in after.phases:
        other = known.get(_load(phase))
        if other is None:
            continue
        for metric, more_is_better in _COMPARED:
            values = getattr(other, metric), getattr(phase, metric)
            if all(value is not None and value.value > 0 for value in values):
                yield _difference(phase, metric, *values, more_is_better)


def _load(phase: Phase) -> tuple[str, str, bool, str]:
    return phase.role, phase.load, phase.gaps, phase.workload


def _difference(
    phase: Phase, metric: str, before: Interval, after: Interval, more_is_better: bool
) -> Difference:
    return Difference(
        phase.role,
        phase.load,
        metric.removesuffix("_interval"),
        before,
        after,
        ratio_change(before, after),
        verdict_of(before, after, more_is_better=more_is_better),
    )


def verdict_of(before: Interval, after: Interval, *, more_is_better: bool) -> Verdict:
    """Of a value > 0 against another one."""
    if is_tie(before, after):
        return "tie"
    return "better" if (after.value > before.value) == more_is_better else "worse"


def is_tie(before: Interval, after: Interval) -> bool:
    """Whether two values > 0 differ by no more than the noise, or by less than half a percent."""
    change = ratio_change(before, after)
    return change.low <= 0 <= change.high or abs(change.value) < _TIE_FRAC


def ratio_change(before: Interval, after: Interval) -> Interval:
    """After / before − 1 with a 95 % interval; both values > 0.

    The two are independent, and a ratio is symmetric on the logarithmic scale: half-widths of the
    logarithms add in squares (delta method).
    """
    centre = math.log(after.value / before.value)
    up = math.hypot(_log_half(after, "high"), _log_half(before, "low"))
    down = math.hypot(_log_half(after, "low"), _log_half(before, "high"))
    return Interval(*(math.expm1(x) for x in (centre, centre - down, centre + up)))


def _log_half(interval: Interval, side: Literal["low", "high"]) -> float:
    edge = max(getattr(interval, side), 1e-9 * interval.value)
    return abs(math.log(edge / interval.value))
