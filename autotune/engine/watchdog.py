"""Ends a server whose tuner is gone, however it went: SIGKILL, power of the terminal, a crash.

Runs as a process of its own, ``python watchdog.py VARIABLE=VALUE COMMANDS``, with a pipe from the
tuner as its stdin. The pipe closes when the tuner ends; only then does it act. The kernel's
parent-death signal does the same for the first process of a server, but not for what a wrapper
started, nor for a container, which only a command can end.

Standard library only, and started without site packages: it is up before the server is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

_DONE = b"done"
_GRACE_S = 3.0
_COMMAND_S = 60.0
_AGAIN_S = 2.0
"""A container whose ``docker run`` was killed on the way may appear after the first removal."""


class Watchdog:
    """The tuner's end: keep it open while the server lives, then ``dismiss`` it.

    Args:
        mark: ``VARIABLE=VALUE`` that stands in the environment of every process of the server and
            of no other.
        farewell: commands that end what no signal of this machine reaches.
    """

    def __init__(self, mark: str, farewell: Sequence[Sequence[str]] = ()) -> None:
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, mark, json.dumps([list(c) for c in farewell])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C at the terminal must not reach it
        )

    def dismiss(self) -> None:
        """Sends it home: the server has ended. A second call does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(OSError):
            process.communicate(_DONE)
        process.wait()


def main(mark: bytes, farewell: Sequence[Sequence[str]]) -> None:
    """Waits for the tuner to end, or to say that the server has."""
    if sys.stdin.buffer.read() == _DONE:
        return
    for signum in (signal.SIGTERM, signal.SIGKILL):
        for pid in _marked(mark):
            with suppress(OSError):
                os.kill(pid, signum)
        deadline = time.monotonic() + _GRACE_S
        while any(_marked(mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
    for wait_s in (0.0, _AGAIN_S) if farewell else ():
        time.sleep(wait_s)
        for command in farewell:
            _run(command)


def _run(command: Sequence[str]) -> None:
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_S,
            check=False,
        )


def _marked(mark: bytes) -> Iterator[int]:
    """Processes of this server that still run, by their environment.

    Not by the number of its group: once the group has ended, the number may be another's.
    """
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                state = entry.joinpath("stat").read_bytes().rpartition(b")")[2].split()[0]
                if state != b"Z" and mark in entry.joinpath("environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


if __name__ == "__main__":
    main(sys.argv[1].encode(), json.loads(sys.argv[2]))
