"""What the dashboard tells of a study beyond what Optuna knows: made once for each new record."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import optuna

from autotune.dashboard.note import study_note, trial_note
from autotune.dashboard.panels import panels
from autotune.report.subject import Subject
from autotune.study import words
from autotune.study.budget import gpu_hours
from autotune.study.choice import ATTRIBUTE
from autotune.study.reading import StudyView, view_of
from autotune.study.store import StudyStore

HIDDEN = ("record", "flags")
"""Attributes of a trial that machines read; people find them in ``record.json`` and the note."""


@dataclass(frozen=True, slots=True)
class Story:
    """All that is shown of one study at one moment.

    Attributes:
        panels: plots as the dashboard's JSON lists them.
        trials: the note on each trial, by number.
        gains: percent against the baseline, by trial number.
        attributes: of the study, for people.
    """

    panels: list[dict[str, str]]
    note: str
    trials: Mapping[int, str]
    gains: Mapping[int, float]
    attributes: list[dict[str, str]]

    @classmethod
    def of(cls, view: StudyView) -> Story:
        subject = Subject(view)
        standings = {r.number: subject.ranking.standing_of(r) for r in view.records}
        return cls(
            panels=panels(subject),
            note=study_note(subject),
            trials={
                record.number: trial_note(record, standings.get(record.number))
                for record in (*view.records, *view.later_records)
            },
            gains={n: s.gain_vs_baseline_pct for n, s in standings.items() if s is not None},
            attributes=list(_attributes(subject)),
        )

    def tell(self, document: dict[str, Any]) -> None:
        """Puts itself into the JSON of the study, in place; what people wrote stands."""
        document["plotly_graph_objects"] = self.panels + document["plotly_graph_objects"]
        document["user_attrs"] = self.attributes + [
            a for a in document["user_attrs"] if a["key"] != ATTRIBUTE
        ]
        if not document["note"]["version"]:
            document["note"] = {"version": 0, "body": self.note}
        for trial in document["trials"]:
            if not trial["note"]["version"] and trial["number"] in self.trials:
                trial["note"] = {"version": 0, "body": self.trials[trial["number"]]}


def _attributes(subject: Subject) -> list[dict[str, str]]:
    view, ranking = subject.view, subject.ranking
    best = ranking.best
    shown = {
        "objective": view.objective.describe(),
        "recommended": f"trial {best.trial}" if best else "nothing yet",
        "gain": _gain(subject) if best else "",
        "constraints": ", ".join(view.config.slo),
        "workload": view.config.workload,
        "GPU-minutes": f"{60 * gpu_hours(view.records):.0f}",
        "numbers": "SIMULATED" if view.is_simulated else "measured",
    }
    return [{"key": key, "value": value} for key, value in shown.items() if value]


def _gain(subject: Subject) -> str:
    """Of fresh launches where there are some, as the note tells it."""
    (gain, error), n_fresh = subject.gain, subject.is_confirmed_on
    return f"{words.gain(gain)} ± {error:.1f}, {'fresh launches' if n_fresh else 'in the search'}"


@dataclass(slots=True)
class Storyteller:
    """Keeps the newest story of one study. Safe among threads.

    Attributes:
        study_id: of the storage.
    """

    store: StudyStore
    study: optuna.Study
    _made_for: object = None
    _story: Story | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def study_id(self) -> int:
        return int(self.study._study_id)

    def story(self) -> Story:
        """Of what the study holds now.

        Raises:
            StudyError: its folder is damaged.
        """
        with self._lock:
            view = view_of(self.store, self.study)
            n_launches = len(view.records) + len(view.later_records)
            made_for = (n_launches, view.choice, view.found, view.config)
            if self._story is None or made_for != self._made_for:
                self._story, self._made_for = Story.of(view), made_for
            return self._story
