"""The confirm stage: finalists and baseline on fresh launches, in turns, on held-out prompts.

Each round launches every configuration once, every second round in the opposite order, so that a
machine that slows down or warms up treats all of them alike. The stage has a budget of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from autotune.core.objective import LATENCY, THROUGHPUT, Objective
from autotune.core.ranking import TIE, Ranking, Standing, flag_key, pool, simplicity
from autotune.core.repeats import LaunchNoise, Verdict, difference, verdict_on
from autotune.core.trial import HOPELESS, RETRIED_ONCE, Flags, Interval, TrialRecord
from autotune.errors import LaunchError
from autotune.events import ConfirmStarted, TrialEnded
from autotune.study.confirmation import (
    PLACE,
    Confirmation,
    ConfirmLaunch,
    Finalist,
    Place,
    as_gain,
)
from autotune.study.evaluate import Evaluator
from autotune.study.launcher import Launcher


@dataclass(frozen=True, slots=True)
class ConfirmPlan:
    """What to confirm.

    Attributes:
        winner: what the search recommends; the baseline itself needs no confirmation.
        finalists: the winner, then the runners-up.
        n_each: fresh launches of each finalist and of the baseline.
    """

    ranking: Ranking
    baseline: Standing
    winner: Standing
    finalists: tuple[Standing, ...]
    n_each: int

    @classmethod
    def of(cls, ranking: Ranking, n_each: int, n_finalists: int) -> ConfirmPlan | None:
        """None where there is nothing to confirm."""
        winner, baseline = ranking.best, ranking.baseline
        if n_each < 1 or winner is None or baseline is None or winner is baseline:
            return None
        others = (s for s in ranking.feasible if s is not winner and s is not baseline)
        return cls(ranking, baseline, winner, (winner, *others)[:n_finalists], n_each)

    @property
    def configurations(self) -> tuple[Standing, ...]:
        return (self.baseline, *self.finalists)

    @property
    def n_launches(self) -> int:
        return self.n_each * len(self.configurations)

    def left(self, launches: Sequence[ConfirmLaunch]) -> Iterator[Place]:
        """Launches still to be made, in their order; one that an accident ended is made twice."""
        if any(_kind(launch.record) in HOPELESS for launch in launches):
            return
        for number in range(self.n_each):
            order = self.configurations if number % 2 == 0 else self.configurations[::-1]
            for standing in order:
                place = Place(self.winner.trial, standing.trial, number)
                made = [a.record for a in launches if a.place == place]
                ended = [record for record in made if not record.is_interrupted]
                if not ended or (len(ended) == 1 and _kind(ended[0]) in RETRIED_ONCE):
                    yield place


@dataclass(slots=True)
class ConfirmStage:
    """Confirms what one study recommends.

    Attributes:
        evaluator: plays the held-out prompts.
        baseline: the searched flags that the base command itself sets.
        searched: records of the search: they tell how launches of the same flags differ, and how
            long one takes.
    """

    plan: ConfirmPlan
    launcher: Launcher
    evaluator: Evaluator
    objective: Objective
    baseline: Flags
    searched: Sequence[TrialRecord]

    def run(self) -> Confirmation:
        """Makes the launches that are missing; what they show is kept after each.

        A launch that fails is an answer, too. What was confirmed before is not launched again.

        Raises:
            Interrupted: a signal came; what was measured is kept.
        """
        if self._left():
            self.launcher.listener(ConfirmStarted(len(self._left()), self._left_s()))
        # Without a launch the result of the search stands all the same.
        with self.launcher.tidied(), suppress(LaunchError):
            while left := self._left():
                self._launch(left[0])
        return self._keep()

    def _keep(self) -> Confirmation:
        found = judged(self.plan, self._launches(), self.objective, self.searched)
        with self.launcher.interrupts.shield():
            self.launcher.store.keep_confirmation(self.launcher.study, found)
        return found

    def _launches(self) -> list[ConfirmLaunch]:
        every = self.launcher.store.confirm_launches(self.launcher.study)
        return [a for a in every if a.place.winner == self.plan.winner.trial]

    def _left(self) -> list[Place]:
        return list(self.plan.left(self._launches()))

    def _left_s(self) -> float | None:
        known = [
            r.timings["wall_s"] for r in self.searched if r.objectives and "wall_s" in r.timings
        ]
        return fmean(known) * len(self._left()) if known else None

    def _launch(self, place: Place) -> None:
        is_baseline = place.configuration == self.plan.baseline.trial
        flags = self.baseline if is_baseline else self._flags_of(place.configuration)
        whose = "your own flags" if is_baseline else f"trial {place.configuration}"
        reason = f"{whose} once more: round {place.round + 1} of {self.plan.n_each}"
        marks = {PLACE: msgspec.to_builtins(place)}
        proposal = self.launcher.enqueued(flags, "confirm", reason, marks)

        def measure(directory: Path) -> TrialRecord:
            return self.evaluator.evaluate(
                flags, number=proposal.trial.number, directory=directory, role="confirm"
            )

        self.launcher.launch(proposal, measure, self._ended, self._tell)

    def _flags_of(self, trial: int) -> Flags:
        return next(s.flags for s in self.plan.finalists if s.trial == trial)

    def _ended(self, record: TrialRecord) -> None:
        self._keep()  # first: who is told may write down what all launches show
        self._tell(record)

    def _tell(self, record: TrialRecord) -> None:
        self.launcher.listener(TrialEnded(record, None, None, None, self._left_s()))


# ---- the verdict ----------------------------------------------------------------------------


def judged(
    plan: ConfirmPlan,
    launches: Sequence[ConfirmLaunch],
    objective: Objective,
    searched: Sequence[TrialRecord],
) -> Confirmation:
    """What the launches of a confirm stage show, complete or not."""
    judge = _Judge(plan, launches, objective, searched)
    n_left = len(list(plan.left(launches)))
    finalists = tuple(judge.finalist(standing) for standing in plan.finalists)
    if n_left:  # to look again and again until chance is kind would find a gain in the end
        finalists = tuple(msgspec.structs.replace(f, verdict="inconclusive") for f in finalists)
    return Confirmation(
        winner=plan.winner.trial,
        baseline=judge.values_of(plan.baseline),
        finalists=finalists,
        use=plan.winner.trial if n_left else judge.use(finalists),
        latency_weight=objective.latency_weight,
        n_each=plan.n_each,
        n_left=n_left,
    )


class _Judge:
    def __init__(
        self,
        plan: ConfirmPlan,
        launches: Sequence[ConfirmLaunch],
        objective: Objective,
        searched: Sequence[TrialRecord],
    ) -> None:
        self._plan, self._objective = plan, objective
        self._made: dict[int, list[TrialRecord]] = {s.trial: [] for s in plan.configurations}
        for launch in launches:
            if not launch.record.is_interrupted:
                self._made.setdefault(launch.place.configuration, []).append(launch.record)
        self._scores = {trial: self._scores_of(made) for trial, made in self._made.items()}
        self._noise = self._noise_seen(searched)

    def _scores_of(self, records: Sequence[TrialRecord]) -> list[float]:
        base = self._plan.baseline.point
        return [
            self._objective.score(v[LATENCY].value, v[THROUGHPUT].value, base)
            for v in (record.objectives for record in records)
            if v is not None
        ]

    def _noise_seen(self, searched: Sequence[TrialRecord]) -> LaunchNoise:
        """From fresh launches and from those of the search that had the same flags."""
        groups: dict[object, list[TrialRecord]] = {}
        for record in searched:
            groups.setdefault((record.role == "reference", flag_key(record.flags)), []).append(
                record
            )
        fresh = [record for made in self._made.values() for record in made]
        w = self._objective.latency_weight
        within = [
            (w * v[LATENCY].half_width_frac) ** 2 + ((1 - w) * v[THROUGHPUT].half_width_frac) ** 2
            for v in (record.objectives for record in fresh)
            if v is not None
        ]
        within_sd = math.sqrt(fmean(within)) / 1.96 if within else 0.0
        scores = [self._scores_of(group) for group in groups.values()]
        return LaunchNoise.of([*self._scores.values(), *scores], within_sd)

    def values_of(self, standing: Standing) -> Finalist:
        """Its fresh launches without a comparison."""
        records = self._made[standing.trial]
        measured = [record for record in records if record.objectives is not None]
        return Finalist(
            trial=standing.trial,
            launches=tuple(record.number for record in measured),
            latency_s=_pooled(measured, LATENCY),
            throughput_tok_s=_pooled(measured, THROUGHPUT),
            doubts=tuple(_doubts(records)),
        )

    def finalist(self, standing: Standing) -> Finalist:
        """Its fresh launches against those of the baseline."""
        found = self.values_of(standing)
        between = self._between(standing.trial, self._plan.baseline.trial)
        if between is None:
            return found
        verdict: Verdict = "inconclusive" if found.doubts else verdict_on(between)
        return msgspec.structs.replace(found, gain=as_gain(between), verdict=verdict)

    def _between(self, one: int, other: int) -> Interval | None:
        ours, theirs = self._scores[one], self._scores[other]
        if not ours or not theirs:
            return None
        return difference(ours, theirs, self._noise, len(self._plan.finalists))

    def use(self, finalists: Sequence[Finalist]) -> int:
        """The trial whose flags to deploy; of configurations that tie, the simpler ones."""
        sound = [f for f in finalists if f.gain is not None and not f.doubts]
        if not sound:
            return self._plan.winner.trial
        best = max(sound, key=lambda f: f.gain_pct)
        tied = [f for f in sound if f is best or self._ties(f.trial, best.trial)]
        chosen = min(tied, key=lambda f: simplicity(self._flags(f.trial)))
        base = self._plan.baseline
        if not base.feasible or any(_doubts(self._made[base.trial])):
            return chosen.trial
        is_simpler = simplicity(base.flags) <= simplicity(self._flags(chosen.trial))
        keeps = chosen.verdict == "worse" or (chosen.verdict == "tie" and is_simpler)
        return base.trial if keeps else chosen.trial

    def _ties(self, one: int, other: int) -> bool:
        between = self._between(one, other)
        return between is not None and (verdict_on(between) == "tie" or abs(between.value) <= TIE)

    def _flags(self, trial: int) -> Flags:
        return next(s.flags for s in self._plan.configurations if s.trial == trial)


def _pooled(records: Sequence[TrialRecord], name: str) -> Interval | None:
    values = [record.objectives[name] for record in records if record.objectives]
    return pool(values) if values else None


def _doubts(records: Sequence[TrialRecord]) -> Iterator[str]:
    """What went wrong on fresh launches; not the accidents that a second launch mended."""
    for record in records:
        if record.failure is not None and not (
            record.failure.kind in RETRIED_ONCE and any(other.objectives for other in records)
        ):
            yield f"trial {record.number} failed: {record.failure.evidence}"
        for slo, missed in record.constraints.items():
            if missed > 0:
                yield f"trial {record.number} misses {slo} by {missed:.0%}"


def _kind(record: TrialRecord) -> object:
    return record.failure.kind if record.failure is not None else None
