"""Immutable progress events: the only channel from the work to whatever shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened. Times are seconds of the study's own clock (simulated where it is)."""


@dataclass(frozen=True, slots=True)
class TrialStarted(Event):
    number: int
    flags: Mapping[str, Any]
    role: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StageReached(Event):
    """A step within the running trial: ``launching``, ``ready``, ``stopping``."""

    number: int
    stage: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class PhaseProgress(Event):
    """``done_frac`` in [0, 1] of the phase under ``load`` (``C=16``) is measured."""

    load: str
    done_frac: float


@dataclass(frozen=True, slots=True)
class PhaseMeasured(Event):
    phase: Any


@dataclass(frozen=True, slots=True)
class TrialEnded(Event):
    """``record`` is a ``TrialRecord``; ``score_gain_pct`` is None for a failed trial."""

    record: Any
    gain_pct: float | None
    best: int | None
    best_gain_pct: float | None
    left_s: float | None


@dataclass(frozen=True, slots=True)
class SpaceWidened(Event):
    """The search goes on beyond the end of a range, because the model expects more there.

    Attributes:
        ranges: flag to its new lowest and highest value.
        text: what and why, in one sentence without its end.
    """

    ranges: Mapping[str, tuple[float, float]]
    text: str


@dataclass(frozen=True, slots=True)
class ConfirmStarted(Event):
    """The search is over; ``n_launches`` to confirm follow, about ``left_s`` wall seconds."""

    n_launches: int
    left_s: float | None


@dataclass(frozen=True, slots=True)
class StudyEnded(Event):
    reason: str


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that shows nothing."""
