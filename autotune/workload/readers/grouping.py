"""Puts rows that stand apart in a file together into sessions, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

HELD = 4_000_000
"""Block ids and requests that unfinished sessions may hold together: some 100 MB at most. Past
that the session that waited longest for a row is taken as finished; should rows of it still come,
they are read as a further session."""
_PER_SESSION = 100
"""What a session weighs besides its ids."""


class OpenSessions(Generic[K, V]):
    """Sessions whose rows are still coming, the one that waits longest first."""

    def __init__(self, held: int = HELD) -> None:
        self._held = held
        self._open: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._weight = 0

    def get(self, key: K) -> V | None:
        found = self._open.get(key)
        return None if found is None else found[0]

    def put(self, key: K, session: V, weight: int) -> Iterator[V]:
        """Holds a session under its key, as the newest; gives those that are finished by that.

        Args:
            key: another session that stands there is finished.
            session: with the new row.
            weight: block ids that it holds by now.
        """
        replaced = self.take(key)
        if replaced is not None and replaced is not session:
            yield replaced
        self._open[key] = session, weight + _PER_SESSION
        self._weight += weight + _PER_SESSION
        while self._weight > self._held and len(self._open) > 1:
            oldest = next(iter(self._open))
            done = self.take(oldest)
            if done is not None:
                yield done

    def take(self, key: K) -> V | None:
        """Removes a session."""
        found = self._open.pop(key, None)
        if found is None:
            return None
        self._weight -= found[1]
        return found[0]

    def rest(self) -> Iterator[V]:
        """What is open at the end of the file."""
        while self._open:
            session, _ = self._open.popitem(last=False)[1]
            yield session
        self._weight = 0
