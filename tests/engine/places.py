"""The places of the contract: each with what tells whether anything of a test is left there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from autotune.engine.local import LocalEngine
from autotune.engine.places.choose import place_for
from autotune.engine.process import marked
from autotune.engine.sglang.command import LaunchCommand

from .conftest import HASTY, fake_argv

NUMBER = os.getpid()
"""Trial number of these tests: other test processes on the machine have other ones."""


@dataclass
class Harness:
    """One place for the contract.

    Attributes:
        words: before those of the server in a launch command.
        runs_on: value of ``--on``.
        more_left: what else of a test is left at the place.
    """

    name: str
    folder: Path
    words: tuple[str, ...] = ()
    runs_on: str | None = None
    more_left: Callable[[], list[str]] = field(default=list)

    def command(self, behaviour: str, *words: object) -> tuple[str, ...]:
        """A fake server of this test: its path names the test's folder in the process list."""
        return (*self.words, *fake_argv(behaviour, *words, "--note", self.folder))

    def engine(self, behaviour: str, *words: object, ready_timeout_s: float = 30.0) -> LocalEngine:
        command = LaunchCommand.parse(self.command(behaviour, *words))
        return LocalEngine(
            command,
            ready_timeout_s=ready_timeout_s,
            patience=HASTY,
            place=place_for(command, self.runs_on),
        )

    def left(self) -> list[str]:
        """Processes of this test and whatever else it left behind."""
        found = [
            f"{process.pid}: {' '.join(process.info['cmdline'] or ())}"
            for process in psutil.process_iter(["cmdline", "status"])
            if process.pid != os.getpid()
            and process.info["status"] != psutil.STATUS_ZOMBIE
            and str(self.folder) in (process.info["cmdline"] or ())
        ]
        found += [str(p) for p in marked(lambda value: value.startswith(f"trial-{NUMBER}/"))]
        return found + self.more_left()


def local(folder: Path) -> Harness:
    return Harness("local", folder)


def docker(folder: Path, bin_folder: Path) -> Harness:
    """A stand-in ``docker``, to be put on the PATH."""
    state = folder / "docker-state"
    state.mkdir()
    tool = bin_folder / "docker"
    script = Path(__file__).with_name("fake_docker.py")
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E {script} {state} "$@"\n')
    tool.chmod(0o755)
    words = ("docker", "run", "--rm", "-it", "--network", "host", "lmsysorg/sglang:v0.5.9")
    return Harness(
        "docker", folder, words, more_left=lambda: [p.name for p in state.glob("*.json")]
    )


SUT = "ssh://sut"
"""The machine of the fixture ``sshd``."""


def ssh(folder: Path) -> Harness:
    return Harness("ssh", folder, runs_on=SUT)
