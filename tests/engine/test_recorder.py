"""Logs of servers: bounded, with times, without keys, and complete when they are needed."""

from __future__ import annotations

import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autotune.core.trial import FailureKind
from autotune.engine.process import ServerProcess
from autotune.engine.recorder import HEAD_BYTES, MOST_BYTES, TAIL_BYTES, BoundedFile, Lines
from autotune.engine.sglang.diagnose import diagnose_file, last_words, read_log, stage_of
from autotune.engine.sglang.logtext import server_text
from autotune.engine.sglang.readiness import StartupLog

from .conftest import HASTY, is_alive, wait_until

STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")
LEFT_OUT = re.compile(r"autotune: ([\d,]+) lines \(([\d,]+) bytes\) were left out here")
BATCH = (
    "[2026-01-05 10:00:05 TP0] Decode batch, #running-req: 16, #token: 12345, "
    "token usage: 0.50, gen throughput (token/s): 1234.56"
)
DIES = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
Run = Callable[..., ServerProcess]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a Python program as a server; none outlives its test."""
    started: list[ServerProcess] = []

    def starter(program: str, *secrets: str) -> ServerProcess:
        log = tmp_path / f"{len(started)}.log"
        argv = [sys.executable, "-c", f"import os, sys, time\n{program}"]
        started.append(ServerProcess(argv, log=log, secrets=secrets))
        return started[-1]

    yield starter
    for process in started:
        process.stop(HASTY)


def ended(process: ServerProcess) -> bytes:
    """The log at the very moment at which the end was noticed."""
    assert wait_until(lambda: process.poll() is not None, 60.0)
    return process.log.read_bytes()


def texts(log: bytes) -> list[str]:
    return [text for raw in log.decode().split("\n") for text in server_text(raw)]


def test_each_line_carries_the_time_at_which_it_came(run: Run) -> None:
    log = ended(run("print('one'); time.sleep(0.5); print('  two\\n\\n[2026-01-05 10:00:01] x')"))
    assert all(STAMP.match(line) for line in log.splitlines())
    assert texts(log) == ["one", "  two", "[2026-01-05 10:00:01] x"]
    times = [line.split()[0] for line in log.splitlines()]
    assert times == sorted(times) and times[0] < times[1]


def test_a_line_without_an_end_is_there_soon_and_goes_on_in_place(run: Run) -> None:
    process = run("sys.stdout.write('half'); time.sleep(1.5); print(' whole')")
    assert wait_until(lambda: process.log.read_bytes().endswith(b"Z half"), 1.2)
    assert texts(ended(process)) == ["half whole"]


def test_the_last_words_are_in_the_log_when_the_death_is_noticed(run: Run) -> None:
    for number in range(15):
        log = ended(run(f"print('x' * 50_000); print('last words {number}', end=''); os._exit(3)"))
        assert log.endswith(b"last words %d" % number)


def test_a_flood_is_drained_and_leaves_a_head_and_a_tail(run: Run) -> None:
    program = f"""
print("server_args=... and the start")
many = ({BATCH!r} + "\\n") * 1000
for _ in range(700): sys.stdout.write(many)
print({DIES!r})
sys.exit(1)
"""
    process = run(program)
    log = ended(process)
    began_s = time.process_time()  # its own work: others may keep the machine busy
    failure = diagnose_file(process.log, 1, ready=True)
    assert time.process_time() - began_s < 2.0
    assert failure.kind is FailureKind.RUNTIME_OOM and failure.evidence == DIES
    assert HEAD_BYTES + TAIL_BYTES < len(log) <= MOST_BYTES
    lines = texts(log)
    assert lines[0] == "server_args=... and the start" and lines[-1] == DIES
    (left_out,) = filter(None, map(LEFT_OUT.search, lines))
    n_lines, n_bytes = (int(number.replace(",", "")) for number in left_out.groups())
    assert n_lines + len(lines) - 1 == 700_002
    assert n_bytes == n_lines * (len(BATCH) + len("2026-01-05T10:00:05.123Z \n"))
    assert set(lines[1:-1]) - {left_out.string} == {BATCH}


def test_a_file_of_any_flow_keeps_its_start_and_its_end(tmp_path: Path) -> None:
    draw = random.Random(0)
    for case in range(30):
        written = b""
        with (tmp_path / str(case)).open("w+b") as file:
            bounded = BoundedFile(file.fileno(), head=2_000, tail=4_000, most=10_000)
            for number in range(draw.randint(1, 60)):
                text = b"".join(
                    b"%d.%d %s\n" % (number, i, b"x" * draw.randint(0, 300))
                    for i in range(draw.randint(1, 6))
                )
                bounded.append(text)
                written += text
                kept = (tmp_path / str(case)).read_bytes()
                assert len(kept) <= 10_000
                head, note, tail = kept.partition(b" lines (")
                if not note:
                    assert kept == written
                    continue
                head, tail = head[: head.rfind(b"\n") + 1], tail.partition(b"\n")[2]
                assert 0 < 2_000 - len(head) < 400 and len(tail) > 3_600
                assert written.startswith(head) and written.endswith(tail)
                found = LEFT_OUT.search(kept.decode())
                assert found is not None
                n_bytes = int(found[2].replace(",", ""))
                assert n_bytes == len(written) - len(head) - len(tail)
                left_out = written[len(head) : len(head) + n_bytes]
                assert int(found[1].replace(",", "")) == left_out.count(b"\n")


def test_a_key_is_hidden_before_it_is_written(run: Run) -> None:
    process = run(
        "sys.stdout.write(\"server_args={'api_key': 'sk-abc\"); time.sleep(0.1)\n"
        "print(\"def', 'admin_api_key': 'other'} and my-own-secret\")\n"
        "time.sleep(60)",
        "my-own-secret",
    )
    seen = set()

    def whole() -> bool:
        seen.add(log := process.log.read_bytes())
        return log.endswith(b"\n")

    assert wait_until(whole)
    assert not [log for log in seen if b"abc" in log or b"def'" in log or b"own" in log]
    (line,) = texts(process.log.read_bytes())
    assert (
        line == f"server_args={{'api_key': '*********', 'admin_api_key': '*****'}} and {'*' * 13}"
    )


def test_words_too_short_to_be_secrets_stay(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as file:
        lines = Lines(BoundedFile(file.fileno()))
        lines.hide(["x", "sk-12345"])
        lines.take(b"api_key=None x sk-12345 x\n")
    assert texts((tmp_path / "log").read_bytes()) == ["api_key=None x ******** x"]


def test_a_full_disk_does_not_stop_a_server(tmp_path: Path) -> None:
    full = tmp_path / "full.log"
    full.symlink_to("/dev/full")
    program = "import sys\nfor _ in range(3000): print('x' * 999)\nsys.exit(7)"
    process = ServerProcess([sys.executable, "-c", program], log=full)
    try:
        assert wait_until(lambda: process.poll() is not None)
        assert process.poll() == 7
    finally:
        process.stop(HASTY)


def test_who_holds_the_output_for_ever_holds_up_nothing(run: Run) -> None:
    process = run(
        "import subprocess\n"
        "child = subprocess.Popen(['sleep', '40'], env={}, start_new_session=True)\n"
        "print(child.pid)"
    )
    (holder,) = map(int, texts(ended(process)))
    try:
        began = time.monotonic()
        assert process.stop(HASTY).clean
        assert time.monotonic() - began < 2.0
    finally:
        os.kill(holder, 9)


def test_a_recorder_that_was_killed_holds_up_nothing(run: Run) -> None:
    before = set(psutil.Process().children())
    process = run("time.sleep(60)")
    for child in set(psutil.Process().children()) - before:
        if "recorder.py" in " ".join(child.cmdline()):
            child.kill()
    began = time.monotonic()
    process.catch_up()
    process.note("nobody hears this")
    assert process.stop(HASTY).clean
    assert time.monotonic() - began < 3.0
    assert not is_alive(process.pid)


def test_a_note_of_the_tuner_is_a_line_of_its_own(run: Run) -> None:
    process = run("sys.stdout.write('half'); time.sleep(60)")
    assert wait_until(lambda: b"half" in process.log.read_bytes())
    process.note("the connection broke")
    process.catch_up()
    assert texts(process.log.read_bytes()) == ["half", "autotune: the connection broke"]
    assert last_words(read_log(process.log)) == "autotune: the connection broke"


def test_the_stages_of_a_start_are_found_behind_a_flood(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "log"
    with path.open("w+b") as file:
        lines = Lines(BoundedFile(file.fileno()))
        log = StartupLog(path, said.append)
        lines.take(b"[2026-01-05 10:00:01 TP0] Load weight begin. avail mem=94.10 GB\n")
        for _ in range(8):
            lines.take(b"download: %s\n" % (b"." * 400) * 10_000)
            log.follow()
        assert b"were left out" in path.read_bytes() and not log.fired_up
        lines.take(b"[2026-01-05 10:00:02 TP0] Load weight end. type=Toy, mem usage=62.00 GB.\n")
        lines.take(b"The server is fired up and ready to roll!\n")
        log.follow()
    assert log.fired_up
    assert said == ["loading weights", "weights loaded (62.00 GB)"]
    assert stage_of(read_log(path)) == "serving"
