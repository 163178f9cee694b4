"""Ctrl-C, SIGTERM and SIGKILL at any moment: no server is left, nothing measured is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .commands import (
    autotune,
    no_server_left,
    optimize_words,
    read_until,
    records,
    serve_words,
    servers_of,
    started,
    wait_until,
)

SPEED = 40
"""A speed at which a phase still takes long enough for a signal to meet it."""

STAGES = {
    "launching": "loading weights",
    "measuring C=1": "ready after",
    "measuring C=16": "C=1:",
    "between trials": "best so far",
}


def slow_words(trials: int, *, startup: str = "2000", speed: int = SPEED) -> list[str]:
    serve = serve_words(speed=speed)
    serve[serve.index("--startup-speed") + 1] = startup
    return optimize_words(trials=trials, serve=serve)


def statuses(directory: Path) -> list[str]:
    return [
        record["failure"]["kind"] if record["failure"] else record["status"]
        for record in records(directory)
    ]


def finish(directory: Path, words: list[str]) -> list[str]:
    done = autotune(*words, cwd=directory)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return statuses(directory)


def follow(child: subprocess.Popen[str], stage: str) -> None:
    """Returns in the given stage of trial 1, or just before it."""
    if stage != "between trials":
        read_until(child, stderr="trial 1:")
    read_until(child, stderr=STAGES[stage])
    if stage.startswith("measuring"):
        time.sleep(0.1)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_signal_ends_the_study_at_once_and_running_again_finishes_it(
    tmp_path: Path, signum: signal.Signals, stage: str
) -> None:
    # A start of 75 simulated seconds takes most of a second at 100.
    words = slow_words(2, startup="100" if stage == "launching" else "2000")
    with started(*words, cwd=tmp_path) as child:
        follow(child, stage)
        child.send_signal(signum)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 128 + signum
    assert "Traceback" not in out + err
    assert servers_of(tmp_path) == []
    kept = statuses(tmp_path)
    assert kept[0] == "complete" and kept[1:] in ([], ["interrupted"])
    if stage != "between trials":
        assert kept == ["complete", "interrupted"]
    again = finish(tmp_path, words)
    assert again == [*kept, "complete"]
    found = records(tmp_path)
    if len(found) == 3:
        assert found[1]["flags"] == found[2]["flags"]
    assert (tmp_path / "studies" / "s" / "report.html").exists()


def test_a_signal_during_the_baseline_costs_only_the_baseline(tmp_path: Path) -> None:
    words = slow_words(1)
    with started(*words, cwd=tmp_path) as child:
        read_until(child, stderr="trial 0: ready")
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=30)
    assert child.returncode == 143
    assert servers_of(tmp_path) == []
    assert finish(tmp_path, words) == ["interrupted", "complete"]
    assert records(tmp_path)[1]["role"] == "baseline"


def test_impatient_signals_do_no_harm(tmp_path: Path) -> None:
    words = slow_words(1)
    with started(*words, cwd=tmp_path) as child:
        read_until(child, stderr="trial 0: ready")
        time.sleep(0.1)
        for _ in range(4):
            child.send_signal(signal.SIGINT)
            time.sleep(0.02)
        out, err = child.communicate(timeout=30)
    assert child.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in out + err
    assert no_server_left(tmp_path)
    assert finish(tmp_path, words)[-1] == "complete"


def test_a_killed_tuner_takes_its_server_along_and_the_next_run_goes_on(tmp_path: Path) -> None:
    words = slow_words(2)
    with started(*words, cwd=tmp_path) as child:
        read_until(child, stderr="trial 1: ready")
        assert servers_of(tmp_path)
        child.kill()
        child.communicate(timeout=30)
    assert no_server_left(tmp_path)
    assert statuses(tmp_path) == ["complete"]
    assert finish(tmp_path, words) == ["complete", "interrupted", "complete"]
    found = records(tmp_path)
    assert found[1]["flags"] == found[2]["flags"]
    assert "without a word" in found[1]["failure"]["evidence"]


def test_a_second_tuner_of_the_same_study_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    words = slow_words(1)
    with started(*words, cwd=tmp_path) as child:
        read_until(child, stderr="trial 0: ready")
        second = autotune(*words, cwd=tmp_path)
        assert second.returncode == 7
        assert f"process {child.pid}" in second.stderr
        assert autotune("show", cwd=tmp_path).returncode == 0
        out, err = child.communicate(timeout=60)
        assert child.returncode == 0, err
    assert "Use " in out
    assert statuses(tmp_path) == ["complete"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_signal_ends_measure_and_its_server(tmp_path: Path, signum: signal.Signals) -> None:
    with started("measure", "--", *serve_words(speed=SPEED), cwd=tmp_path) as child:
        read_until(child, stderr="ready after")
        assert wait_until(lambda: bool(servers_of(tmp_path)))
        child.send_signal(signum)
        out, err = child.communicate(timeout=30)
    assert child.returncode == 128 + signum
    assert out == "" and "Traceback" not in err
    assert servers_of(tmp_path) == []


def test_measure_launches_measures_and_stops(tmp_path: Path) -> None:
    done = autotune("measure", "--json", "--concurrency", "1,4", "--", *serve_words(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert [(p["role"], p["concurrency"]) for p in record["phases"]] == [
        ("latency", 1), ("serving", 4),
    ]  # fmt: skip
    assert record["flags"] == {} and record["status"] == "complete"
    assert servers_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_study_goes_on_when_nobody_watches_any_more(tmp_path: Path) -> None:
    with started(*slow_words(1), cwd=tmp_path) as child:
        assert child.stderr is not None and child.stdout is not None
        read_until(child, stderr="trial 0:")
        child.stderr.close()
        out = child.stdout.read()
        child.wait(30)
    assert child.returncode == 0
    assert "Use " in out or "Better" in out
    assert statuses(tmp_path) == ["complete"]
