"""How often a server threw requests out of its batch, counted in its log while it serves.

``/metrics`` tells only under ``--enable-metrics``, and OpenAI's answers never say it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

# "Decode out of memory happened. #retracted_reqs: 1, ..." (scheduler.py:1311 @0.4.6.post5);
# "KV cache pool is full. Retract requests. #retracted_reqs: 1, ..." (:1926 @0.5.6, :4526 @0.5.23).
_LINE = re.compile(rb"\[\d{4}-\d\d-\d\d [\d:]+([^]]*)\][^\n]*#retracted_reqs: (\d+)")
_REPLICA = re.compile(rb"\bDP\d+")


class RetractionLog:
    """Follows a growing log.

    Args:
        path: of the log; it may not exist yet, and its middle may be left out meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._by_rank: dict[bytes, int] = defaultdict(int)

    def count(self) -> int:
        """Requests thrown out so far. The ranks of one replica do and write the same."""
        for ranks, n in _LINE.findall(self._new_lines()):
            self._by_rank[ranks] += int(n)
        by_replica: dict[bytes, int] = defaultdict(int)
        for ranks, n in self._by_rank.items():
            replica = b"".join(_REPLICA.findall(ranks))
            by_replica[replica] = max(by_replica[replica], n)
        return sum(by_replica.values())

    def _new_lines(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                self._offset = min(self._offset, file.seek(0, 2))
                file.seek(self._offset)
                text, newline, _ = file.read().rpartition(b"\n")
        except OSError:
            return b""
        self._offset += len(text) + len(newline)
        return text
