"""This machine: the server is a child of the tuner."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.engine.base import Announce
from autotune.engine.gpu import run_here
from autotune.engine.places.base import url_host
from autotune.engine.ports import LOCAL_HOST, free_port
from autotune.engine.process import ServerProcess, new_marker
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.environment import environment_at


class LocalBerth:
    """A launch on this machine. Implements ``Berth``."""

    def __init__(self, number: int) -> None:
        self.marker = new_marker(f"trial-{number}")
        self._port = 0

    def run(self, command: Sequence[str]) -> str:
        return run_here(command)

    def gpu_environment(self, env: Mapping[str, str]) -> dict[str, str]:
        return {**os.environ, **env}

    def free_port(self, host: str | None) -> int:
        return free_port(host or LOCAL_HOST)

    def start(
        self, command: LaunchCommand, *, log: Path, env: Mapping[str, str], port: int
    ) -> ServerProcess:
        self._port = port
        return ServerProcess(
            command.argv,
            log=log,
            env=env,
            marker=self.marker,
            host=command.host or LOCAL_HOST,
            port=port,
            secrets=command.secrets(),
        )

    def address(self, host: str | None, port: int) -> tuple[str, int]:
        return url_host(host), port

    def environment(self) -> Mapping[str, str]:
        return environment_at(self._port)

    def machine(self) -> dict[str, Any]:
        return {"n_cpus": os.cpu_count(), "platform": platform.platform(terse=True)}

    def close(self) -> None:
        return None


class LocalPlace:
    """This machine. Implements ``Place``."""

    title = "on this machine"
    is_here = True

    def berth(self, number: int, announce: Announce) -> LocalBerth:
        return LocalBerth(number)
