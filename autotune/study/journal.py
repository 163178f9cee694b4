"""Optuna's journal file, safe against a writer that dies at any moment."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import IO

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock  # the seam has no public name

from autotune.errors import StudyError


class KernelLock(BaseJournalFileLock):
    """An exclusive ``flock`` on the journal, which the kernel drops when its holder dies.

    Optuna's own locks are files: a writer killed inside one leaves it behind, and with a relative
    path the next writer spins on it for ever (Optuna 5.0.0, ``JournalFileSymlinkLock.acquire``).
    Blocking; not for NFS before version 4.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._file: IO[bytes] | None = None

    def acquire(self) -> bool:
        file = self._journal.open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except BaseException:
            file.close()
            raise
        self._file = file
        return True

    def release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def open_journal(journal: Path) -> JournalStorage:
    """The storage on a journal file, which is made if it does not exist."""
    return JournalStorage(JournalFileBackend(str(journal), lock_obj=KernelLock(journal)))


def drop_unfinished_line(journal: Path) -> None:
    """Cuts off a last line that a kill, a power failure or a full disk left unfinished.

    Optuna passes over such a line when it reads, but appends to it, and then reads nothing more.

    Raises:
        StudyError: the file is no journal at all; it stays as it is.
    """
    if not journal.is_file():
        return
    lock = KernelLock(journal)
    lock.acquire()
    try:
        *before, last = journal.read_bytes().splitlines(keepends=True)[-2:] or [b""]
        if not last or _is_entry(last):
            return
        if not before and not last.startswith(b'{"'):
            raise StudyError(f"{journal} is no journal of Optuna", hint="give another --storage")
        if not before or _is_entry(before[0]):
            os.truncate(journal, journal.stat().st_size - len(last))
    finally:
        lock.release()


def _is_entry(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict) and line.endswith(b"\n")
    except ValueError:
        return False
