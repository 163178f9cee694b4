"""One server process and everything it starts, from the first fork to the last exit.

The server runs in a session of its own, its output goes into a file of bounded size, it dies with
the tuner, and is gone after ``stop`` with all its children and its port. What its log says does not
belong here.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from autotune.engine.ports import LOCAL_HOST, can_bind
from autotune.engine.recorder import Recorder
from autotune.engine.stopping import Beyond, StopPatience, StopReport
from autotune.engine.watchdog import Watchdog
from autotune.errors import LaunchError

__all__ = [
    "MARKER",
    "ServerProcess",
    "StopPatience",
    "StopReport",
    "marked",
    "new_marker",
]

MARKER = "AUTOTUNE_TRIAL"
"""Environment variable that every process of a server inherits; its value is unique per launch."""

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.02
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def new_marker(label: str) -> str:
    """A marker for one launch, unlike that of any other."""
    return f"{label}/{uuid.uuid4().hex}"


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
        log: file for stdout and stderr, see ``Recorder``; replaced if it exists.
        env: variables on top of the tuner's own.
        label: names the trial in the process marker.
        host: address whose port must be free after ``stop``.
        port: that port; None where the server has none.
        marker: of this launch; None makes one.
        feed: written to its stdin, which then stays open; None: it has no input.
        beyond: the part of the server that this process only speaks to.
        secrets: words that must not reach the log.

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
        marker: str | None = None,
        feed: bytes | None = None,
        beyond: Beyond | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        self.log = log
        self.marker = marker or new_marker(label)
        self.started_mono_s = time.monotonic()
        self._address = (port, host)
        self._child: _Child | None = None
        self._swept = False
        self._report: StopReport | None = None
        self._beyond = beyond
        farewell = beyond.farewell if beyond else ()
        # Before there is anything to watch.
        self._watchdog = Watchdog(f"{MARKER}={self.marker}", farewell)
        # PYTHONUNBUFFERED: progress and last words must be in the file when they are needed.
        variables = {"PYTHONUNBUFFERED": "1", **os.environ, **(env or {}), MARKER: self.marker}
        self._recorder = Recorder(log, secrets)
        try:
            self._start(argv, variables, subprocess.DEVNULL if feed is None else subprocess.PIPE)
            self.tell(feed or b"")
        except OSError as error:
            self._dismiss()
            raise _cannot_run(argv[0], error) from error
        except BaseException:
            self.kill()
            self._dismiss()
            raise

    def _start(self, argv: Sequence[str], variables: Mapping[str, str], source: int) -> None:
        with warnings.catch_warnings():
            # Python 3.12 warns of preexec_fn beside threads; ours takes no lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                with _signals_held():
                    _Child(
                        self,
                        argv,
                        stdin=source,
                        stdout=self._recorder.output,
                        stderr=subprocess.STDOUT,
                        env=variables,
                        start_new_session=True,
                        preexec_fn=_die_with(os.getpid()),
                    )
            finally:
                self._recorder.handed_over()

    @property
    def pid(self) -> int:
        """Id of the first process, of its group and of its session."""
        return self._leader.pid

    def tell(self, words: bytes) -> None:
        """Writes to its stdin; one that no longer listens is found by ``poll``."""
        if words and self._leader.stdin is not None:
            with suppress(OSError, ValueError):
                self._leader.stdin.write(words)
                self._leader.stdin.flush()

    def wait(self, limit_s: float) -> bool:
        """Waits for the first process to end; False where it still runs."""
        return _wait(lambda: self._leader.poll() is not None, limit_s)

    @property
    def status(self) -> int | None:
        """What ``poll`` saw last; nothing is done about it."""
        status: int | None = self._leader.returncode
        return status

    def poll(self) -> int | None:
        """Exit status of the first process, negative for a signal; None while it runs.

        When it is found dead, what is left of its group is killed, and its last words are in the
        log.
        """
        status: int | None = self._leader.poll()
        if status is not None and not self._swept:
            self.kill()
            self.catch_up()
        return status

    def catch_up(self) -> None:
        """Returns once all that the server has written by now is in the log."""
        self._recorder.catch_up()

    def note(self, text: str) -> None:
        """Adds a line of the tuner's own to the log."""
        self._recorder.note(text)

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
        if self._beyond is not None:
            self._beyond.kill()
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
        left_beyond = self._clear_beyond(patience)
        port, host = self._address
        port_free = port is None or _wait(lambda: can_bind(port, host), patience.port_s)
        self.kill()
        self._dismiss()
        if self._leader.stdin is not None:
            with suppress(OSError):
                self._leader.stdin.close()
        duration_s = time.monotonic() - began
        status = self._leader.poll()
        return StopReport(status, tuple(signals), left, port_free, duration_s, left_beyond)

    def _dismiss(self) -> None:
        self._recorder.close()
        self._watchdog.dismiss()

    def _clear_beyond(self, patience: StopPatience) -> tuple[str, ...]:
        """Ends what is beyond until nothing is left of it, or the time is up; what is left."""
        if self._beyond is None:
            return ()
        deadline = time.monotonic() + patience.killed_s
        while (left := self._beyond.left()) and time.monotonic() < deadline:
            self._beyond.kill()
            time.sleep(_POLL_S)
        return left

    def _ask_to_end(self, patience: StopPatience, signals: list[str]) -> None:
        if self._beyond is not None and patience.leader_s > 0 and self._leader.poll() is None:
            signals.append(self._beyond.ask_to_end(self, patience))
            self.wait(patience.group_s)
        if self._leader.poll() is None:
            signals.append("SIGTERM leader")
            self._leader.terminate()
            self.wait(patience.leader_s)
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
            # One of the group that has just ended is no longer in it, but has not left it.
            if not _in_group(process, self.pid) and _runs(process)
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


@contextmanager
def _signals_held() -> Iterator[None]:
    """Lets the program's handlers wait until the block is done.

    What a handler raises while Python forks is lost: Python runs hooks then (``logging`` has some),
    and passes over their exceptions.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no handler runs here
        return
    came: list[int] = []
    handlers = {signum: signal.getsignal(signum) for signum in _SIGNALS}
    held = {signum: handler for signum, handler in handlers.items() if callable(handler)}
    for signum in held:
        signal.signal(signum, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for signum, handler in held.items():
            signal.signal(signum, handler)
        if came:
            signal.raise_signal(came[0])


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
