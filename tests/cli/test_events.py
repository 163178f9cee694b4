"""``--events``: what a run does, line by line, for agents and CI."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from autotune import events
from autotune.cli.documents import schema_of
from autotune.cli.event_file import EventWriter, LineFile
from autotune.cli.event_lines import SCHEMA, RunEnded, line_of
from autotune.core.trial import TrialRecord

from ..core.samples import measured, phase
from ..json_schema import problems
from .commands import (
    autotune,
    complaint,
    no_server_left,
    optimize_words,
    read_until,
    records,
    serve_words,
    started,
)

STAMP = (SCHEMA, datetime(2026, 12, 3, tzinfo=UTC), "s")


def lines(text: str | Path) -> list[dict[str, Any]]:
    """Each line as an event; all of them must fit the published schema."""
    raw = text.read_text() if isinstance(text, Path) else text
    assert raw.endswith("\n")
    found = [json.loads(line) for line in raw.splitlines()]
    schema = schema_of("events")
    for line in found:
        assert problems(line, schema) == [], line
    return found


def names(found: list[dict[str, Any]]) -> list[str]:
    return [line["event"] for line in found if line["event"] != "phase_progress"]


# ---- a run ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study of two launches, one to confirm each, that then goes on for a third."""
    folder = tmp_path_factory.mktemp("told")
    words = ("--events", "events.jsonl", "--without-off")
    first = autotune(*optimize_words(*words, trials=2, confirm=1), cwd=folder)
    assert first.returncode == 0, first.stderr
    (folder / "first.jsonl").write_bytes((folder / "events.jsonl").read_bytes())
    return folder


def test_every_event_of_a_run_is_a_line(told: Path) -> None:
    found = lines(told / "first.jsonl")
    launch = ["trial_started", *["stage_reached"] * 8, "phase_measured", "phase_measured",
              "stage_reached", "trial_ended"]  # fmt: skip
    confirm = ["confirm_started", *launch, *launch]
    has_winner = "confirm_started" in names(found)
    assert names(found) == [
        "run_started", *launch, *launch, "study_ended", *(confirm if has_winner else []),
        "run_ended",
    ]  # fmt: skip
    assert {line["schema"] for line in found} == {1} and {line["study"] for line in found} == {"s"}
    assert any(line["event"] == "phase_progress" for line in found)


def test_moments_are_utc_and_in_order(told: Path) -> None:
    moments = [datetime.fromisoformat(line["at"]) for line in lines(told / "first.jsonl")]
    assert moments == sorted(moments)
    assert all(moment.utcoffset() == datetime.now(UTC).utcoffset() for moment in moments)


def test_a_line_of_an_ended_trial_holds_its_whole_record(told: Path) -> None:
    ended = [line for line in lines(told / "first.jsonl") if line["event"] == "trial_ended"]
    assert [line["record"] for line in ended] == records(told)
    assert ended[0]["gain_pct"] == 0 and ended[0]["best"] == 0


def test_the_first_and_last_line_frame_the_run(told: Path) -> None:
    first, *_, last = lines(told / "first.jsonl")
    assert first["objective"] == "agentic" and first["latency_weight"] == 0.7
    assert first["simulated"] and first["n_configurations"] == 5 and first["max_launches"] == 2
    assert first["serving_concurrency"] == [16] and "--mem-fraction-static" in first["command"]
    assert first["directory"] == "studies/s" and first["n_done"] == 0
    assert (last["event"], last["exit_code"], last["message"]) == ("run_ended", 0, "")


def test_a_run_that_goes_on_appends_to_its_file(told: Path) -> None:
    """And cuts off the line that a kill left unfinished."""
    path = told / "events.jsonl"
    before = lines(told / "first.jsonl")
    with path.open("a") as file:
        file.write('{"event":"trial_st')
    words = ("--events", "events.jsonl", "--without-off")
    done = autotune(*optimize_words(*words, trials=2, confirm=1), cwd=told)
    assert done.returncode == 0, done.stderr
    found = lines(path)
    assert found[: len(before)] == before
    assert names(found[len(before) :]) == ["run_started", "study_ended", "run_ended"]
    assert found[len(before)]["n_done"] == 2


def test_on_stdout_the_lines_are_alone(tmp_path: Path) -> None:
    done = autotune(*optimize_words("--events", "-", trials=1), cwd=tmp_path)
    assert done.returncode == 0
    assert names(lines(done.stdout))[-1] == "run_ended"
    assert "Stopped  after 1 launches" in done.stderr, "what people read goes to stderr"


# ---- how it ends ----------------------------------------------------------------------------


def test_a_run_that_cannot_start_ends_with_its_exit_code_and_reason(tmp_path: Path) -> None:
    words = optimize_words("--events", "e.jsonl", serve=serve_words("--max-total-tokens", "x"))
    done = autotune(*words, cwd=tmp_path)
    assert done.returncode == 4
    *_, ended, last = lines(tmp_path / "e.jsonl")
    assert ended["event"] == "trial_ended" and ended["status"] == "failed"
    assert ended["gain_pct"] is None and ended["record"]["failure"]["kind"]
    assert last["event"] == "run_ended" and last["exit_code"] == 4
    assert last["message"] and last["message"] in done.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_run_that_a_signal_ends_says_so(tmp_path: Path, signum: signal.Signals) -> None:
    with started(*optimize_words("--events", "e.jsonl"), cwd=tmp_path) as child:
        read_until(child, stderr="ready after")
        child.send_signal(signum)
        child.communicate(timeout=30)
    assert child.returncode == 128 + signum
    *_, ended, last = lines(tmp_path / "e.jsonl")
    assert ended["event"] == "trial_ended" and ended["record"]["failure"]["kind"] == "interrupted"
    assert last["event"] == "run_ended" and last["exit_code"] == 128 + signum
    assert no_server_left(tmp_path)


def test_no_feasible_configuration_is_the_exit_code_of_the_last_line(tmp_path: Path) -> None:
    words = optimize_words("--events", "e.jsonl", "--slo", "ttft_s<=0.000001", trials=1)
    done = autotune(*words, cwd=tmp_path)
    assert done.returncode == 6
    last = lines(tmp_path / "e.jsonl")[-1]
    assert last["exit_code"] == 6 and "no configuration meets" in last["message"]


# ---- what cannot be written -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no/such/folder/e.jsonl", "No such file or directory"),
        ("/dev/full", "No space left on device"),
        (".", "Is a directory"),
        ("notes.md", "holds something else than events"),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before_any_launch(
    tmp_path: Path, target: str, why: str
) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("# mine\n")
    done = autotune(*optimize_words("--events", target), cwd=tmp_path)
    assert done.returncode == 2
    assert why in complaint(done) and target in complaint(done)
    assert not records(tmp_path) and notes.read_text() == "# mine\n"


def test_two_kinds_of_data_do_not_share_stdout(tmp_path: Path) -> None:
    done = autotune(*optimize_words("--events", "-", "--json"), cwd=tmp_path)
    assert done.returncode == 2
    assert "--json and --events - both go to stdout" in complaint(done)
    assert not (tmp_path / "studies").exists()


def test_a_dry_run_leaves_no_events(tmp_path: Path) -> None:
    done = autotune(*optimize_words("--events", "e.jsonl", "--dry-run"), cwd=tmp_path)
    assert done.returncode == 0 and not (tmp_path / "e.jsonl").exists()


def ended(message: str) -> RunEnded:
    return RunEnded(*STAMP, exit_code=0, message=message)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[LineFile]:
    descriptor = os.open(tmp_path / "e.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    kept = LineFile(descriptor, "e.jsonl")
    yield kept
    kept.close()


def test_a_disk_that_fills_up_loses_lines_and_nothing_else(
    tmp_path: Path, file: LineFile, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kernel stops the file in the middle of a line, as a full disk does."""
    file.add(ended("whole"))
    size = (tmp_path / "e.jsonl").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        file.add(ended("lost"))
        file.add(ended("lost too"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    said = capsys.readouterr().err
    assert said.count("warning: events are lost, as e.jsonl cannot be written") == 1
    assert said.endswith("; the study goes on\n")
    file.add(ended("there is room again"))
    assert [x["message"] for x in lines(tmp_path / "e.jsonl")] == ["whole", "there is room again"]


def test_a_reader_that_went_away_is_no_reason_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    pipe = LineFile(writer, "pipe")
    pipe.add(ended("nobody reads this"))
    pipe.add(ended("nor this"))
    pipe.close()
    assert capsys.readouterr().err.count("Broken pipe") == 1


def test_a_study_survives_the_end_of_its_reader(tmp_path: Path) -> None:
    words = optimize_words("--events", "-", trials=1)
    with started(*words, cwd=tmp_path) as child:
        assert child.stdout is not None and child.stderr is not None
        assert json.loads(child.stdout.readline())["event"] == "run_started"
        child.stdout.close()
        said = child.stderr.read()
        child.wait(60)
    assert child.returncode == 0 and [r["status"] for r in records(tmp_path)] == ["complete"]
    assert "events are lost" in said and "Traceback" not in said


# ---- lines ----------------------------------------------------------------------------------


def event_of(kind: type[events.Event]) -> events.Event:
    record: TrialRecord = measured(3, 4, 0.9, 1500.0)
    made: list[events.Event] = [
        events.TrialStarted(3, {"speculative_num_steps": 4}, "search", "why"),
        events.StageReached(3, "launching", "text"),
        events.PhaseProgress("C=16", 0.5),
        events.PhaseMeasured(phase()),
        events.TrialEnded(record, 1.5, 3, 1.5, 60.0),
        events.SpaceWidened({"speculative_num_steps": (1, 10)}, "steps widened to 1 to 10"),
        events.ConfirmStarted(4, None),
        events.StudyEnded("all launches are used"),
    ]
    return next(event for event in made if isinstance(event, kind))


KINDS = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, events.Event) and kind is not events.Event
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_of_event_has_a_line(
    tmp_path: Path, file: LineFile, kind: type[events.Event]
) -> None:
    """Also the one that somebody adds tomorrow: without a line of its own this test fails."""
    event = event_of(kind)
    assert line_of(event, STAMP, 3) is not None
    EventWriter(file, "s")(event)
    (line,) = lines(tmp_path / "e.jsonl")
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")
    assert list(line)[:4] == ["event", "schema", "at", "study"] and line["event"] == snake


def test_progress_is_told_once_a_second_at_most(tmp_path: Path, file: LineFile) -> None:
    writer = EventWriter(file, "s")
    writer(events.TrialStarted(7, {}, "search"))
    for share in range(100):
        writer(events.PhaseProgress("C=16", share / 100))
    progress = [x for x in lines(tmp_path / "e.jsonl") if x["event"] == "phase_progress"]
    assert len(progress) < 10 and progress[0]["trial"] == 7
