"""Helpers shared by the engine tests: fake servers are real processes with real sockets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from autotune.engine.process import ServerProcess, StopPatience

FAKE_SERVER = Path(__file__).with_name("fake_server.py")
HASTY = StopPatience(leader_s=0.3, group_s=0.3, killed_s=10.0, port_s=5.0)


def fake_argv(behaviour: str, *words: object) -> tuple[str, ...]:
    return (sys.executable, str(FAKE_SERVER), behaviour, *map(str, words))


def wait_until(done: Callable[[], bool], limit_s: float = 15.0) -> bool:
    ends = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > ends:
            return False
        time.sleep(0.02)
    return True


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def noted_pids(path: Path) -> list[int]:
    """The children a fake server noted, once it has."""
    assert wait_until(lambda: path.exists() and path.read_text() != "")
    return [int(pid) for pid in path.read_text().split()]


Start = Callable[..., ServerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts fake servers and makes sure that none outlives its test."""
    started: list[ServerProcess] = []

    def starter(behaviour: str, *words: object, port: int | None = None) -> ServerProcess:
        given = words if port is None else (*words, "--port", port)
        log = tmp_path / f"server-{len(started)}.log"
        process = ServerProcess(fake_argv(behaviour, *given), log=log, port=port)
        started.append(process)
        return process

    yield starter
    for process in started:
        process.stop(HASTY)
