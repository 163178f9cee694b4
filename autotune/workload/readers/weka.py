"""Agent sessions of kv-cache-tester (weka): seconds, blocks of 64 tokens, a JSON file per session.

Several sessions may also stand in one file, a line or an array element each. Sub-agents are
sessions of their own: they run beside their parent. Nothing says when a session began.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from autotune.workload.lengths import Recorded, Requests
from autotune.workload.model import GapKind
from autotune.workload.readers.complaint import BadRow, reason_of
from autotune.workload.readers.source import Source
from autotune.workload.readers.units import Count, Positive, Time

_ID_MASK = 2**63 - 1


class _File(msgspec.Struct):
    requests: list[msgspec.Raw]
    id: str = ""
    block_size: Positive = 64
    hash_id_scope: str = "local"


class _Entry(msgspec.Struct):
    type: str = "n"
    agent_id: str = "agent"
    requests: list[msgspec.Raw] = []


class _Request(msgspec.Struct):
    n_in: Count = msgspec.field(name="in")
    n_out: Count = msgspec.field(name="out")
    t: Time = 0.0
    hash_ids: list[int] = []
    input_types: list[str] = []
    api_time: Time | None = None
    think_time: Time | None = None


_file = msgspec.json.Decoder(_File)
_entry = msgspec.json.Decoder(_Entry)
_request = msgspec.json.Decoder(_Request)


def weka(source: Source) -> Iterator[Recorded]:
    """A session per file and one per sub-agent in it."""
    for line, raw in source.documents():
        file = source.guarded(line, raw, _file, lambda file, _: file)
        if file is None:
            continue
        name = file.id or source.path.name
        scope = zlib.crc32(name.encode()) << 31 if file.hash_id_scope != "global" else 0
        reading = _Reading(source, line, raw, file.block_size, scope)
        yield from reading.sessions(file.requests, name)


class _Reading:
    """One file: knows what its block ids mean and where its rows stand."""

    def __init__(self, source: Source, line: int, raw: bytes, block_tok: int, scope: int) -> None:
        self._source = source
        self._line = line
        self._raw = raw
        self._block_tok = block_tok
        self._scope = scope

    def sessions(self, entries: list[msgspec.Raw], name: str) -> Iterator[Recorded]:
        """The session of these entries, then those of its sub-agents."""
        requests = Requests()
        inner: list[tuple[str, list[msgspec.Raw]]] = []
        done_s: float | None = None
        for item in entries:
            entry = self._decoded(item, _entry)
            if entry is None:
                continue
            if entry.type == "subagent":
                inner.append((f"{name}/{entry.agent_id}", entry.requests))
                continue
            row = self._decoded(item, _request)
            if row is not None:
                self._add(requests, row, done_s)
                done_s = row.t + (row.api_time or 0.0)
        if requests:
            yield requests.session(self._block_tok, name, None)
        elif not inner:
            self._source.reject(self._line, BadRow(f"session {name!r} has no request"))
        for inner_name, inner_entries in inner:
            yield from self.sessions(inner_entries, inner_name)

    def _add(self, requests: Requests, row: _Request, done_s: float | None) -> None:
        gap_s = 0.0
        if done_s is not None:
            gap_s = row.think_time if row.think_time is not None else max(0.0, row.t - done_s)
        kind: GapKind = "tool" if "tool_result" in row.input_types else "human"
        # Ids of a file count from 1: without the scope all files would begin with the same text.
        ids = [(self._scope ^ number) & _ID_MASK for number in row.hash_ids]
        requests.add(row.n_in, row.n_out, ids, gap_s=gap_s, gap_kind=kind)

    def _decoded(self, item: msgspec.Raw, decoder: msgspec.json.Decoder[Any]) -> Any:  # noqa: ANN401
        try:
            return decoder.decode(item)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            text = bytes(item)
            before = self._raw[: max(0, self._raw.find(text))]
            self._source.reject(self._line + before.count(b"\n"), reason_of(error, text))
            return None
