"""One launch as a trial of the study: asked for, announced, evaluated, and kept however it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from autotune.core.trial import AFTERWARDS, Flags, TrialRecord, TrialRole
from autotune.errors import Interrupted
from autotune.events import Listener, TrialStarted
from autotune.space import SearchSpace
from autotune.study.interrupt import Interrupts
from autotune.study.store import StudyStore, interrupted_record

Measure = Callable[[Path], TrialRecord]
"""Makes the record of a launch whose files go into a folder."""
Keep = Callable[[TrialRecord], None]
"""Takes a record that was stored; signals wait until it is done."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to launch next, and why.

    Attributes:
        by_user: somebody asked for just this launch.
    """

    flags: Flags
    role: TrialRole
    reason: str
    trial: optuna.trial.Trial
    by_user: bool = False


@dataclass(slots=True)
class Launcher:
    """Makes trials of one study in this process."""

    store: StudyStore
    study: optuna.Study
    space: SearchSpace
    interrupts: Interrupts
    listener: Listener
    _others: list[optuna.trial.Trial] = field(default_factory=list)
    """Queued trials of somebody else that came before one of ours."""

    def enqueued(
        self, flags: Flags, role: TrialRole, reason: str = "", marks: dict[str, Any] | None = None
    ) -> Proposal:
        """A trial with these flags.

        Without Optuna parameters where the space lacks them, and where the values will not be those
        of the search: samplers learn from parameters.

        Args:
            marks: further user attributes.
        """
        inside = role not in AFTERWARDS and self.space.contains(flags)
        # Held back: a signal here would leave a queued trial behind, for another run to stumble on.
        with self.interrupts.shield():
            params = {n: flags[n] for n in self.space.parameters} if inside else {}
            told = {"flags": dict(flags), "role": role, **(marks or {})}
            attributes: dict[str, Any] = json.loads(json.dumps(told))  # as a storage gives it back
            self.study.enqueue_trial(params, user_attrs=attributes)
            trial = self.study.ask()
            while trial.user_attrs != attributes:
                self._others.append(trial)
                trial = self.study.ask()
            if inside:
                flags = self.space.suggest(trial)
        return Proposal(flags, role, reason, trial)

    @contextmanager
    def tidied(self) -> Iterator[None]:
        """Closes trials that were asked for but not begun where a signal ends the work."""
        try:
            yield
        except Interrupted:
            with self.interrupts.shield():
                self.store.close_stale(self.study)
            raise

    def queued(self) -> Proposal | None:
        """A trial that somebody else has queued in the storage, as from a notebook; None: none."""
        with self.interrupts.shield():
            if self._others:
                trial = self._others.pop(0)
            elif self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                trial = self.study.ask()
            else:
                return None
            flags = trial.user_attrs.get("flags") or self.space.suggest(trial)
            trial.set_user_attr("flags", dict(flags))
        return Proposal(flags, "search", "queued by you", trial, by_user=True)

    def launch(
        self, proposal: Proposal, measure: Measure, keep: Keep, cut_off: Keep
    ) -> TrialRecord:
        """The record of the launch, stored.

        Args:
            keep: told of a record that came to an end of its own.
            cut_off: told of the record of a launch that an exception ended; then it is raised.
        """
        trial, flags = proposal.trial, dict(proposal.flags)
        self.listener(TrialStarted(trial.number, flags, proposal.role, proposal.reason))
        try:
            record = measure(self.store.trial_directory(trial.number))
        except BaseException as error:
            cause = f"signal {error.signum}" if isinstance(error, Interrupted) else repr(error)
            with self.interrupts.shield():
                record = interrupted_record(trial.number, flags, cause, proposal.role)
                self.store.tell(self.study, trial, record)
                cut_off(record)
            raise
        with self.interrupts.shield():
            self.store.tell(self.study, trial, record)
            keep(record)
        return record
