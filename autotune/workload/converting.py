"""Writes sessions in our own form: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from autotune.errors import WorkloadError
from autotune.workload.lengths import Corpus, LengthSession, Recorded
from autotune.workload.readers.canonical import line_of


def write_sessions(
    sessions: Iterable[Recorded], target: Path, *, seed: int, limit: int | None, overwrite: bool
) -> int:
    """Writes a line per session; returns how many.

    Args:
        sessions: those without text get it.
        target: appears only once it is complete.
        seed: of the text.
        limit: sessions to write at most.
        overwrite: whether a file that is there may be replaced.

    Raises:
        WorkloadError: the file is there already, its folder is not, or a row is bad.
    """
    if target.exists() and not overwrite:
        raise WorkloadError(
            f"{target} is there already", hint="--force replaces it, -o names another"
        )
    if not target.parent.is_dir():
        raise WorkloadError(f"there is no folder {target.parent}")
    corpus = Corpus(seed)
    n_written = 0
    # One name for every attempt: what a kill leaves is replaced by the next one.
    with (target.parent / f".{target.name}.part").open("wb") as part:
        try:
            for session in islice(sessions, limit):
                whole = corpus.session(session) if isinstance(session, LengthSession) else session
                part.write(line_of(whole))
                n_written += 1
            part.flush()
            os.fsync(part.fileno())
            Path(part.name).chmod(0o644)
            Path(part.name).replace(target)
        except BaseException:
            Path(part.name).unlink(missing_ok=True)
            raise
    return n_written
