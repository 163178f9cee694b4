"""``--events FILE``: what a run does, as JSON lines for agents and CI, flushed line by line."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autotune.errors import (
    AutotuneError,
    Interrupted,
    UsageError,
    interrupt_behind,
    is_disk_full,
)
from autotune.events import Event, Listener, PhaseProgress, TrialStarted, ignore

if TYPE_CHECKING:
    from autotune.cli.event_lines import AnyLine, Stamp
    from autotune.study.campaign import Campaign

STDOUT = "-"
_PROGRESS_EVERY_S = 1.0
_OURS = b'{"event":'
"""How every line begins."""


@contextmanager
def events_to(target: str | None, campaign: Campaign) -> Iterator[Listener]:
    """A listener that writes each event as a line; the first and last line frame the run.

    Lines are appended, so that a run that goes on with a study goes on with the file.

    Args:
        target: a file, or ``-`` for stdout; None: nothing is written.

    Raises:
        UsageError: the file cannot be written, or holds something else.
    """
    if target is None:
        yield ignore
        return
    lines = LineFile(_opened(target), target)
    writer = EventWriter(lines, campaign.store.name)
    try:
        lines.first(_run_started(campaign))
        try:
            yield writer
        except BaseException as error:
            writer.ended(*_outcome(error))
            raise
        writer.ended(0, "")
    finally:
        lines.close()


class LineFile:
    """Whole lines, or nothing: what a full disk or a signal cut off is mended before the next one.

    Args:
        descriptor: open for appending.
        name: of the file, for people.
    """

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self._is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._torn_at: int | None = None
        self._has_complained = False

    def first(self, line: AnyLine) -> None:
        """Writes the first line.

        Raises:
            UsageError: that is not possible, so that no later line would be either.
        """
        try:
            self._append(_encoded(line))
        except OSError as error:
            raise UsageError(f"{_shown(self._name)} cannot be written: {error.strerror}") from None

    def add(self, line: AnyLine) -> None:
        """Writes a line; where that is not possible it is lost, and this is said once."""
        try:
            self._append(_encoded(line))
        except OSError as error:
            if not self._has_complained:
                self._has_complained = True
                with suppress(OSError):
                    click.echo(
                        f"warning: events are lost, as {_shown(self._name)} cannot be written: "
                        f"{error.strerror}; the study goes on",
                        err=True,
                    )

    def close(self) -> None:
        if self._name != STDOUT:
            with suppress(OSError):  # a full disk of a network tells of it only now
                os.close(self._descriptor)

    def _append(self, data: bytes) -> None:
        if self._torn_at is not None:
            if self._is_regular:
                os.ftruncate(self._descriptor, self._torn_at)
            else:
                data = b"\n" + data
        self._torn_at = os.fstat(self._descriptor).st_size
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._torn_at = None


class EventWriter:
    """A listener that knows which trial is running."""

    def __init__(self, lines: LineFile, study: str) -> None:
        self._lines = lines
        self._study = study
        self._trial: int | None = None
        self._last_progress_mono_s = -_PROGRESS_EVERY_S

    def __call__(self, event: Event) -> None:
        from autotune.cli.event_lines import line_of

        if isinstance(event, TrialStarted):
            self._trial = event.number
        if isinstance(event, PhaseProgress) and not self._is_due():
            return
        line = line_of(event, _stamp(self._study), self._trial)
        if line is not None:
            self._lines.add(line)

    def ended(self, exit_code: int, message: str) -> None:
        """The last line."""
        from autotune.cli.event_lines import RunEnded

        stamp = _stamp(self._study)
        self._lines.add(RunEnded(*stamp, exit_code=exit_code, message=message))

    def _is_due(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._last_progress_mono_s < _PROGRESS_EVERY_S:
            return False
        self._last_progress_mono_s = now_s
        return True


# ---- opening --------------------------------------------------------------------------------


def _opened(target: str) -> int:
    if target == STDOUT:
        if sys.stdout is None:
            raise UsageError("--events - needs a stdout, and there is none")
        sys.stdout.flush()
        return sys.stdout.fileno()
    path = Path(target)
    try:
        if path.is_file():
            _make_ready(path)
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from None


def _make_ready(path: Path) -> None:
    """Refuses a file that is not ours, and cuts off a last line that a kill left unfinished."""
    with path.open("rb") as file:
        if not _OURS.startswith(file.read(len(_OURS))):
            raise UsageError(
                f"{path} holds something else than events: it stays as it is",
                hint="give --events the name of a new file",
            )
        whole = _end_of_last_line(file.seek(0, os.SEEK_END), file.fileno())
    if whole < path.stat().st_size:
        os.truncate(path, whole)


def _end_of_last_line(size: int, descriptor: int) -> int:
    """Where the last newline ends; 0: there is none."""
    block = 1 << 16
    while size > 0:
        start = max(0, size - block)
        found = os.pread(descriptor, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size = start
    return 0


def _shown(name: str) -> str:
    return "stdout" if name == STDOUT else name


# ---- lines ----------------------------------------------------------------------------------


def _encoded(line: AnyLine) -> bytes:
    import msgspec

    return msgspec.json.encode(line) + b"\n"


def _stamp(study: str) -> Stamp:
    from autotune.cli.event_lines import SCHEMA

    return SCHEMA, datetime.now(UTC), study


def _run_started(campaign: Campaign) -> AnyLine:
    from autotune import __version__
    from autotune.cli.event_lines import RunStarted

    config = campaign.config
    return RunStarted(
        *_stamp(campaign.store.name),
        autotune=__version__,
        directory=str(campaign.store.directory),
        objective=campaign.objective.name,
        latency_weight=campaign.objective.latency_weight,
        simulated=config.engine == "simulated",
        space=config.space,
        n_configurations=campaign.space.size,
        max_launches=config.trials,
        n_done=campaign.n_done,
        latency_concurrency=config.latency_concurrency,
        serving_concurrency=config.serving_concurrency,
        command=campaign.engine.command.redacted().argv,
    )


def _outcome(error: BaseException) -> tuple[int, str]:
    """The exit code that an error leads to, and what is said of it."""
    if isinstance(error, AutotuneError):
        return error.exit_code, error.message
    interrupt = interrupt_behind(error) if isinstance(error, Interrupted | OSError) else None
    if interrupt is not None or isinstance(error, KeyboardInterrupt):
        code = interrupt.exit_code if interrupt is not None else 130
        return code, "stopped by a signal: the same command goes on from here"
    if isinstance(error, OSError) and is_disk_full(error):
        return 7, "no space is left on the device"
    return 1, f"a bug in autotune: {type(error).__name__}"
