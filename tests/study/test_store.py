from __future__ import annotations

import json
import multiprocessing
import os
import warnings
from pathlib import Path

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trial import Caveat, FailureKind, record_from_json
from autotune.errors import StudyError, UsageError
from autotune.search import CanonicalTPESampler
from autotune.space import load_space
from autotune.study.config import RunConfig, to_yaml
from autotune.study.reading import open_store, read_study
from autotune.study.store import (
    StudyStore,
    check_name,
    find_study,
    interrupted_record,
    masked,
    slug,
    study_names,
)

from .fakes import chain, record_of


def sampler() -> CanonicalTPESampler:
    return CanonicalTPESampler(load_space("steps-only"), seed=0)


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    return StudyStore("s", root=tmp_path)


# ---- names ----------------------------------------------------------------------------------


@given(st.text(max_size=100))
def test_any_text_becomes_a_valid_name(text: str) -> None:
    assert check_name(slug(text)) == slug(text)


@given(st.text(max_size=100))
def test_a_valid_name_stays_inside_the_folder_of_studies(text: str) -> None:
    try:
        name = check_name(text)
    except UsageError as error:
        assert repr(text) in error.message
        return
    assert (Path("studies") / name).resolve().parent == Path("studies").resolve()


def test_the_newest_study_is_found_first(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no study in"):
        find_study(None, tmp_path)
    for name in ("older", "newer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "study.yaml").write_text("")
    os.utime(tmp_path / "older" / "study.yaml", (1, 1))
    assert study_names(tmp_path) == ["newer", "older"]
    assert find_study(None, tmp_path) == "newer"
    with pytest.raises(StudyError, match="did you mean 'older'"):
        find_study("oldr", tmp_path)


# ---- trials ---------------------------------------------------------------------------------


def test_a_complete_trial_is_stored_in_optuna_and_as_a_file(store: StudyStore) -> None:
    study = store.create(sampler())
    trial = study.ask()
    record = record_of(trial.number, chain(3), (1.5, 900.0))
    store.tell(study, trial, record)
    again = store.open()
    assert again.trials[0].values == [1.5, 900.0]
    assert again.trials[0].user_attrs["record"] == record.to_dict()
    assert store.records(again) == [record]
    path = store.trial_directory(0) / "record.json"
    assert record_from_json(path.read_bytes()) == record
    assert [p.name for p in path.parent.iterdir()] == ["record.json"]


def test_a_failed_trial_has_no_value_and_tells_why(store: StudyStore) -> None:
    study = store.create(sampler())
    trial = study.ask()
    store.tell(study, trial, record_of(0, chain(3), FailureKind.GRAPH_CAPTURE_OOM))
    frozen = store.open().trials[0]
    assert frozen.state is optuna.trial.TrialState.FAIL and frozen.values is None
    assert frozen.user_attrs["failure"] == "graph_capture_oom"
    assert frozen.user_attrs["remedy"] == "the remedy"


def test_constraints_reach_optuna_in_the_form_its_dashboard_reads(store: StudyStore) -> None:
    import msgspec

    study = store.create(sampler())
    for violation in (0.2, -0.1):
        trial = study.ask()
        record = record_of(trial.number, chain(3), (1.0, 100.0))
        store.tell(
            study, trial, msgspec.structs.replace(record, constraints={"ttft_s<=1": violation})
        )
    study = store.open()
    assert [t.system_attrs["constraints"] for t in study.trials] == [[0.2], [-0.1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        assert [t.number for t in study.best_trials] == [1]


def test_warnings_and_the_running_limit_are_in_the_dashboards_table(store: StudyStore) -> None:
    import msgspec

    study = store.create(sampler())
    trial = study.ask()
    record = msgspec.structs.replace(
        record_of(0, chain(3), (1.0, 100.0)),
        effective={"max_running_requests": 7},
        warnings=[Caveat("code", "C=16 queues")],
    )
    store.tell(study, trial, record)
    attrs = store.open().trials[0].user_attrs
    assert attrs["running_limit"] == 7 and attrs["warnings"] == "C=16 queues"


def test_foreign_trials_are_passed_over(store: StudyStore) -> None:
    study = store.create(sampler())
    study.add_trial(optuna.trial.create_trial(values=[1.0, 2.0]))
    junk = study.ask()
    junk.set_user_attr("record", {"schema": 99})
    study.tell(junk, [1.0, 2.0])
    assert store.records(store.open()) == []


def test_stale_trials_are_failed_as_interrupted(store: StudyStore) -> None:
    study = store.create(sampler())
    study.ask().set_user_attr("flags", chain(4))
    (closed,) = store.close_stale(store.open())
    assert closed.flags == chain(4)
    assert closed.failure is not None and closed.failure.kind is FailureKind.INTERRUPTED
    assert store.close_stale(store.open()) == []
    assert json.loads((store.trial_directory(0) / "record.json").read_bytes())["status"] == "failed"


def test_a_trial_that_was_measured_and_not_told_is_told(store: StudyStore) -> None:
    study = store.create(sampler())
    study.ask().set_user_attr("flags", chain(4))
    measured = record_of(0, {**chain(4), "mem_fraction_static": 0.8}, (1.5, 300.0))
    store.write_record(measured)  # and killed
    assert store.close_stale(store.open()) == [measured]
    assert store.records(store.open()) == [measured]
    (told,) = store.open().trials
    assert told.values == [1.5, 300.0]


@pytest.mark.parametrize("left", ["other flags", "an older study", "half a file"])
def test_a_record_of_another_trial_is_not_taken_for_it(store: StudyStore, left: str) -> None:
    study = store.create(sampler())
    study.ask().set_user_attr("flags", chain(4))
    store.write_record(record_of(0, chain(3 if left == "other flags" else 4), (1.5, 300.0)))
    path = store.trial_directory(0) / "record.json"
    if left == "an older study":
        os.utime(path, (0, 0))
    if left == "half a file":
        path.write_bytes(path.read_bytes()[:100])
    (closed,) = store.close_stale(store.open())
    assert closed.failure is not None and closed.failure.kind is FailureKind.INTERRUPTED


def test_an_interrupted_record_has_no_value() -> None:
    record = interrupted_record(3, chain(2), "signal 2")
    assert record.objectives is None and record.status == "failed"


# ---- one tuner at a time --------------------------------------------------------------------


def hold(root: Path, ready: multiprocessing.synchronize.Event, ends: object) -> None:
    with StudyStore("s", root=root).exclusive():
        ready.set()
        ends.wait(30)  # type: ignore[attr-defined]


def test_a_second_process_is_kept_off_and_the_holder_is_named(
    store: StudyStore, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    ready, ends = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path, ready, ends))
    other.start()
    assert ready.wait(30)
    with pytest.raises(StudyError, match=f"process {other.pid}"), store.exclusive():
        pass
    ends.set()
    other.join(30)
    with store.exclusive():
        pass


# ---- the journal ----------------------------------------------------------------------------


@given(st.integers(1, 200))
def test_a_journal_cut_off_anywhere_in_its_last_line_goes_on(cut: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        store = StudyStore("s", root=Path(root))
        store.create(sampler()).ask().set_user_attr("x", "a" * 300)
        journal = Path(store.location)
        journal.write_bytes(journal.read_bytes()[:-cut])
        study = store.create(sampler())
        study.ask().set_user_attr("y", 1)
        trials = store.open().trials
        assert "x" not in trials[0].user_attrs
        assert trials[1].user_attrs == {"y": 1}


def test_a_file_that_is_no_journal_is_left_alone(store: StudyStore) -> None:
    store.directory.mkdir()
    journal = Path(store.location)
    for text in ("a recipe\nfor a cake\n", "one line"):
        journal.write_text(text)
        with pytest.raises(StudyError, match="journal"):
            store.create(sampler())
        assert journal.read_text() == text


# ---- passwords ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("postgresql://me:pass@host:5432/x", "postgresql://me:REDACTED@host:5432/x"),
        ("mysql+pymysql://me:p%40ss@host/x", "mysql+pymysql://me:REDACTED@host/x"),
        ("sqlite:///x.db", "sqlite:///x.db"),
        ("postgresql://me@host/x", "postgresql://me@host/x"),
        ("studies/s/journal.log", "studies/s/journal.log"),
    ],
)
def test_the_password_of_a_database_is_masked(location: str, shown: str) -> None:
    assert masked(location) == shown


def test_a_masked_storage_is_read_with_the_whole_url_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://me:pass@host/x"
    (tmp_path / "s").mkdir()
    config = RunConfig(engine="sglang", storage=masked(url), command=("python",))
    (tmp_path / "s" / "study.yaml").write_text(to_yaml(config))
    monkeypatch.delenv("AUTOTUNE_STORAGE", raising=False)
    with pytest.raises(StudyError) as caught:
        open_store("s", root=tmp_path)
    assert "AUTOTUNE_STORAGE" in caught.value.hint
    monkeypatch.setenv("AUTOTUNE_STORAGE", url)
    assert open_store("s", root=tmp_path).location == url


def test_a_view_names_the_trials_a_study_has(store: StudyStore, tmp_path: Path) -> None:
    study = store.create(sampler())
    store.tell(study, study.ask(), record_of(0, chain(3), (1.0, 100.0), "baseline"))
    config = RunConfig(engine="simulated", command=("python",))
    (store.directory / "study.yaml").write_text(to_yaml(config))
    view = read_study("s", root=tmp_path)
    assert view.is_simulated and view.record(0).role == "baseline"
    assert view.ranking.best is not None
    with pytest.raises(UsageError, match="no trial 7: it has 0 to 0"):
        view.record(7)
