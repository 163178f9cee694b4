"""The lines of ``--events``: an event each, complete in itself; schema version 1."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from autotune import events
from autotune.core.trial import FlagValue, Phase, Status, TrialRecord, TrialRole

SCHEMA: Literal[1] = 1
Stamp = tuple[Literal[1], datetime, str]
"""The first keys of a line: schema, moment in UTC, and name of the study."""


def _snake(name: str) -> str:
    """``TrialStarted`` as ``trial_started``."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class Line(msgspec.Struct, frozen=True, tag_field="event", tag=_snake):
    """What every line holds.

    Attributes:
        event: what happened, in snake case; it is the first key of a line.
        schema: version of the lines; it changes when a key is renamed or its meaning changes.
        at: when the line was written, UTC, RFC 3339.
        study: name of the study.
    """

    schema: Literal[1]
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    study: str


class RunStarted(Line, frozen=True, kw_only=True):
    """A run of ``optimize``, ``confirm`` or ``adaptive`` begins: its first line.

    Attributes:
        autotune: version of the program.
        directory: folder of the study.
        objective: its name.
        latency_weight: weight of latency in the score, in [0, 1]; the rest is throughput's.
        simulated: every number comes from the simulated server.
        space: name or file of the search space.
        n_configurations: legal ones in it.
        max_launches: of the search, those of earlier runs included.
        n_done: launches of earlier runs.
        latency_concurrency: requests in flight where latency is measured.
        serving_concurrency: requests in flight where throughput is measured.
        command: the base launch command, secrets left out.
    """

    autotune: str
    directory: str
    objective: str
    latency_weight: float
    simulated: bool
    space: str
    n_configurations: int
    max_launches: int
    n_done: int
    latency_concurrency: int
    serving_concurrency: tuple[int, ...]
    command: tuple[str, ...]


class TrialStarted(Line, frozen=True, kw_only=True):
    """A server is launched.

    Attributes:
        trial: its number.
        flags: the searched flags of this launch.
        role: why it is launched.
        reason: the same in words; may be empty.
    """

    trial: int
    flags: dict[str, FlagValue]
    role: TrialRole
    reason: str


class StageReached(Line, frozen=True, kw_only=True):
    """A step within a trial: ``launching``, ``ready`` or ``stopping``; ``text`` may be empty."""

    trial: int
    stage: str
    text: str


class PhaseProgress(Line, frozen=True, kw_only=True):
    """How much of a load is measured; at most one line a second.

    Attributes:
        trial: the running trial.
        load: such as ``C=16``.
        done_frac: in [0, 1].
    """

    trial: int | None
    load: str
    done_frac: float


class PhaseMeasured(Line, frozen=True, kw_only=True):
    """A load is measured."""

    trial: int | None
    phase: Phase


class TrialEnded(Line, frozen=True, kw_only=True):
    """A trial is over, and stored.

    Attributes:
        trial: its number.
        status: as in its record.
        gain_pct: of its configuration against the baseline, percent; null where it has no value.
        best: the trial that is recommended now; null: none, or the study is confirming.
        best_gain_pct: its gain, percent.
        left_s: wall seconds that the run may still take; null where no budget tells.
        record: the whole record, as in ``record.json``.
    """

    trial: int
    status: Status
    gain_pct: float | None
    best: int | None
    best_gain_pct: float | None
    left_s: float | None
    record: TrialRecord


class StudyEnded(Line, frozen=True, kw_only=True):
    """The search is over; ``reason`` says in words why it stopped."""

    reason: str


class SpaceWidened(Line, frozen=True, kw_only=True):
    """The search goes on beyond the end of a range.

    Attributes:
        ranges: flag to its new lowest and highest value.
        text: what and why, in one sentence.
    """

    ranges: dict[str, tuple[float, float]]
    text: str


class ConfirmStarted(Line, frozen=True, kw_only=True):
    """Fresh launches follow that confirm what the search found.

    Attributes:
        n_launches: how many.
        left_s: wall seconds they will take; null where nothing tells.
    """

    n_launches: int
    left_s: float | None


class RunEnded(Line, frozen=True, kw_only=True):
    """The last line of a run, however it ended short of a kill.

    Attributes:
        exit_code: that the process is about to end with.
        message: what went wrong, in one sentence; empty where nothing did.
    """

    exit_code: int
    message: str


AnyLine = (
    RunStarted
    | TrialStarted
    | StageReached
    | PhaseProgress
    | PhaseMeasured
    | TrialEnded
    | SpaceWidened
    | StudyEnded
    | ConfirmStarted
    | RunEnded
)


def line_of(event: events.Event, stamp: Stamp, trial: int | None) -> AnyLine | None:
    """An event as a line; None for one that is not told.

    Args:
        trial: the running trial, for events that do not name theirs.
    """
    match event:
        case events.TrialStarted(number, flags, role, reason):
            started = msgspec.convert(role, TrialRole)
            return TrialStarted(
                *stamp, trial=number, flags=dict(flags), role=started, reason=reason
            )
        case events.StageReached(number, stage, text):
            return StageReached(*stamp, trial=number, stage=stage, text=text)
        case events.PhaseProgress(load, done_frac):
            return PhaseProgress(*stamp, trial=trial, load=load, done_frac=done_frac)
        case events.PhaseMeasured(phase):
            return PhaseMeasured(*stamp, trial=trial, phase=phase)
        case events.TrialEnded():
            return _ended(event, stamp)
        case events.SpaceWidened(ranges, text):
            return SpaceWidened(*stamp, ranges=dict(ranges), text=text)
        case events.ConfirmStarted(n_launches, left_s):
            return ConfirmStarted(*stamp, n_launches=n_launches, left_s=left_s)
        case events.StudyEnded(reason):
            return StudyEnded(*stamp, reason=reason)
    return None


def _ended(event: events.TrialEnded, stamp: Stamp) -> TrialEnded:
    record: TrialRecord = event.record
    return TrialEnded(
        *stamp,
        trial=record.number,
        status=record.status,
        gain_pct=event.gain_pct,
        best=event.best,
        best_gain_pct=event.best_gain_pct,
        left_s=event.left_s,
        record=record,
    )
