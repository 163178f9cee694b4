"""Helpers shared by the engine tests: fake servers are real processes with real sockets."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from autotune.engine.process import ServerProcess, StopPatience

from .sshd import SSH_TOOLS, SSHD, Sshd

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


class NvidiaSmi:
    """A stand-in ``nvidia-smi`` on the PATH that tells what the test says, and may change it."""

    def __init__(self, folder: Path) -> None:
        self._tool = folder / "nvidia-smi"
        self._folder = folder

    def __call__(
        self,
        *,
        gpus: Sequence[tuple[int, float]] = (),
        users: Sequence[tuple[int, int, float]] = (),
        fails: bool = False,
    ) -> None:
        """``gpus``: index and used MiB; ``users``: GPU, process and its MiB."""
        rows = [f"{i}, GPU-{i}, NVIDIA Test, 98304, {used}" for i, used in gpus]
        apps = [f"GPU-{gpu}, {pid}, other, {used}" for gpu, pid, used in users]
        self._write("gpus", rows)
        self._write("users", apps)
        status = "exit 9" if fails else ""
        self._tool.write_text(
            f"#!/bin/sh\n{status}\ncase $1 in *compute-apps*) cat {self._folder}/users;; "
            f"*driver_version*) echo 580.95.05;; *) cat {self._folder}/gpus;; esac\n"
        )
        self._tool.chmod(0o755)

    def _write(self, name: str, rows: Sequence[str]) -> None:
        """In one step: the tool may be reading."""
        new = self._folder / f"{name}.new"
        new.write_text("".join(f"{row}\n" for row in rows))
        new.replace(self._folder / name)


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NvidiaSmi:
    folder = tmp_path / "driver"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return NvidiaSmi(folder)


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


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    missing = [name for name in SSH_TOOLS if shutil.which(name) is None]
    missing += [] if SSHD.exists() else [str(SSHD)]
    if missing:
        assert os.environ.get("SSHD") != "required", f"missing: {missing}"
        pytest.skip(f"no {' and no '.join(missing)}: apt-get install openssh-server")
    server = Sshd(tmp_path_factory.mktemp("sshd"))
    yield server
    server.stop()
