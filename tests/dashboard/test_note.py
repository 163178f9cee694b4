"""The note on a study: written after each trial, with the flags to use; people's words stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna_dashboard import get_note, save_note

from autotune.core.trial import FailureKind
from autotune.dashboard.keeper import NoteKeeper
from autotune.dashboard.note import YOURS, code, escaped, study_note
from autotune.events import StudyEnded, TrialStarted
from autotune.report.subject import Subject
from autotune.study.reading import view_of
from autotune.study.store import StudyStore

from ..core.samples import crashed
from .studies import made

ENDED = StudyEnded("done")


def note_of(store: StudyStore) -> str:
    text: str = get_note(store.open())
    return text


@pytest.mark.parametrize("storage", [None, "sqlite"])
def test_the_note_says_what_to_use_and_what_failed(storage: str | None, tmp_path: Path) -> None:
    store = made(tmp_path, storage=storage and f"sqlite:///{tmp_path / 's.db'}")
    keep = NoteKeeper(store)
    keep(TrialStarted(0, {}, "search"))
    assert note_of(store) == "", "nothing has ended"
    keep(ENDED)
    text = note_of(store)
    best = view_of(store, store.open()).ranking.best
    assert best is not None
    assert f"--speculative-num-steps {best.flags['speculative_num_steps']}" in text
    assert "## The front" in text and "**out of memory in graph capture**, trials 5, 11" in text
    assert len(text) < 6000, "few pieces in the storage"


def test_it_is_rewritten_in_place_and_keeps_what_people_wrote(tmp_path: Path) -> None:
    store = made(tmp_path, 3)
    keep = NoteKeeper(store)
    keep(ENDED)
    save_note(store.open(), note_of(store) + "\n\nAsk Ada before the rollout.")
    study = store.open()
    trial = study.ask()
    store.tell(study, trial, crashed(trial.number, 3, FailureKind.RUNTIME_OOM))
    keep(ENDED)
    text = note_of(store)
    assert text.count(YOURS) == 1 and text.endswith("Ask Ada before the rollout.")
    assert "out of memory while serving" in text


def test_a_note_that_was_there_first_is_kept(tmp_path: Path) -> None:
    store = made(tmp_path, 2)
    save_note(store.open(), "Measured on the new rack.")
    NoteKeeper(store)(ENDED)
    assert note_of(store).endswith("Measured on the new rack.")


def test_a_storage_that_is_gone_does_not_end_a_study(tmp_path: Path) -> None:
    store = made(tmp_path, 1)
    (store.directory / "journal.log").unlink()
    NoteKeeper(store)(ENDED)


@pytest.mark.parametrize("n", [0, 1])
def test_a_study_that_just_began_has_a_note(n: int, tmp_path: Path) -> None:
    store = made(tmp_path, n)
    text = study_note(Subject(view_of(store, store.open())))
    assert text.startswith("## Nothing to deploy yet" if n == 0 else "## Use these flags")


@given(st.text(max_size=300))
def test_any_text_is_one_line_that_closes_what_it_opens(text: str) -> None:
    assert "\n" not in escaped(text) and "\n" not in code(text)
    shown = code(text)
    assert shown == "no evidence" or shown.count("`") == 2
