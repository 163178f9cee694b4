"""Keeps the note on a study up to date while it is tuned."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from autotune.errors import AutotuneError
from autotune.events import Event, StudyEnded, TrialEnded

if TYPE_CHECKING:
    import optuna

    from autotune.study.store import StudyStore


class NoteKeeper:
    """Rewrites the note on a study whenever a trial has ended: a listener of the tuner.

    The note is for people. That it cannot be written is never the reason why a study ends.
    """

    def __init__(self, store: StudyStore) -> None:
        self._store = store
        self._study: optuna.Study | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialEnded | StudyEnded):
            from optuna.exceptions import OptunaError

            with suppress(AutotuneError, OSError, OptunaError):
                if self._study is None:
                    self._study = self._store.open()
                keep_note(self._store, self._study)


def keep_note(store: StudyStore, study: optuna.Study) -> None:
    """Writes the note on a study into its storage, and keeps what people wrote below it."""
    from optuna_dashboard import get_note, save_note

    from autotune.dashboard.note import YOURS, study_note
    from autotune.report.subject import Subject
    from autotune.study.reading import view_of

    before = get_note(study)
    ours, mark, below = before.partition(YOURS)
    yours = below if mark else f"\n\n{ours}"
    text = study_note(Subject(view_of(store, study))) + yours
    if text != before:
        save_note(study, text)
