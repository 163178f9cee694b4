"""Which place a launch command runs at."""

from __future__ import annotations

from autotune.engine.places.base import Place
from autotune.engine.places.docker import DockerPlace, is_container
from autotune.engine.places.here import LocalPlace
from autotune.engine.sglang.command import LaunchCommand


def place_for(command: LaunchCommand, on: str | None = None) -> Place:
    """The place of a command.

    Raises:
        UsageError: no trial could start and end such a server.
    """
    return DockerPlace(command) if is_container(command) else LocalPlace()
