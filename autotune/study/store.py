"""Where a study lives: an Optuna storage, and a folder with one record per trial.

``studies/<name>/``: ``journal.log`` (Optuna journal storage), ``study.yaml`` (the resolved
configuration), ``trials/0007/{record.json, server.log, launch.sh}``. The record stands in the
trial's user attribute ``record`` as well; the storage is the truth, the files are for people.
"""

from __future__ import annotations

import fcntl
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import optuna
from optuna import logging as optuna_logging
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from autotune.core.objective import DIRECTIONS, LATENCY, THROUGHPUT
from autotune.core.trial import (
    AFTERWARDS,
    Failure,
    FailureKind,
    Flags,
    Interval,
    TrialRecord,
    TrialRole,
    record_from,
    record_from_json,
)
from autotune.errors import StudyError, UsageError, nearest
from autotune.study import artifacts
from autotune.study.adaptation import MARK, AdaptiveLaunch, AdaptivePlan
from autotune.study.choice import ATTRIBUTE, Choice, choice_from
from autotune.study.confirmation import ATTRIBUTE as CONFIRMATION
from autotune.study.confirmation import (
    PLACE,
    Confirmation,
    ConfirmLaunch,
    Place,
    confirmation_from,
)
from autotune.study.journal import drop_unfinished_line, open_journal

_Purpose = TypeVar("_Purpose", Place, AdaptivePlan)

STUDIES = Path("studies")
MASK = "REDACTED"
_PASSWORD = re.compile(r"(://[^/@:]*:)[^/@]+@")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


def masked(location: str) -> str:
    """A storage location without its password, fit for a file and a screen."""
    return _PASSWORD.sub(rf"\g<1>{MASK}@", location)


def check_name(name: str) -> str:
    """The name, if it can be one of a folder on every machine.

    Raises:
        UsageError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a study's name: use letters, digits, '.', '_' and '-', "
            "at most 80, the first one a letter or digit"
        )
    return name


def slug(text: str) -> str:
    """A valid study name made of any text."""
    clean = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")
    return clean[:80] or "study"


def study_names(root: Path = STUDIES) -> list[str]:
    """Names of the studies in a folder, newest first."""
    found = [path for path in root.glob("*/study.yaml") if path.is_file()]
    return [path.parent.name for path in sorted(found, key=lambda p: -p.stat().st_mtime)]


def find_study(name: str | None, root: Path = STUDIES) -> str:
    """The study of this name, or the newest one.

    Raises:
        StudyError: there is none.
    """
    names = study_names(root)
    if name is None:
        if not names:
            raise StudyError(
                f"there is no study in {root}/ yet", hint="start one with: autotune optimize"
            )
        return names[0]
    if name not in names:
        known = nearest(name, names) if names else f"there is none in {root}/"
        raise StudyError(f"there is no study named {name!r}: {known}")
    return name


class StudyStore:
    """One study, opened for reading or for tuning. Not thread-safe.

    Args:
        name: the study's name, see ``check_name``.
        storage: a database URL or a journal file; None: ``journal.log`` in the study's folder.
        root: the folder of all studies.

    Attributes:
        location: of the Optuna storage; may hold a password, see ``masked``.
    """

    def __init__(self, name: str, *, storage: str | None = None, root: Path = STUDIES) -> None:
        self.name = check_name(name)
        self.directory = root / name
        self.location = storage or str(self.directory / "journal.log")

    # ---- opening ------------------------------------------------------------------------------

    def open(self, sampler: BaseSampler | None = None) -> optuna.Study:
        """The existing study, for reading.

        Raises:
            StudyError: it does not exist, or its storage cannot be read.
        """
        if "://" not in self.location and not Path(self.location).exists():
            raise StudyError(f"study {self.name!r} has no storage at {self.location}")
        try:
            return optuna.load_study(study_name=self.name, storage=self._storage(), sampler=sampler)
        except KeyError:
            raise StudyError(
                f"the storage {masked(self.location)} holds no study {self.name!r}"
            ) from None

    def create(self, sampler: BaseSampler) -> optuna.Study:
        """The study, made if it does not exist, with its two named directions.

        Call it only inside ``exclusive``.

        Raises:
            StudyError: the storage cannot be written or read.
        """
        if "://" not in self.location:
            _make_folder(Path(self.location).parent)
            drop_unfinished_line(Path(self.location))
        study = optuna.create_study(
            study_name=self.name,
            storage=self._storage(),
            sampler=sampler,
            directions=DIRECTIONS,
            load_if_exists=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            if study.metric_names is None:
                study.set_metric_names([LATENCY, THROUGHPUT])
        return study

    def _storage(self) -> BaseStorage:
        optuna_logging.set_verbosity(optuna_logging.WARNING)  # progress is told by our own events
        try:
            if "://" in self.location:
                return RDBStorage(self.location)
            return open_journal(Path(self.location))
        except Exception as error:  # every database driver has its own
            reason = str(error).partition("\n")[0]
            raise StudyError(
                masked(f"the storage {self.location} cannot be opened: {reason}")
            ) from error

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keeps a second tuner off this study; the kernel lets go when the process ends.

        Raises:
            StudyError: another process tunes it now.
        """
        _make_folder(self.directory)
        with (self.directory / "tuner.lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                holder = lock.read().strip() or "unknown"
                raise StudyError(
                    f"study {self.name!r} is being tuned by process {holder}",
                    hint="wait for it, or start another study with --study NAME",
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    # ---- what it recommends -------------------------------------------------------------------

    def choice(self, study: optuna.Study) -> Choice | None:
        """What the study recommended when it was last asked; see ``Choice.holds_for``."""
        return choice_from(study.user_attrs.get(ATTRIBUTE))

    def keep_choice(self, study: optuna.Study, choice: Choice) -> None:
        """Stores what the study recommends now."""
        study.set_user_attr(ATTRIBUTE, msgspec.to_builtins(choice))

    def confirmation(self, study: optuna.Study) -> Confirmation | None:
        """What the confirm stage found so far; see ``Confirmation.holds_for``."""
        return confirmation_from(study.user_attrs.get(CONFIRMATION))

    def keep_confirmation(self, study: optuna.Study, confirmation: Confirmation) -> None:
        """Stores what the confirm stage has found so far."""
        study.set_user_attr(CONFIRMATION, msgspec.to_builtins(confirmation))

    # ---- records ------------------------------------------------------------------------------

    def trial_directory(self, number: int) -> Path:
        return self.directory / "trials" / f"{number:04d}"

    def tell(self, study: optuna.Study, trial: Trial, record: TrialRecord) -> None:
        """Stores the record, then closes the trial: complete with two values, pruned or failed."""
        self.write_record(record)
        self._close(study, trial.number, trial._trial_id, record)

    def _close(self, study: optuna.Study, number: int, trial_id: int, record: TrialRecord) -> None:
        storage: BaseStorage = study._storage
        storage.set_trial_user_attr(trial_id, "record", record.to_dict())
        for name, value in _headline(record).items():
            storage.set_trial_user_attr(trial_id, name, value)
        if record.constraints:
            # The list form: Optuna reads both forms, its dashboard (0.21) only this one.
            limits = list(record.constraints.values())
            storage.set_trial_system_attr(trial_id, "constraints", limits)
        artifacts.attach_files(
            storage, trial_id, self.trial_directory(number), self.directory / artifacts.FOLDER
        )
        values = self._values(study, record)
        if values is None:
            is_pruned = record.status == "pruned"
            study.tell(number, state=TrialState.PRUNED if is_pruned else TrialState.FAIL)
        else:
            study.tell(number, [values[name].value for name in (LATENCY, THROUGHPUT)])

    def _values(self, study: optuna.Study, record: TrialRecord) -> Mapping[str, Interval] | None:
        """Its own, or those of the trial it refers to: Optuna knows no references."""
        if record.same_as is None:
            return record.objectives
        return next(
            (other.objectives for other in self.records(study) if other.number == record.same_as),
            None,
        )

    def write_record(self, record: TrialRecord) -> None:
        """Writes ``record.json`` whole or not at all."""
        directory = self.trial_directory(record.number)
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory / "record.json.tmp"
        draft.write_bytes(record.to_json())
        draft.replace(directory / "record.json")

    def records(self, study: optuna.Study) -> list[TrialRecord]:
        """All records of the search, by trial number; launches after it are none of it."""
        return [r for _, r in self._all_records(study) if r.role not in AFTERWARDS]

    def confirm_launches(self, study: optuna.Study) -> list[ConfirmLaunch]:
        """The launches of confirm stages, in the order in which they were made."""
        found = self._afterwards(study, "confirm", PLACE, Place)
        return [ConfirmLaunch(place, record) for place, record in found]

    def adaptive_launches(self, study: optuna.Study) -> list[AdaptiveLaunch]:
        """The launches with steps that follow the batch, in the order in which they were made."""
        found = self._afterwards(study, "adaptive", MARK, AdaptivePlan)
        return [AdaptiveLaunch(plan, record) for plan, record in found]

    def _afterwards(
        self, study: optuna.Study, role: TrialRole, attribute: str, kind: type[_Purpose]
    ) -> Iterator[tuple[_Purpose, TrialRecord]]:
        """Launches of a role, each with what it was made for, where its trial says so."""
        for trial, record in self._all_records(study):
            if record.role == role:
                with suppress(msgspec.ValidationError):
                    yield msgspec.convert(trial.user_attrs.get(attribute), kind), record

    def n_foreign(self, study: optuna.Study) -> int:
        """Trials that ended without a record that is understood: of other makers, say."""
        ended = [t for t in study.get_trials(deepcopy=False) if t.state.is_finished()]
        return len(ended) - sum(t.state.is_finished() for t, _ in self._all_records(study))

    def ended_at(self, study: optuna.Study) -> dict[int, datetime]:
        """When each trial ended, UTC; Optuna keeps the local time of the tuner."""
        trials = study.get_trials(deepcopy=False)
        return {
            t.number: t.datetime_complete.astimezone(UTC) for t in trials if t.datetime_complete
        }

    def _all_records(self, study: optuna.Study) -> Iterator[tuple[FrozenTrial, TrialRecord]]:
        for trial in study.get_trials(deepcopy=False):
            record = record_from(trial.user_attrs.get("record"))
            if record is not None:
                yield trial, record

    def close_stale(self, study: optuna.Study) -> list[TrialRecord]:
        """Closes the trials that a dead tuner left running. Call it only inside ``exclusive``.

        They have failed, but for one whose record was written and only not told.
        """
        closed = []
        for frozen in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            record = self._left_by(frozen)
            if record is None:
                flags = frozen.user_attrs.get("flags", {})
                role = frozen.user_attrs.get("role", "search")
                cause = "the tuner ended without a word"
                record = interrupted_record(frozen.number, flags, cause, role)
                self.write_record(record)
            self._close(study, frozen.number, frozen._trial_id, record)
            closed.append(record)
        return closed

    def _left_by(self, frozen: FrozenTrial) -> TrialRecord | None:
        """The record that a running trial has on disk; None where it has none of its own."""
        path = self.trial_directory(frozen.number) / "record.json"
        try:
            record, written_s = record_from_json(path.read_bytes()), path.stat().st_mtime
        except OSError:
            return None
        asked: Flags = frozen.user_attrs.get("flags", {})
        began = frozen.datetime_start
        if record is None or began is None or written_s < began.timestamp():
            return None
        return record if record.flags.items() >= asked.items() else None


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StudyError(f"the folder {path} cannot be made: {error.strerror}") from None


def interrupted_record(
    number: int, flags: Flags, evidence: str, role: TrialRole = "search"
) -> TrialRecord:
    """The record of a trial that was cut off; its flags will be launched again."""
    failure = Failure(
        FailureKind.INTERRUPTED, "serving", evidence, "run the same command again: it goes on here"
    )
    return TrialRecord(
        number=number, status="failed", flags=dict(flags), failure=failure, role=role
    )


def _headline(record: TrialRecord) -> Mapping[str, Any]:
    """A few rounded values for the dashboard's tables; everything else is in the record."""
    shown: dict[str, Any] = {"role": record.role, "status": record.status}
    if record.same_as is not None:
        shown["same_as"] = record.same_as
    limit = record.effective.get("max_running_requests")
    if limit is not None:
        shown["running_limit"] = limit
    lengths = [p.accept_length for p in record.phases if p.accept_length is not None]
    if lengths:
        shown["accept_length"] = round(lengths[0], 2)
    if record.failure is not None:
        shown["failure"] = str(record.failure.kind)
        shown["remedy"] = record.failure.remedy
    if record.pruned:
        shown["pruned"] = record.pruned
    if record.warnings:
        shown["warnings"] = "; ".join(caveat.text for caveat in record.warnings)
    return shown
