"""The command line as its users run it: processes, exit codes, two streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from autotune.engine.ports import free_port
from autotune.engine.process import MARKER

SPEED = 60
"""Quick, at the price of noise: these tests look at what is said and kept, not at the values."""
LIMIT_S = 90


def serve_words(
    *more: str, steps: int = 2, fraction: str = "0.85", speed: int = SPEED
) -> list[str]:
    """A launch command of the simulated server that starts and answers at once."""
    return [
        *(sys.executable, "-m", "autotune.engine.simulated", "--scenario", "qwen3.5-122b-sweep"),
        *("--startup-speed", "2000", "--speed", str(speed), "--model-path", "M"),
        *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", str(steps)),
        *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", str(steps + 1)),
        *("--mem-fraction-static", fraction),
        *more,
    ]


def environment(**more: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("AUTOTUNE_")}
    return kept | {"CI": "1"} | more


def autotune(
    *words: str, cwd: Path, env: dict[str, str] | None = None, limit_s: float = LIMIT_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autotune", *words],
        cwd=cwd,
        env=env or environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def optimize_words(
    *more: str,
    study: str = "s",
    trials: int = 2,
    space: str = "steps-only",
    serve: Sequence[str] | None = None,
    confirm: int = 0,
) -> list[str]:
    """By default nothing is confirmed: most tests count the launches of a search."""
    return [
        *("optimize", "--study", study, "--space", space, "--trials", str(trials)),
        *("--serving-concurrency", "16"),
        *(("--confirm", str(confirm)) if confirm else ("--no-confirm",)),
        *more,
        "--",
        *(serve or serve_words()),
    ]


@contextmanager
def started(
    *words: str, cwd: Path, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A running command whose stderr can be followed; ended with the block if it still runs."""
    child = subprocess.Popen(
        [sys.executable, "-m", "autotune", *words],
        cwd=cwd,
        env=env or environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()


@contextmanager
def serving(directory: Path, *words: str) -> Iterator[str]:
    """The address of a running simulated server, stopped with the block; it leaves no file."""
    port = free_port()
    log = directory / f"server-{port}.log"
    with log.open("wb") as output:
        server = subprocess.Popen([*words, "--port", str(port)], stdout=output, stderr=output)
    try:
        assert wait_until(lambda: b"fired up" in log.read_bytes()), log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait(20)
        log.unlink()


def read_until(child: subprocess.Popen[str], *, stderr: str) -> str:
    """The lines on stderr up to the first that holds the text."""
    assert child.stderr is not None
    seen = []
    for line in child.stderr:
        seen.append(line)
        if stderr in line:
            return "".join(seen)
    raise AssertionError(f"{stderr!r} never came:\n{''.join(seen)}")


def wait_until(done: Callable[[], bool], limit_s: float = 20.0) -> bool:
    ends = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


def servers_of(directory: Path) -> list[int]:
    """Processes that a study in this folder started and that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            mine = MARKER in process.environ() and Path(process.cwd()) == directory.resolve()
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def no_server_left(directory: Path) -> bool:
    return wait_until(lambda: not servers_of(directory))


def records(directory: Path, study: str = "s") -> list[dict[str, Any]]:
    found = sorted((directory / "studies" / study / "trials").glob("*/record.json"))
    return [json.loads(path.read_bytes()) for path in found]


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """What a refused command says: one sentence, perhaps a hint, nothing else."""
    lines = done.stderr.splitlines()
    told = [i for i, line in enumerate(lines) if line.startswith("autotune: ")]
    assert len(told) == 1, done.stderr
    assert all(line.startswith("          ") for line in lines[told[0] + 1 :]), done.stderr
    assert len(lines) - told[0] <= 2, done.stderr
    assert "Traceback" not in done.stderr
    return "\n".join(lines[told[0] :])
