"""A study as a reader sees it: records, ranking, and what it was made of. Never writes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import optuna

from autotune.core.objective import Objective
from autotune.core.ranking import Ranking, rank
from autotune.core.trial import TrialRecord
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.environment import EFFECTIVE_FAKE
from autotune.errors import StudyError, UsageError
from autotune.search.edge import kept_ranges
from autotune.study.adaptation import AdaptiveLaunch
from autotune.study.choice import Choice
from autotune.study.config import RunConfig, from_yaml, load_objective
from autotune.study.confirmation import Confirmation, ConfirmLaunch
from autotune.study.store import MASK, STUDIES, StudyStore, find_study, masked


@dataclass(frozen=True, slots=True)
class StudyView:
    """What a study holds at this moment.

    Attributes:
        command: the base launch command, secrets masked.
        records: of the search.
        choice: what the study recommended after its last launch; None: an older study.
        confirm_launches: launches of confirm stages, on prompts that the search has not seen.
        found: by the last confirm stage, whatever it was about; see ``confirmation``.
        adaptive_launches: with steps that follow the batch, on the prompts of the search.
        ended_at: when each trial ended, UTC.
        n_foreign: trials that ended without a record that is understood.
        ranges: that the search was widened to, for ``SearchSpace.reaching``.
    """

    name: str
    directory: Path
    config: RunConfig
    objective: Objective
    command: LaunchCommand
    records: tuple[TrialRecord, ...]
    choice: Choice | None = None
    confirm_launches: tuple[ConfirmLaunch, ...] = ()
    found: Confirmation | None = None
    adaptive_launches: tuple[AdaptiveLaunch, ...] = ()
    ended_at: Mapping[int, datetime] = field(default_factory=dict)
    n_foreign: int = 0
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def searched(self) -> Ranking:
        """The standings; the best is what the search recommends, where that holds here."""
        choice = self.choice
        holds = choice is not None and choice.holds_for(self.records, self.objective)
        return rank(self.records, self.objective, choice.trial if choice and holds else None)

    @property
    def ranking(self) -> Ranking:
        """The standings; the best is what the confirm stage left standing, where there was one."""
        confirmation, searched = self.confirmation, self.searched
        return searched if confirmation is None else replace(searched, chosen=confirmation.use)

    @property
    def confirmation(self) -> Confirmation | None:
        """What fresh launches say of the recommendation; None: nothing, or of an earlier one."""
        best, found = self.searched.best, self.found
        is_about_it = best is not None and found and found.holds_for(best.trial, self.objective)
        return found if is_about_it else None

    @property
    def is_simulated(self) -> bool:
        return self.config.engine == "simulated"

    @property
    def fakes_acceptance(self) -> bool:
        """Whether a server of it was told which accept length to have."""
        return any(EFFECTIVE_FAKE in record.effective for record in self.records)

    @property
    def later_records(self) -> tuple[TrialRecord, ...]:
        """Of the launches after the search, those to confirm first."""
        confirm = (launch.record for launch in self.confirm_launches)
        adaptive = (launch.record for launch in self.adaptive_launches)
        return (*confirm, *adaptive)

    def record(self, number: int) -> TrialRecord:
        """The record of a trial.

        Raises:
            UsageError: the study has no such trial.
        """
        for record in (*self.records, *self.later_records):
            if record.number == number:
                return record
        numbers = [record.number for record in self.records]
        span = f"0 to {max(numbers)}" if numbers else "none yet"
        raise UsageError(f"study {self.name!r} has no trial {number}: it has {span}")


def open_store(name: str | None, storage: str | None = None, root: Path = STUDIES) -> StudyStore:
    """The store of a named study, or of the newest one.

    Raises:
        StudyError: there is none.
    """
    found = find_study(name, root)
    config = from_yaml(root / found / "study.yaml")
    return StudyStore(found, storage=storage or _storage_of(config), root=root)


def _storage_of(config: RunConfig) -> str | None:
    """The storage, with the password that ``study.yaml`` leaves out."""
    if config.storage is None or MASK not in config.storage:
        return config.storage
    given = os.environ.get("AUTOTUNE_STORAGE", "")
    if masked(given) != config.storage:
        raise StudyError(
            f"the storage {config.storage} needs its password",
            hint="put the whole address into the environment variable AUTOTUNE_STORAGE",
        )
    return given


def read_study(
    name: str | None,
    *,
    objective: Objective | None = None,
    storage: str | None = None,
    root: Path = STUDIES,
) -> StudyView:
    """Reads a study; ``objective`` replaces its own, as the weight may change after the run.

    Raises:
        StudyError: there is no such study, or its storage cannot be read.
    """
    return open_study(name, objective=objective, storage=storage, root=root)[0]


def open_study(
    name: str | None,
    *,
    objective: Objective | None = None,
    storage: str | None = None,
    root: Path = STUDIES,
) -> tuple[StudyView, optuna.Study]:
    """As ``read_study``, with the study itself for whoever lets a model learn from it."""
    store = open_store(name, storage, root)
    study = store.open()
    return view_of(store, study, objective), study


def view_of(
    store: StudyStore, study: optuna.Study, objective: Objective | None = None
) -> StudyView:
    """As ``read_study``, of a study that is open: what it holds now."""
    config = from_yaml(store.directory / "study.yaml")
    return StudyView(
        name=store.name,
        directory=store.directory,
        config=config,
        objective=objective or load_objective(config.objective),
        command=LaunchCommand.parse(config.command),
        records=tuple(store.records(study)),
        choice=store.choice(study),
        confirm_launches=tuple(store.confirm_launches(study)),
        found=store.confirmation(study),
        adaptive_launches=tuple(store.adaptive_launches(study)),
        ended_at=store.ended_at(study),
        n_foreign=store.n_foreign(study),
        ranges=kept_ranges(study),
    )
