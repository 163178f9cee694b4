"""What most readers are made of: a session per row, times since the first one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from autotune.workload.lengths import Recorded
from autotune.workload.readers.complaint import BadRow
from autotune.workload.readers.source import Source

T = TypeVar("T")


def each(
    source: Source,
    decoder: msgspec.json.Decoder[T],
    make: Callable[[T, int], Recorded],
) -> Iterator[Recorded]:
    """A session per record.

    Args:
        source: the file.
        decoder: of one record.
        make: a session of the record and its line; raises ``BadRow``.
    """
    for line, raw in source.records():
        session = source.guarded(line, raw, decoder, make)
        if session is not None:
            yield session


def each_of_table(
    source: Source,
    columns: Sequence[str],
    make: Callable[[Mapping[str, str], int], Recorded | None],
) -> Iterator[Recorded]:
    """A session per row of a CSV file.

    Args:
        source: the file.
        columns: that its header must have.
        make: a session of the row and its line, None to leave it out; raises ``BadRow``.
    """
    for line, row in source.table(columns):
        try:
            session = make(row, line)
        except BadRow as bad:
            source.reject(line, bad)
        else:
            if session is not None:
                yield session


class Clock:
    """Times of a trace, from its first row on."""

    def __init__(self) -> None:
        self._first: float | None = None

    def since_first(self, time: float) -> float:
        """How long after the first row, in the unit of the file; a row out of order is at 0."""
        if self._first is None:
            self._first = time
        return round(max(0.0, time - self._first), 6)
