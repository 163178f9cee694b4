"""Fixed steps against steps that follow the batch, load by load and for the objective."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from autotune.core.compare import Verdict as RowVerdict
from autotune.core.compare import ratio_change, verdict_of
from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.ranking import Standing, pool
from autotune.core.repeats import LaunchNoise, Verdict, difference, verdict_on
from autotune.core.trial import Interval, TrialRecord
from autotune.study import words
from autotune.study.adaptation import AdaptiveLaunch, AdaptivePlan
from autotune.study.confirmation import as_gain
from autotune.study.reading import StudyView
from autotune.study.verdict import by_load


@dataclass(frozen=True, slots=True)
class Row:
    """One load.

    Attributes:
        change_frac: adaptive / static - 1, with its interval.
        verdict: of adaptive.
    """

    load: str
    static: Interval
    adaptive: Interval
    change_frac: Interval
    is_latency: bool
    verdict: RowVerdict

    @property
    def text(self) -> str:
        """``+ 3.4 % ± 1.2, better``."""
        half = 50 * (self.change_frac.high - self.change_frac.low)
        verdict = self.verdict if self.verdict != "tie" else "within the noise"
        return f"{words.gain(100 * self.change_frac.value)} ± {half:.1f}, {verdict}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the launches of one adaptive plan showed.

    Attributes:
        static: the fixed flags.
        launches: of the plan, those that ended by themselves.
        rows: by rising concurrency; empty where no launch carries values.
        gain: of the score over the fixed flags, as a fraction; None: nothing to compare.
        verdict: of the gain.
    """

    plan: AdaptivePlan
    static: Standing
    launches: tuple[AdaptiveLaunch, ...]
    rows: tuple[Row, ...] = ()
    gain: Interval | None = None
    verdict: Verdict = "inconclusive"

    @property
    def records(self) -> list[TrialRecord]:
        """Of the launches that carry values."""
        return [a.record for a in self.launches if a.record.objectives is not None]

    @property
    def failure(self) -> str | None:
        """Why the last launch carries no value; None where it does."""
        failed = self.launches[-1].record.failure
        return None if failed is None else f"{failed.kind}: {failed.evidence}"

    @property
    def text(self) -> str:
        """The verdict as a sentence without its end."""
        trial = self.launches[-1].record.number
        if self.gain is None:
            return f"trial {trial}, its launch, carries no value ({self.failure})"
        gain = f"{words.gain(100 * self.gain.value)} ± {50 * (self.gain.high - self.gain.low):.1f}"
        n = len(self.records)
        launches = f"{n} launch{'' if n == 1 else 'es'}"
        against = f"{gain} against the fixed flags of trial {self.static.trial} on {launches}"
        ends = {
            "better": "adaptive steps are better", "worse": "fixed steps are better",
            "tie": "a tie, and fixed steps are simpler", "inconclusive": "that leaves it open",
        }  # fmt: skip
        return f"{against}: {ends[self.verdict]}"


def compared(view: StudyView) -> Comparison | None:
    """The last adaptive plan that was launched; None: none was, or its fixed flags are unknown."""
    ended = [a for a in view.adaptive_launches if not a.record.is_interrupted]
    if not ended:
        return None
    plan = ended[-1].plan
    standings = view.ranking.standings
    static = next((s for s in standings if plan.static in s.trials), None)
    if static is None:
        return None
    found = Comparison(plan, static, tuple(a for a in ended if a.plan == plan))
    if not found.records:
        return found
    ours = [view.record(number) for number in static.trials]
    gain = _gain(view, ours, found.records)
    rows = tuple(_rows(by_load(ours), by_load(found.records)))
    return Comparison(plan, static, found.launches, rows, as_gain(gain), verdict_on(gain))


def _rows(
    static: dict[str, tuple[Interval, bool]], adaptive: dict[str, tuple[Interval, bool]]
) -> list[Row]:
    rows = []
    for load, (value, is_latency) in adaptive.items():
        if load not in static:
            continue
        before = static[load][0]
        verdict = verdict_of(before, value, more_is_better=not is_latency)
        change = ratio_change(before, value)
        rows.append(Row(load, before, value, change, is_latency, verdict))
    return rows


def _gain(
    view: StudyView, static: Sequence[TrialRecord], adaptive: Sequence[TrialRecord]
) -> Interval:
    """Of the score, on the log scale, with the noise between launches."""
    weight, base = view.objective.latency_weight, view.ranking.baseline
    known = [r.objectives for r in (*static, *adaptive) if r.objectives is not None]
    point = base.point if base is not None else tuple(
        pool([values[name] for values in known]).value for name in (LATENCY, THROUGHPUT)
    )  # fmt: skip
    within = [
        (weight * values[LATENCY].half_width_frac) ** 2
        + ((1 - weight) * values[THROUGHPUT].half_width_frac) ** 2
        for values in known
    ]
    scores = [
        [view.objective.score(v[LATENCY].value, v[THROUGHPUT].value, (point[0], point[1]))
         for v in (record.objectives for record in side) if v is not None]
        for side in (adaptive, static)
    ]  # fmt: skip
    noise = LaunchNoise.of(scores, math.sqrt(fmean(within)) / 1.96)
    return difference(scores[0], scores[1], noise)
