"""Every error a user can meet, each with its exit code and the next step.

::

    AutotuneError                        1
    ├── ConfigError                      3   study file, environment, preset
    │   ├── SpaceError                   3   search space file or value
    │   └── WorkloadError                3   workload name or file
    ├── UsageError                       2   command line
    ├── LaunchError                      4   the engine never became ready
    ├── MeasurementError                 5   the numbers are not to be trusted
    ├── NoFeasibleConfiguration          6
    └── StudyError                       7   storage, or a study that does not fit

A failed *trial* is not an error: it is a ``Failure`` in its record (``autotune.core.trial``).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from difflib import get_close_matches


class AutotuneError(Exception):
    """Something the user can act on.

    Args:
        message: one sentence: what is wrong, and where.
        hint: one sentence: what to do next; empty where nothing helps.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(AutotuneError):
    """A setting is missing, unknown or impossible."""

    exit_code = 3


class SpaceError(ConfigError):
    """A search space cannot be read, or holds no legal configuration."""


class WorkloadError(ConfigError):
    """A workload cannot be found or read."""


class UsageError(AutotuneError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class LaunchError(AutotuneError):
    """The engine never became ready, and nothing can be measured without it."""

    exit_code = 4


class MeasurementError(AutotuneError):
    """Measured, but the numbers must not be used."""

    exit_code = 5


class NoFeasibleConfiguration(AutotuneError):
    """The study ended and no configuration meets the constraints."""

    exit_code = 6


class StudyError(AutotuneError):
    """The study storage is missing, busy, damaged, or belongs to another configuration."""

    exit_code = 7


class Interrupted(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP reached the process.

    It derives from ``KeyboardInterrupt`` because asyncio lets only that (and ``SystemExit``)
    through a callback; anything else would be logged and swallowed by the event loop.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    @property
    def exit_code(self) -> int:
        return 128 + self.signum


def interrupt_behind(error: BaseException | None) -> Interrupted | None:
    """The signal that was being told of when a terminal turned out to be gone; None: no signal."""
    while error is not None and not isinstance(error, Interrupted):
        error = error.__context__
    return error


def is_disk_full(error: OSError) -> bool:
    """Whether a write failed for want of space."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def nearest(word: str, known: Iterable[str]) -> str:
    """``"did you mean X?"`` for the nearest known word, or the list of all of them."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else "known: " + ", ".join(names)
