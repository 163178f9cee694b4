"""One server process and everything it starts, from the first fork to the last exit.

The server runs in a session of its own, writes into a file, dies with the tuner, and is gone after
``stop`` with all its children and its port. What its log says does not belong here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from autotune.engine.ports import LOCAL_HOST, can_bind
from autotune.engine.watchdog import Watchdog
from autotune.errors import LaunchError

MARKER = "AUTOTUNE_TRIAL"
"""Environment variable that every process of a server inherits; its value is unique per launch."""

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.02


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
        port_free: False where somebody still listens on the port.
        duration_s: wall seconds.
    """

    exit_status: int | None
    signals: tuple[str, ...]
    left: tuple[int, ...]
    port_free: bool
    duration_s: float

    @property
    def clean(self) -> bool:
        """True where nothing of the server is left."""
        return self.port_free and not self.left


class _Child(subprocess.Popen[bytes]):
    """A process that its owner holds before the fork, so that no interrupt can lose it."""

    def __init__(self, owner: ServerProcess, argv: Sequence[str], **options: object) -> None:
        owner._child = self
        super().__init__(argv, **options)  # type: ignore[call-overload]


class ServerProcess:
    """A running server process group.

    The kernel kills the first process when the *thread* that started it ends
    (``PR_SET_PDEATHSIG``), so start it from a thread that outlives it. Not thread-safe.

    Args:
        argv: program and words.
        log: file for stdout and stderr; replaced if it exists.
        env: variables on top of the tuner's own.
        label: names the trial in the process marker.
        host: address whose port must be free after ``stop``.
        port: that port; None where the server has none.

    Raises:
        LaunchError: the program does not exist or cannot be executed.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        label: str = "server",
        host: str = LOCAL_HOST,
        port: int | None = None,
    ) -> None:
        self.log = log
        self.marker = f"{label}/{uuid.uuid4().hex}"
        self.started_mono_s = time.monotonic()
        self._address = (port, host)
        self._child: _Child | None = None
        self._swept = False
        self._report: StopReport | None = None
        self._watchdog = Watchdog(f"{MARKER}={self.marker}")  # before there is anything to watch
        # PYTHONUNBUFFERED: progress and last words must be in the file when they are needed.
        variables = {"PYTHONUNBUFFERED": "1", **os.environ, **(env or {}), MARKER: self.marker}
        with log.open("wb") as output, warnings.catch_warnings():
            # Python 3.12 warns of preexec_fn beside threads; ours takes no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                _Child(
                    self,
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=variables,
                    start_new_session=True,
                    preexec_fn=_die_with(os.getpid()),
                )
            except OSError as error:
                self._watchdog.dismiss()
                raise _cannot_run(argv[0], error) from error
            except BaseException:
                self.kill()
                self._watchdog.dismiss()
                raise

    @property
    def pid(self) -> int:
        """Id of the first process, of its group and of its session."""
        return self._leader.pid

    def poll(self) -> int | None:
        """Exit status of the first process, negative for a signal; None while it runs.

        When it is found dead, what is left of its group is killed.
        """
        status: int | None = self._leader.poll()
        if status is not None and not self._swept:
            self.kill()
        return status

    def kill(self) -> list[str]:
        """SIGKILL to all that is left, without waiting; names what had to be signalled."""
        if self._swept or getattr(self._child, "pid", None) is None:
            return []
        signals = []
        if self._members() or self._leader.poll() is None:
            signals.append("SIGKILL group")
            self._signal_group(signal.SIGKILL)
        escaped = self._escaped()
        for process in escaped:
            with suppress(psutil.Error):
                process.kill()
        signals += ["SIGKILL escaped"] if escaped else []
        if self._leader.poll() is not None and not self._members():
            # From here on the kernel may give the number of the group to somebody else.
            self._swept = True
        return signals

    def stop(self, patience: StopPatience | None = None) -> StopReport:
        """Ends the server: SIGTERM to the first process, to the group, then SIGKILL.

        SIGTERM goes to the first process alone at first, because SGLang that sees its children
        terminated reports a crash and takes 8 s to end (seen on 0.5.23). If an exception interrupts
        the wait, everything is killed before it leaves; a later call completes the stop.

        Returns:
            What happened; the same report when called again.
        """
        if self._report is None:
            self._report = self._stop(patience or StopPatience())
        return self._report

    def _stop(self, patience: StopPatience) -> StopReport:
        began = time.monotonic()
        signals: list[str] = []
        try:
            self._ask_to_end(patience, signals)
        finally:
            signals += self.kill()
        _wait(lambda: not self._alive(), patience.killed_s)
        left = tuple(process.pid for process in self._alive())
        port, host = self._address
        port_free = port is None or _wait(lambda: can_bind(port, host), patience.port_s)
        self.kill()
        self._watchdog.dismiss()
        duration_s = time.monotonic() - began
        return StopReport(self._leader.poll(), tuple(signals), left, port_free, duration_s)

    def _ask_to_end(self, patience: StopPatience, signals: list[str]) -> None:
        if self._leader.poll() is None:
            signals.append("SIGTERM leader")
            self._leader.terminate()
            _wait(lambda: self._leader.poll() is not None, patience.leader_s)
            # Children of SGLang die with their parent, a moment later.
            _wait(lambda: not self._members(), min(0.5, patience.group_s))
        if self._members():
            signals.append("SIGTERM group")
            self._signal_group(signal.SIGTERM)
            _wait(lambda: not self._members(), patience.group_s)

    @property
    def _leader(self) -> _Child:
        assert self._child is not None
        return self._child

    def _signal_group(self, signum: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)
        # Interrupted right after the fork, the child may have no group of its own yet.
        if signum is signal.SIGKILL:
            self._leader.kill()

    def _members(self) -> list[psutil.Process]:
        """Processes of the group that still run; a zombie has ended."""
        if self._swept or not _group_exists(self.pid):
            return []
        return [process for process in psutil.process_iter() if _in_group(process, self.pid)]

    def _escaped(self) -> list[psutil.Process]:
        """Processes of this launch that left its group (``setsid``, a double fork)."""
        return [
            process
            for process in marked(lambda value: value == self.marker)
            if not _in_group(process, self.pid)
        ]

    def _alive(self) -> list[psutil.Process]:
        self._leader.poll()
        return self._members() + self._escaped()


def marked(wanted: Callable[[str], bool]) -> list[psutil.Process]:
    """Running processes whose marker is ``wanted``, started by this or any other tuner.

    Processes of other users cannot be read and are skipped.
    """
    return [
        process
        for process in psutil.process_iter()
        if (value := _marker_of(process)) is not None and wanted(value) and _runs(process)
    ]


def _marker_of(process: psutil.Process) -> str | None:
    if process.pid == os.getpid():
        return None
    try:
        return process.environ().get(MARKER)
    except (psutil.Error, OSError):
        return None


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.Error:
        return False


def _in_group(process: psutil.Process, group: int) -> bool:
    try:
        return os.getpgid(process.pid) == group and _runs(process)
    except OSError:
        return False


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _wait(done: Callable[[], bool], limit_s: float) -> bool:
    """Polls until ``done`` or the time is up; what ``done`` said last."""
    deadline = time.monotonic() + limit_s
    while not done():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _die_with(tuner: int) -> Callable[[], None] | None:
    """Runs in the child before ``exec``: SIGKILL when the tuner dies, however it dies."""
    if not sys.platform.startswith("linux"):
        return None
    # Looked up before the fork: the child of a process with threads must not take locks.
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != tuner:
            os._exit(1)

    return prepare


def _cannot_run(program: str, error: OSError) -> LaunchError:
    hint = "check the words after --; is SGLang installed in this environment?"
    if isinstance(error, FileNotFoundError):
        return LaunchError(f"the launch command {program!r} does not exist", hint=hint)
    if isinstance(error, PermissionError):
        return LaunchError(f"the launch command {program!r} is not executable", hint=hint)
    return LaunchError(f"the launch command {program!r} cannot be run: {error.strerror}", hint=hint)
