"""TraceLab rows (uw-syfi/TraceLab): one row per model call of a coding agent.

No block is named, only how much of a prompt the cache of the provider had. From that the shared
prefix follows: what is kept of the prompt before; and, for the first call of a session, what all
sessions of a provider share. Sessions come from many machines and years, so none has a start.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from autotune.workload.lengths import Recorded, Requests
from autotune.workload.model import GapKind
from autotune.workload.readers.complaint import BadRow
from autotune.workload.readers.grouping import OpenSessions
from autotune.workload.readers.source import Source
from autotune.workload.readers.units import Count, Time

_BLOCK_TOK = 128
"""Fine enough for prompts of 100k tokens; the recordings name no size."""
_ASKED = frozenset({"user_message", "tool_result"})


class _Event(msgspec.Struct):
    event_type: str
    timestamp: datetime | None = None


class _Tool(msgspec.Struct):
    tool_wall_latency_ms: Time | None = None


class _Row(msgspec.Struct):
    session_id: str
    input_tokens_total: Count
    output_tokens: Count
    provider: str = ""
    round_index: Count = 0
    prefix_tokens: Count = 0
    timing_events: list[_Event] = []
    tools: list[_Tool] = []


class _Call(msgspec.Struct, gc=False):
    """What is kept of a row until its session ends."""

    round_index: int
    n_input_tok: int
    n_output_tok: int
    n_prefix_tok: int
    asked_s: float | None
    answered_s: float | None
    by_human: bool
    tool_s: float


_row = msgspec.json.Decoder(_Row)


class _Calls:
    def __init__(self, session_id: str, provider: str) -> None:
        self.session_id = session_id
        self.provider = provider
        self.calls: list[_Call] = []


def tracelab(source: Source) -> Iterator[Recorded]:
    """A session per ``session_id``, its rows in the order of ``round_index``."""
    opened: OpenSessions[str, _Calls] = OpenSessions()
    for line, raw in source.records():
        row = source.guarded(line, raw, _row, _checked)
        if row is None:
            continue
        session = opened.get(row.session_id) or _Calls(row.session_id, row.provider)
        session.calls.append(_call(row))
        for done in opened.put(row.session_id, session, 20 * len(session.calls)):
            yield _session(done)
    for rest in opened.rest():
        yield _session(rest)


def _checked(row: _Row, line: int) -> _Row:
    if row.prefix_tokens > row.input_tokens_total:
        raise BadRow(
            f"prefix_tokens is {row.prefix_tokens}, more than the whole prompt of "
            f"{row.input_tokens_total}"
        )
    return row


def _call(row: _Row) -> _Call:
    asked = [e for e in row.timing_events if e.event_type in _ASKED]
    answered = [e for e in row.timing_events if e.event_type not in _ASKED]
    return _Call(
        row.round_index,
        row.input_tokens_total,
        row.output_tokens,
        row.prefix_tokens,
        _latest_s(asked),
        _latest_s(answered),
        any(e.event_type == "user_message" for e in asked),
        max((tool.tool_wall_latency_ms or 0.0 for tool in row.tools), default=0.0) / 1e3,
    )


def _latest_s(events: Iterable[_Event]) -> float | None:
    return max((e.timestamp.timestamp() for e in events if e.timestamp), default=None)


def _session(session: _Calls) -> Recorded:
    requests = Requests()
    # Tool calls run in parallel, and the next request waits for the slowest.
    before: _Call | None = None
    shared = _scope(session.provider)
    own, n_own = _scope(session.session_id), 0
    for call in sorted(session.calls, key=lambda call: call.round_index):
        n_prefix, n_all = call.n_prefix_tok // _BLOCK_TOK, call.n_input_tok // _BLOCK_TOK
        kept = range(shared, shared + n_prefix) if before is None else requests.before[:n_prefix]
        n_new = n_all - len(kept)
        ids = [*kept, *range(own + n_own, own + n_own + n_new)]
        n_own += n_new
        kind: GapKind = "human" if call.by_human else "tool"
        requests.add(
            call.n_input_tok, call.n_output_tok, ids, gap_s=_gap_s(before, call), gap_kind=kind
        )
        before = call
    return requests.session(_BLOCK_TOK, session.session_id, None)


def _gap_s(before: _Call | None, call: _Call) -> float:
    if before is None:
        return 0.0
    if call.asked_s is None or before.answered_s is None:
        return before.tool_s
    return round(max(0.0, call.asked_s - before.answered_s), 3)


def _scope(name: str) -> int:
    """Where the block ids of this name begin, far from all others."""
    return zlib.crc32(name.encode()) << 31
