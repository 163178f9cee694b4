"""The seam between a study and the server under test.

An ``Engine`` starts servers, a ``RunningServer`` is one of them. Real SGLang, the simulated server
and a server that someone else runs stand behind the same two protocols. How a server is measured
does not belong here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from autotune.core.trial import Failure, Flags

Announce = Callable[[str], None]
"""Takes one short line of progress, in words for people: ``weights loaded (62.0 GB)``."""


class LaunchFailed(Exception):
    """The server died, refused its flags or never became ready. Nothing of it runs any more.

    It is no ``AutotuneError``: a failed trial is data for the study. A launch that can never work,
    whatever the flags (no such command), is a ``LaunchError`` instead.

    Args:
        failure: why, with the evidence line of the log.
        launch_s: server seconds from the start to the failure.
        stop_s: wall seconds spent on clearing away what was left.
    """

    def __init__(self, failure: Failure, *, launch_s: float, stop_s: float = 0.0) -> None:
        super().__init__(f"{failure.kind}: {failure.evidence}")
        self.failure = failure
        self.launch_s = launch_s
        self.stop_s = stop_s


@runtime_checkable
class RunningServer(Protocol):
    """A server that answers requests. Whoever launched it stops it, best with ``with``.

    Attributes:
        url: base address without a trailing slash, ``http://127.0.0.1:31555``.
        effective: settings as the server resolved them, named as in the record.
            ``max_running_requests`` is the limit in force, not the one asked for.
        versions: ``{"sglang": "0.5.23"}``, as far as the server tells.
        machine: ``gpu``, ``n_gpus``, ``gpu_memory_gb`` and the like; no host name.
        launch_s: server seconds from start to ready.
        time_scale: server seconds per wall second; 1.0 on hardware.
        api_key: to be sent as ``Authorization: Bearer``; must reach no file.
        stop_trouble: what went wrong when it was stopped, in words; empty until something did.
    """

    @property
    def url(self) -> str: ...
    @property
    def effective(self) -> dict[str, Any]: ...
    @property
    def versions(self) -> dict[str, str]: ...
    @property
    def machine(self) -> dict[str, Any]: ...
    @property
    def launch_s(self) -> float: ...
    @property
    def time_scale(self) -> float: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def stop_trouble(self) -> str: ...

    def failure(self) -> Failure | None:
        """Why the server is no longer alive; None while it is.

        Safe to poll many times a second: it costs one ``waitpid`` until the server has died.
        """
        ...

    def retractions(self) -> int | None:
        """Requests it has thrown out of its batch so far; None where that cannot be seen."""
        ...

    def stop(self) -> float:
        """Stops the server and waits until its processes and its port are gone.

        A second call does nothing, and a dead server is no error. Interrupted by an exception, it
        kills at once before that exception leaves.

        Returns:
            Server seconds it took; 0.0 where nothing was left to stop.
        """
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@runtime_checkable
class Engine(Protocol):
    """Starts one server per trial. Holds no running server itself."""

    @property
    def name(self) -> str:
        """``sglang``, ``simulated`` or ``attached``."""
        ...

    def launch(
        self,
        flags: Flags,
        *,
        directory: Path,
        number: int,
        announce: Announce,
        pinned: bool = True,
    ) -> RunningServer:
        """Starts a server with these flags and returns once it is ready for requests.

        Args:
            flags: canonical flags of the trial; they replace those of the base launch command.
                Empty: the base command as it is.
            directory: where ``launch.sh`` and ``server.log`` of this trial go; created.
            number: the trial's number.
            announce: told of each stage the server reaches.
            pinned: also pass the engine's own settings that keep trials comparable (an attention
                backend that SGLang would otherwise pick from the searched flags, #36554), where
                neither the command nor ``flags`` give them. False: only what was asked for.

        Raises:
            LaunchFailed: the server never became ready.
            LaunchError: the launch command cannot be run at all.
        """
        ...
