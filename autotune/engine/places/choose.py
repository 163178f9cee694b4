"""Which place a launch command runs at."""

from __future__ import annotations

from autotune.engine.places.base import Place
from autotune.engine.places.docker import DockerPlace, is_container
from autotune.engine.places.here import LocalPlace
from autotune.engine.places.ssh import SshPlace
from autotune.engine.sglang.command import LaunchCommand


def place_for(command: LaunchCommand, on: str | None = None) -> Place:
    """The place of a command.

    Args:
        on: address of another machine; None: this one.

    Raises:
        ConfigError: that is no address of a machine.
        UsageError: no trial could start and end such a server.
    """
    if on is not None:
        return SshPlace(on, command)
    return DockerPlace(command) if is_container(command) else LocalPlace()
