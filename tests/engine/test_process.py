from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from autotune.engine.ports import can_bind, free_port, is_listening
from autotune.engine.process import MARKER, ServerProcess, StopPatience, marked
from autotune.errors import Interrupted, LaunchError

from .conftest import HASTY, Start, fake_argv, is_alive, noted_pids, wait_until


def test_a_death_at_start_is_noticed_within_a_second(start: Start) -> None:
    process = start("leaves-children", "--pids", os.devnull)
    assert wait_until(lambda: not is_alive(process.pid))
    found = time.monotonic()
    assert wait_until(lambda: process.poll() is not None)
    assert time.monotonic() - found < 1.0
    assert process.poll() == 1


def test_what_a_dead_server_left_in_its_group_is_killed(start: Start, tmp_path: Path) -> None:
    process = start("leaves-children", "--pids", tmp_path / "pids")
    children = noted_pids(tmp_path / "pids")
    assert wait_until(lambda: process.poll() is not None)
    assert wait_until(lambda: not any(map(is_alive, children)))
    assert process.stop(HASTY).clean


def test_a_polite_server_ends_on_one_signal_to_its_first_process(start: Start) -> None:
    report = start("sleeps").stop(HASTY)
    assert report.signals == ("SIGTERM leader",)
    assert report.exit_status == -signal.SIGTERM
    assert report.clean


def test_a_deaf_server_is_killed_with_its_grandchildren_and_frees_its_port(
    start: Start, tmp_path: Path
) -> None:
    port = free_port()
    process = start("deaf", "--pids", tmp_path / "pids", port=port)
    children = noted_pids(tmp_path / "pids")
    assert wait_until(lambda: is_listening(port))
    assert not can_bind(port)

    report = process.stop(HASTY)

    assert report.signals == ("SIGTERM leader", "SIGTERM group", "SIGKILL group")
    assert report.exit_status == -signal.SIGKILL
    assert report.clean
    assert can_bind(port)
    assert not any(map(is_alive, children))


def test_a_child_that_left_the_group_is_found_by_its_marker(start: Start, tmp_path: Path) -> None:
    process = start("escapes", "--pids", tmp_path / "pids")
    (child,) = noted_pids(tmp_path / "pids")
    assert wait_until(lambda: bool(_pids_marked(process.marker) & {child}))
    report = process.stop(HASTY)
    assert report.signals == ("SIGTERM leader", "SIGKILL escaped")
    assert not is_alive(child)


def test_a_second_stop_reports_the_same_and_does_nothing(start: Start) -> None:
    process = start("sleeps")
    assert process.stop(HASTY) is process.stop(HASTY)


def test_stopping_a_server_that_is_already_dead_is_no_error(start: Start) -> None:
    process = start("sleeps")
    os.kill(process.pid, signal.SIGKILL)
    assert wait_until(lambda: not is_alive(process.pid))
    report = process.stop(HASTY)
    assert report.signals == ()
    assert report.exit_status == -signal.SIGKILL


def test_an_interrupted_stop_kills_before_the_interrupt_leaves(
    start: Start, tmp_path: Path
) -> None:
    process = start("deaf", "--pids", tmp_path / "pids")
    children = noted_pids(tmp_path / "pids")

    def interrupt(signum: int, frame: object) -> None:
        raise Interrupted(signum)

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Interrupted):
            process.stop(StopPatience(leader_s=60.0))
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert wait_until(lambda: not any(map(is_alive, [process.pid, *children])), 5.0)
    assert process.stop(HASTY).clean


def test_a_foreign_listener_on_the_port_is_left_alone(start: Start) -> None:
    port = free_port()
    process = start("sleeps")
    with socket.create_server(("127.0.0.1", port)) as foreign:
        process._address = (port, "127.0.0.1")
        report = process.stop(StopPatience(leader_s=2.0, port_s=0.1))
        assert not report.port_free
        assert not report.clean
        assert foreign.fileno() > 0
        assert is_listening(port)


@pytest.mark.parametrize("behaviour", ["deaf", "escapes"])
def test_what_a_server_started_is_killed_when_its_tuner_is_killed(
    tmp_path: Path, behaviour: str
) -> None:
    argv = fake_argv(behaviour, "--pids", tmp_path / "pids")
    with _tuner_of(tmp_path / "log", argv) as tuner:
        assert tuner.stdout is not None
        server = int(tuner.stdout.readline())
        children = noted_pids(tmp_path / "pids")
        tuner.kill()
        tuner.wait()
        assert wait_until(lambda: not any(map(is_alive, [server, *children])))


def test_no_watchdog_and_no_recorder_outlives_its_server(start: Start) -> None:
    before = _children()
    process = start("sleeps")
    watching = _children() - before - {process.pid}
    assert len(watching) == 2  # and the recorder of its output
    process.stop(HASTY)
    assert not watching & _children()


IN_A_FORK = """
import os, signal, sys
from pathlib import Path
from autotune.engine.process import ServerProcess
from autotune.errors import Interrupted

def interrupt(signum, frame):
    raise Interrupted(signum)

def hook():
    signal.raise_signal(signal.SIGHUP)

signal.signal(signal.SIGHUP, interrupt)
os.register_at_fork(after_in_parent=hook)
try:
    ServerProcess([sys.executable, "-c", "import time; time.sleep(60)"], log=Path(sys.argv[1]))
except Interrupted as signal_came:
    print("interrupted by", signal_came.signum)
print("and the handler is back", signal.getsignal(signal.SIGHUP) is interrupt)
"""


def test_a_signal_in_the_middle_of_a_fork_is_not_lost(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_FORK, str(tmp_path / "log")],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.stdout == "interrupted by 1\nand the handler is back True\n", done.stderr


def _children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def _tuner_of(log: Path, argv: Sequence[str]) -> subprocess.Popen[str]:
    """A process that starts this server, tells its id and waits."""
    program = (
        "import sys, time; from pathlib import Path; "
        "from autotune.engine.process import ServerProcess; "
        "p = ServerProcess(sys.argv[2:], log=Path(sys.argv[1])); "
        "print(p.pid, flush=True); time.sleep(60)"
    )
    words = [sys.executable, "-c", program, str(log), *argv]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_the_server_is_killed_when_its_tuner_is_killed(tmp_path: Path) -> None:
    with _tuner_of(tmp_path / "log", fake_argv("sleeps")) as tuner:
        assert tuner.stdout is not None
        server = int(tuner.stdout.readline())
        assert is_alive(server)
        tuner.kill()
        tuner.wait()
        assert wait_until(lambda: not is_alive(server))


def test_the_server_has_its_own_session_no_input_and_the_trial_marker(start: Start) -> None:
    process = start("sleeps")
    seen = psutil.Process(process.pid)
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    assert seen.environ()[MARKER] == process.marker
    assert Path(f"/proc/{process.pid}/fd/0").readlink() == Path(os.devnull)


@pytest.mark.parametrize(
    ("program", "text", "words"),
    [
        ("sglangg", None, "'sglangg' does not exist"),
        ("plain.txt", "hello", "is not executable"),
        ("broken", "\x7fELF", "cannot be run"),
    ],
)
def test_a_command_that_cannot_run_is_one_clear_sentence(
    tmp_path: Path, program: str, text: str | None, words: str
) -> None:
    path = tmp_path / program
    if text is not None:
        path.write_text(text)
        path.chmod(0o644 if program.endswith(".txt") else 0o755)
    name = program if text is None else str(path)
    with pytest.raises(LaunchError, match=words) as raised:
        ServerProcess([name], log=tmp_path / "log")
    assert raised.value.exit_code == 4
    assert "\n" not in raised.value.message
    assert raised.value.hint


def test_two_free_ports_in_a_row_are_not_the_same_port() -> None:
    assert len({free_port() for _ in range(8)}) > 1


def test_a_host_of_another_machine_offers_no_port() -> None:
    with pytest.raises(LaunchError, match=r"192\.0\.2\.1"):
        free_port("192.0.2.1")


def _pids_marked(marker: str) -> set[int]:
    return {process.pid for process in marked(lambda value: value == marker)}
