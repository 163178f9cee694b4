"""How a server is stopped: with how much patience, with what result, and what is out of reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from autotune.engine.process import ServerProcess


@dataclass(frozen=True, slots=True)
class StopPatience:
    """How long each rung of the stop ladder waits, in seconds.

    Attributes:
        leader_s: after SIGTERM to the first process, for the whole group to end by itself.
        group_s: after SIGTERM to the rest of the group.
        killed_s: after SIGKILL; only a process stuck in the kernel (a GPU driver) takes longer.
        port_s: for the port to be free again.
    """

    leader_s: float = 10.0
    group_s: float = 2.0
    killed_s: float = 20.0
    port_s: float = 5.0


@dataclass(frozen=True, slots=True)
class StopReport:
    """What it took to end a server.

    Attributes:
        exit_status: of the first process; negative for a signal.
        signals: sent, in order: ``SIGTERM leader``, ``SIGTERM group``, ``SIGKILL group``,
            ``SIGKILL escaped``.
        left: ids of processes that outlived SIGKILL.
        left_beyond: what is left of a container or of processes on another machine, in words.
        port_free: False where somebody still listens on the port.
        duration_s: wall seconds.
    """

    exit_status: int | None
    signals: tuple[str, ...]
    left: tuple[int, ...]
    port_free: bool
    duration_s: float
    left_beyond: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """True where nothing of the server is left."""
        return self.port_free and not self.left and not self.left_beyond

    @property
    def trouble(self) -> str:
        """What went otherwise than it should, in words; empty where it ended when asked."""
        left = [*(f"process {pid}" for pid in self.left), *self.left_beyond]
        if left:
            return f"{', '.join(left)} could not be ended"
        if not self.port_free:
            return "its port was still taken after the stop"
        if "SIGKILL group" in self.signals:
            return f"the server did not end when asked: killed after {self.duration_s:.0f} s"
        return ""


class Beyond(Protocol):
    """What of a server is not a child of this process: a container, processes elsewhere.

    No method raises where the other side does not answer.
    """

    @property
    def farewell(self) -> Sequence[Sequence[str]]:
        """Commands that end it when the tuner itself is gone."""
        ...

    def ask_to_end(self, process: ServerProcess, patience: StopPatience) -> str:
        """Asks it to end and waits; returns the request, as it stands in a report."""
        ...

    def kill(self) -> None:
        """Ends it at once, whatever it does."""
        ...

    def left(self) -> tuple[str, ...]:
        """What is still there of it, in words for people."""
        ...
