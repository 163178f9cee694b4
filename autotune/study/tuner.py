"""The tuner: baseline first, then one proposal after the other, until there is a reason to stop.

After each launch a model of the whole study says what to deploy now, and whether another launch
would pay; both are kept with the study.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import optuna

from autotune.core.objective import Objective
from autotune.core.ranking import Ranking, Standing, flag_key, rank
from autotune.core.trial import (
    HOPELESS,
    RETRIED_ONCE,
    Failure,
    Flags,
    Phase,
    TrialRecord,
)
from autotune.errors import ConfigError, LaunchError
from autotune.events import Listener, SpaceWidened, StudyEnded, TrialEnded
from autotune.search import (
    AnySampler,
    Proposer,
    RandomSampler,
    SpaceExhausted,
    prospects,
    recommend,
)
from autotune.search.edge import edges, keep_ranges, widening
from autotune.space import SearchSpace
from autotune.study import words
from autotune.study.agenda import due, is_used_up, measured_baseline
from autotune.study.budget import Budget, StopRule, settled
from autotune.study.choice import Choice
from autotune.study.evaluate import Evaluator, Prune
from autotune.study.interrupt import Interrupts
from autotune.study.launcher import Launcher, Proposal
from autotune.study.reference import is_measured
from autotune.study.store import StudyStore

CONTENDER_GAP = 0.05
"""Configurations whose score is within 5 % of the best may yet be the best: launches of the same
flags differ by up to 7 % (repeats published for one H100 configuration)."""
MAX_LAUNCHES = 3
"""Launches of one configuration at most; more of them teach less than other configurations."""


@dataclass(slots=True)
class Tuner:
    """Runs one study in this process.

    Attributes:
        baseline: the searched flags that the base command itself sets.
        stop_rule: when to stop before the budget is used up.
        reference: the searched flags that a launch without speculation keeps; None: no such launch.
        sampler_of: makes the sampler of a wider space; None: the space stays as it is.
        prunes: leave the long phases of a hopeless launch out.
        seed: of the model that recommends.
        choice: what is recommended by all records so far.
    """

    store: StudyStore
    study: optuna.Study
    space: SearchSpace
    sampler: Proposer
    objective: Objective
    evaluator: Evaluator
    baseline: Flags
    budget: Budget
    interrupts: Interrupts
    listener: Listener
    stop_rule: StopRule = field(default_factory=StopRule)
    reference: Flags | None = None
    sampler_of: Callable[[SearchSpace], AnySampler] | None = None
    prunes: bool = False
    seed: int = 0
    choice: Choice | None = None
    records: list[TrialRecord] = field(default_factory=list)
    _started_mono_s: float = field(default_factory=time.monotonic)
    launcher: Launcher = field(init=False)

    def __post_init__(self) -> None:
        self.launcher = Launcher(self.store, self.study, self.space, self.interrupts, self.listener)

    def run(self) -> str:
        """Tunes until a budget or the space is used up, or more would not pay; returns which.

        Raises:
            LaunchError: the baseline cannot start, so there is nothing to compare with.
            Interrupted: a signal came; the running trial is closed and will be launched again.
        """
        self.resume()
        with self.launcher.tidied():
            reason = self._tune()
        self.listener(StudyEnded(reason))
        return reason

    def resume(self) -> None:
        """Takes up what earlier runs of the study have left."""
        self.store.close_stale(self.study)
        self.records = self.store.records(self.study)
        self.choice = self.store.choice(self.study)

    def _tune(self) -> str:
        self._ensure_baseline()
        while True:
            self._choose()
            self._widen()
            reason = self._why_stop()
            if reason is not None:
                return reason
            try:
                proposal = self._next()
            except SpaceExhausted:
                return self._nothing_left()
            record = self._run(proposal)
            is_hopeless = record.failure is not None and record.failure.kind in HOPELESS
            if is_hopeless and record.failure and proposal.role != "reference":
                raise _no_point(
                    record.failure, f"trial {record.number} shows that nothing can work"
                )

    def _nothing_left(self) -> str:
        n_launched = sum(self.space.contains(flags) for flags in self._distinct_flags())
        n_ruled_out = self.space.size - n_launched
        also = f", but for {n_ruled_out} that failed launches rule out" if n_ruled_out else ""
        return f"nothing is left to learn: every configuration of the space was launched{also}"

    def _distinct_flags(self) -> list[Flags]:
        return list({flag_key(record.flags): record.flags for record in self.records}.values())

    def ranking(self) -> Ranking:
        """The records so far under the study's objective."""
        holds = self.choice is not None and self.choice.holds_for(self.records, self.objective)
        return rank(
            self.records, self.objective, self.choice.trial if self.choice and holds else None
        )

    def _choose(self) -> None:
        """Asks the model of the study what to recommend, where it was not asked since."""
        before = self.choice
        if before is not None and before.holds_for(self.records, self.objective):
            return
        found = recommend(self.study, self.space, self.objective, seed=self.seed)
        n = len(settled(self.records))
        trial = self._standing_trial(found.trial)
        weight = self.objective.latency_weight
        same = before and (before.trial, before.latency_weight) == (trial, weight)
        with self.interrupts.shield():
            self.choice = Choice(
                trial=trial,
                latency_weight=weight,
                n_launches=n,
                n_unchanged=before.n_unchanged + n - before.n_launches if before and same else 0,
                why=found.why(),
                stop=found.stop,
                edges=edges(self.study, self.space, self.objective, found.flags, seed=self.seed),
            )
            self.store.keep_choice(self.study, self.choice)

    def _widen(self) -> None:
        """Goes on beyond the end of a range where the model expects more there."""
        found = None if self.choice is None else widening(self.space, self.choice.edges)
        if found is None or self.sampler_of is None:
            return
        space = self.space.reaching(found.ranges)
        try:
            sampler = self.sampler_of(space)
        except ConfigError:  # a grid that would become too large
            return
        with self.interrupts.shield():
            keep_ranges(self.study, found.ranges)
            self.space = self.launcher.space = space
            self.sampler = self.study.sampler = sampler
            self.choice = None
        self.listener(SpaceWidened(found.ranges, found.text))
        self._choose()

    def _standing_trial(self, number: int | None) -> int | None:
        """The trial that was measured in place of this one; None for speculation off."""
        record = next((r for r in self.records if r.number == number), None)
        if record is None or record.role == "reference":
            return None
        return record.number if record.same_as is None else record.same_as

    # ---- what next ----------------------------------------------------------------------------

    def _ensure_baseline(self) -> None:
        if measured_baseline(self.records) is not None:
            return
        record = self._run(self.launcher.enqueued(self.baseline, "baseline", "your own flags"))
        if record.failure is not None and record.failure.kind in RETRIED_ONCE:
            again = self.launcher.enqueued(
                self.baseline, "baseline", f"{record.failure.kind}: once more"
            )
            record = self._run(again)
        if record.failure is not None:
            raise _no_point(record.failure, "the baseline carries no value")

    def _next(self) -> Proposal:
        """The next launch: what was queued or cut off, then the sampler's.

        Raises:
            SpaceExhausted: no configuration and no contender is left.
        """
        if self.reference is not None and not is_measured(self.records):
            return self.launcher.enqueued(self.reference, "reference", "to compare")
        queued = self.launcher.queued()
        if queued is not None:
            return queued
        for launch in due(self.space, self.records):
            return self.launcher.enqueued(launch.flags, "search", launch.reason)
        if is_used_up(self.space, self.records):
            return self._replicate()
        try:
            proposed = self._proposed(len(self.study.get_trials(deepcopy=False)))
        except SpaceExhausted:
            return self._replicate()
        if self._launches(proposed):
            return self.launcher.enqueued(proposed, "replicate", "in doubt: measured again")
        return self.launcher.enqueued(proposed, "search")

    def _proposed(self, number: int) -> Flags:
        """The sampler's proposal; one at random where it insists on flags that only fail."""
        proposed = self.sampler.propose(self.study, number)
        launches = self._launches(proposed)
        if launches and all(record.failure for record in launches):
            return RandomSampler(self.space, seed=self.seed).propose(self.study, number)
        return proposed

    def _launches(self, flags: Flags) -> list[TrialRecord]:
        """Of these flags, speculation being on."""
        key = flag_key(flags)
        return [r for r in self._speculating() if flag_key(r.flags) == key]

    def _speculating(self) -> list[TrialRecord]:
        return [r for r in self.records if r.role != "reference"]

    def _baseline_phases(self) -> Sequence[Phase]:
        measured = measured_baseline(self.records)
        return measured.phases if measured else ()

    def _replicate(self) -> Proposal:
        """One more launch of the contender with the fewest, so that noise does not decide.

        Raises:
            SpaceExhausted: there is no contender, or each was launched often enough.
        """
        contenders = self._contenders()
        if len(contenders) < 2:
            raise SpaceExhausted
        chosen = min(contenders, key=lambda s: (len(self._launches(s.flags)), -s.score))
        if len(self._launches(chosen.flags)) >= MAX_LAUNCHES:
            raise SpaceExhausted
        return self.launcher.enqueued(
            chosen.flags, "replicate", "close to the best: measured again"
        )

    def _contenders(self) -> list[Standing]:
        feasible = self.ranking().feasible
        return [s for s in feasible if s.score >= feasible[0].score - CONTENDER_GAP]

    # ---- one trial ----------------------------------------------------------------------------

    def _run(self, proposal: Proposal) -> TrialRecord:
        def measure(directory: Path) -> TrialRecord:
            return self.evaluator.evaluate(
                proposal.flags,
                number=proposal.trial.number,
                directory=directory,
                role=proposal.role,
                reference=self._baseline_phases(),
                earlier=self._comparable(proposal),
                prune=self._pruning(proposal),
            )

        def cut_off(record: TrialRecord) -> None:
            self.records.append(record)
            self._tell(record)

        record = self.launcher.launch(proposal, measure, self.records.append, cut_off)
        self._choose()
        self._tell(record)
        return record

    def _comparable(self, proposal: Proposal) -> Sequence[TrialRecord]:
        """The records whose server need not be measured again; none where a repeat is wanted."""
        measured = any(r.objectives is not None for r in self._launches(proposal.flags))
        return () if proposal.role != "search" or measured else self._speculating()

    def _pruning(self, proposal: Proposal) -> Prune | None:
        """Asks the model what the long phases of this launch may still bring; None: measure them.

        Only of what the search proposes for the first time: a baseline, a reference and a replicate
        are to be measured, and so is what the user has queued.
        """
        if not self.prunes or proposal.role != "search" or proposal.by_user:
            return None
        if self._launches(proposal.flags):
            return None

        def why(record: TrialRecord) -> str | None:
            found = prospects(
                self.study, self.space, self.objective, record.to_dict(), seed=self.seed
            )
            return found.why() if found is not None and found.are_hopeless else None

        return why

    def _tell(self, record: TrialRecord) -> None:
        ranking = self.ranking()
        standing = ranking.standing_of(record) if record.objectives else None
        best = ranking.best
        self.listener(
            TrialEnded(
                record,
                gain_pct=standing.gain_vs_baseline_pct if standing else None,
                best=best.trial if best else None,
                best_gain_pct=best.gain_vs_baseline_pct if best else None,
                left_s=self.budget.left_s(self.records),
            )
        )

    def _why_stop(self) -> str | None:
        used = self.budget.why_stop(self.records, time.monotonic() - self._started_mono_s)
        if used is not None:
            return used
        best = self.ranking().best
        gain_pct = best.gain_vs_baseline_pct if best else None
        return self.stop_rule.why_stop(self.choice, gain_pct, self.budget.trials)


def _no_point(failure: Failure, what: str) -> LaunchError:
    return LaunchError(
        f"{what}: {failure.kind} while {words.stage(failure.stage)}: {failure.evidence}",
        hint=f"{failure.remedy}; then run the same command again: nothing is lost",
    )
