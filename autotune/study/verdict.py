"""Where speculation off is faster than the flags that a study recommends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from autotune.core.ranking import Ranking, Standing, pool
from autotune.core.trial import Interval, TrialRecord
from autotune.study import words
from autotune.study.reading import StudyView


def off_wins(view: StudyView, ranking: Ranking) -> str | None:
    """The loads at which speculation off wins beyond the noise, in a sentence; None: at none."""
    off, best = ranking.reference, ranking.best
    if off is None or best is None:
        return None
    records = [[view.record(number) for number in s.trials] for s in (off, best)]
    wins = list(_wins(records[0], records[1]))
    if not wins:
        return None
    told = f"speculation off (trial {off.trial}) is faster at {' and '.join(wins)}"
    return told + (f"; it wins for {ranking.objective.name} too" if _scores(off, best) else "")


def _scores(off: Standing, best: Standing) -> bool:
    return off.feasible and off.score > best.score


def _wins(off: Sequence[TrialRecord], best: Sequence[TrialRecord]) -> Iterator[str]:
    ours, theirs = _by_load(off), _by_load(best)
    for load, (value, smaller_is_better) in ours.items():
        if load not in theirs:
            continue
        other = theirs[load][0]
        gain = math.log(value.value / other.value) * (-1 if smaller_is_better else 1)
        if gain > math.hypot(value.half_width_frac, other.half_width_frac):
            show = words.seconds if smaller_is_better else words.tok_s
            yield f"{load}: {show(value)} against {show(other)}"


def _by_load(records: Sequence[TrialRecord]) -> dict[str, tuple[Interval, bool]]:
    """The headline value of each load, pooled over launches, and whether less of it is better."""
    found: dict[str, list[Interval]] = {}
    is_latency: dict[str, bool] = {}
    for phase in (phase for record in records for phase in record.phases):
        if phase.headline.value > 0:
            found.setdefault(phase.load, []).append(phase.headline)
            is_latency[phase.load] = phase.headline is phase.turn_latency_s
    return {load: (pool(values), is_latency[load]) for load, values in found.items()}


def closest_miss(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The trial that misses its worst constraint by the least; None: none has constraints."""
    measured = [record for record in records if record.constraints and record.objectives]
    return min(measured, key=lambda record: max(record.constraints.values()), default=None)
