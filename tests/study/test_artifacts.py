"""A trial's files as artifacts: Optuna's own reader finds them, and nothing is copied."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.artifacts import FileSystemArtifactStore, get_all_artifact_meta
from optuna.samplers import RandomSampler

from autotune.study.store import StudyStore

from .fakes import record_of

FLAGS = {"speculative_num_steps": 3}


@pytest.fixture(params=["journal", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StudyStore:
    database = f"sqlite:///{tmp_path / 'studies.db'}"
    return StudyStore(
        "s", storage=database if request.param == "sqlite" else None, root=tmp_path / "studies"
    )


def test_log_record_and_script_of_a_trial_are_its_artifacts(store: StudyStore) -> None:
    study = store.create(RandomSampler())
    trial = study.ask()
    directory = store.trial_directory(trial.number)
    directory.mkdir(parents=True)
    (directory / "server.log").write_text("fired up\n")
    (directory / "launch.sh").write_text("#!/bin/sh\n")
    store.tell(study, trial, record_of(trial.number, FLAGS, (1.0, 100.0)))

    frozen = store.open().trials[0]
    described = get_all_artifact_meta(frozen, storage=study._storage)
    assert {meta.filename for meta in described} == {"server.log", "record.json", "launch.sh"}
    files = FileSystemArtifactStore(store.directory / "artifacts")
    for meta in described:
        with files.open_reader(meta.artifact_id) as reader:
            assert reader.read() == (directory / meta.filename).read_bytes()


def test_a_study_folder_that_moves_takes_its_artifacts_along(
    store: StudyStore, tmp_path: Path
) -> None:
    study = store.create(RandomSampler())
    trial = study.ask()
    store.tell(study, trial, record_of(trial.number, FLAGS, (1.0, 100.0)))
    moved = store.directory.rename(tmp_path / "elsewhere")
    assert [path.read_bytes()[:1] for path in (moved / "artifacts").iterdir()] == [b"{"]


def test_without_room_for_links_a_trial_is_told_all_the_same(store: StudyStore) -> None:
    study = store.create(RandomSampler())
    store.directory.mkdir(parents=True, exist_ok=True)
    (store.directory / "artifacts").write_text("a file where the folder should be")
    trial = study.ask()
    store.tell(study, trial, record_of(trial.number, FLAGS, (1.0, 100.0)))
    assert store.open().trials[0].values == [1.0, 100.0]
