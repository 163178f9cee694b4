"""What a place must do for the life of one server, whichever place it is.

The life itself (wait, diagnose, read back, stop) is in ``autotune.engine.local`` and knows no
place; how one starts a process, and what else of it must be ended, is all that a place knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from autotune.engine.base import Announce
from autotune.engine.process import ServerProcess
from autotune.engine.sglang.command import LaunchCommand


class Berth(Protocol):
    """One launch at a place, from the first question about the machine to the last thing cleared.

    Whoever got it closes it, after the server has been stopped.
    """

    def run(self, command: Sequence[str]) -> str:
        """Runs a small tool on the machine of the server (``nvidia-smi``); empty if it fails."""
        ...

    def gpu_environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The variables that decide which GPUs the server sees, ``env`` being its own."""
        ...

    def free_port(self, host: str | None) -> int:
        """A port for a server that is told to listen on ``host``."""
        ...

    def start(
        self, command: LaunchCommand, *, log: Path, env: Mapping[str, str], port: int
    ) -> ServerProcess:
        """Starts the server.

        Raises:
            LaunchError: the command cannot be run at all.
        """
        ...

    def address(self, host: str | None, port: int) -> tuple[str, int]:
        """Where the started server is reached from here."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Variables of the running server, as far as they can be read."""
        ...

    def machine(self) -> dict[str, Any]:
        """``n_cpus`` and ``platform`` of the machine."""
        ...

    def close(self) -> None:
        """Clears away what served the launch but is no part of the server. Safe to repeat."""
        ...


class Place(Protocol):
    """Where the servers of a study run."""

    @property
    def title(self) -> str:
        """For people: ``on this machine``, ``on gpu-box over ssh``."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether the command's program and files are those of this machine."""
        ...

    def berth(self, number: int, announce: Announce) -> Berth:
        """Makes ready for one launch, without starting anything of it.

        Raises:
            LaunchError: nothing can be started there.
        """
        ...


def url_host(host: str | None) -> str:
    """``host`` itself, or this machine where it stands for all addresses."""
    if host in (None, "", "0.0.0.0"):
        return "127.0.0.1"
    return "::1" if host == "::" else str(host)
