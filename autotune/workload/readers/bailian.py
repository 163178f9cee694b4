"""Bailian traces (Alibaba, ``qwen-bailian-usagetraces-anon``): seconds, blocks of 16 tokens, chats.

A chat names its parent; a chain of them is a session. Of two chats with one parent the later one
begins a session of its own. The time of an answer is not recorded: a gap is the time between two
requests.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from autotune.workload.lengths import Recorded, Requests
from autotune.workload.readers.driver import Clock
from autotune.workload.readers.grouping import OpenSessions
from autotune.workload.readers.source import Source
from autotune.workload.readers.units import Count, Time

_BLOCK_TOK = 16


class _Row(msgspec.Struct, gc=False):
    chat_id: int
    parent_chat_id: int
    timestamp: Time
    input_length: Count
    output_length: Count
    hash_ids: list[int] = []


_row = msgspec.json.Decoder(_Row)


class _Chain:
    def __init__(self, row: _Row, start_s: float) -> None:
        self.requests = Requests()
        self._chat_id = row.chat_id
        self._start_s = start_s
        self._at_s = row.timestamp
        self.weight = 0
        self.add(row)

    def add(self, row: _Row) -> None:
        gap_s = round(max(0.0, row.timestamp - self._at_s), 6)
        self.requests.add(
            row.input_length, row.output_length, row.hash_ids, gap_s=gap_s, gap_kind="human"
        )
        self._at_s = row.timestamp
        self.weight += len(row.hash_ids) + 20

    def done(self) -> Recorded:
        return self.requests.session(_BLOCK_TOK, str(self._chat_id), self._start_s)


def bailian(source: Source) -> Iterator[Recorded]:
    """A session per chain of chats, under the id of its first chat."""
    chains: OpenSessions[int, _Chain] = OpenSessions()
    clock = Clock()
    for line, raw in source.records():
        row = source.guarded(line, raw, _row, lambda row, _: row)
        if row is None:
            continue
        start_s = clock.since_first(row.timestamp)
        chain = chains.take(row.parent_chat_id)
        if chain is None:
            chain = _Chain(row, start_s)
        else:
            chain.add(row)
        for done in chains.put(row.chat_id, chain, chain.weight):
            yield done.done()
    for rest in chains.rest():
        yield rest.done()
