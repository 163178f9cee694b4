"""A workload file, or a folder of them, as one stream of sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from autotune.errors import WorkloadError
from autotune.workload.lengths import Recorded
from autotune.workload.readers.formats import Format, format_named, format_of
from autotune.workload.readers.source import Source


class SessionFile:
    """What a path holds.

    Args:
        path: a file, or a folder of weka files.
        format_name: one of ``FORMATS``; None: told from the first row.
        on_bad: takes each bad row; None: the first one is raised.
        on_progress: takes the bytes that are read so far.

    Raises:
        WorkloadError: there is nothing to read, or its format is not known.
    """

    def __init__(
        self,
        path: Path,
        format_name: str | None = None,
        *,
        on_bad: Callable[[WorkloadError], None] | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        named = format_named(format_name) if format_name is not None else None
        self.path = path
        self._files = _files(path)
        self.format: Format = named or format_of(self._files[0])
        if path.is_dir() and self.format.name != "weka":
            raise WorkloadError(
                f"{path} is a directory: only weka traces are one file per session",
                hint="name one of its files",
            )
        self._on_bad = on_bad
        self._on_progress = on_progress
        self.n_bytes = sum(file.stat().st_size for file in self._files)
        self.n_skipped = 0
        """Rows left out so far because the format says so: failed requests."""

    def __iter__(self) -> Iterator[Recorded]:
        """The sessions, once from the beginning.

        Raises:
            WorkloadError: a row is bad, or no session was found at all.
        """
        self.n_skipped = 0
        n_sessions = n_bad = done_bytes = 0

        def reject(error: WorkloadError) -> None:
            nonlocal n_bad
            n_bad += 1
            if self._on_bad is None:
                raise error
            self._on_bad(error)

        for file in self._files:
            source = Source(file, on_bad=reject, on_progress=self._progress_from(done_bytes))
            for session in self.format.read(source):
                n_sessions += 1
                yield session
            done_bytes += file.stat().st_size
            self.n_skipped += source.n_skipped
        if not n_sessions and not n_bad:
            raise WorkloadError(f"{self.path} holds no session in the format {self.format.name}")

    def _progress_from(self, done_bytes: int) -> Callable[[int], None] | None:
        tell = self._on_progress
        return None if tell is None else lambda n_bytes: tell(done_bytes + n_bytes)


def _files(path: Path) -> list[Path]:
    """The file; of a folder the JSON files in it, sorted by name."""
    if not path.is_dir():
        return [path] if path.exists() else [_missing(path)]
    files = sorted(p for p in path.iterdir() if p.name.endswith((".json", ".json.gz")))
    if not files:
        raise WorkloadError(f"{path} is a directory without JSON files")
    return files


def _missing(path: Path) -> Path:
    Source(path).head(1)  # says what is missing, and what is there
    return path
