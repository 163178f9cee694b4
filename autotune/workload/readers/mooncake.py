"""Mooncake traces: lengths, milliseconds and blocks of 512 tokens; with the fields AIPerf adds.

Source: kvcache-ai/Mooncake, FAST25-release; AIPerf's ``mooncake_trace`` adds ``session_id``,
``delay`` (ms) and three ways to give the text itself. A row is a session of one turn unless it has
a ``session_id``.

The conversation trace has its stamps on a grid of 3 s, up to 28 rows in one of them. Sent like
that, they would be bursts that nobody made: rows of a coarse grid are spread over their cell, at
places that depend on the row numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import Any

import msgspec

from autotune.workload.lengths import Recorded, Requests
from autotune.workload.model import Session, Turn
from autotune.workload.readers.chat_bodies import extra_of, turn_of
from autotune.workload.readers.complaint import BadRow
from autotune.workload.readers.dialogue import MAX_OUTPUT_TOK, check_messages, user
from autotune.workload.readers.grouping import OpenSessions
from autotune.workload.readers.source import Source
from autotune.workload.readers.units import Count, SomeId, Time

_BLOCK_TOK = 512
_LOOK_AT = 1_000
"""Rows from whose stamps the grid is told."""
_COARSE_MS = 1_000
_WORD = 2**64 - 1
_CELL_ROWS = 4_096
"""Rows of one stamp that are spread together."""


class _Row(msgspec.Struct, gc=False):
    timestamp: Time | None = None
    input_length: Count | None = None
    output_length: Count | None = None
    hash_ids: list[int] = []
    session_id: SomeId | None = None
    delay: Time | None = None
    text_input: str | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    payload: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None
    line: int = 0
    number: int = 0
    at_s: float | None = None

    @property
    def has_text(self) -> bool:
        return self.text_input is not None or self.messages is not None or bool(self.payload)


_row = msgspec.json.Decoder(_Row)


def mooncake(source: Source) -> Iterator[Recorded]:
    """A session per row, or per ``session_id``."""
    groups: OpenSessions[SomeId, _Group] = OpenSessions()
    for row in _timed(_rows(source)):
        if row.session_id is None:
            yield _Group(row).done(str(row.number))
            continue
        group = groups.get(row.session_id)
        try:
            if group is None:
                group = _Group(row)
            else:
                group.add(row)
        except BadRow as bad:
            source.reject(row.line, bad)
            continue
        for done in groups.put(row.session_id, group, group.weight):
            yield done.done()
    for rest in groups.rest():
        yield rest.done()


def _rows(source: Source) -> Iterator[_Row]:
    for number, (line, raw) in enumerate(source.records(), start=1):
        row = source.guarded(line, raw, _row, _checked)
        if row is not None:
            row.number = number
            yield row


def _checked(row: _Row, line: int) -> _Row:
    row.line = line
    if row.input_length is None and not row.has_text:
        raise BadRow("there is no 'input_length', and no text either")
    if row.input_length is not None and not row.has_text:
        if row.output_length is None:
            raise BadRow("there is no 'output_length'")
        n_blocks = math.ceil(row.input_length / _BLOCK_TOK)
        if len(row.hash_ids) > n_blocks:
            raise BadRow(
                f"{len(row.hash_ids)} hash_ids for {row.input_length} tokens: blocks of "
                f"{_BLOCK_TOK} tokens make {n_blocks}"
            )
    if row.has_text:
        _turn(row, 0.0)  # says now what is wrong with the text
    return row


def _timed(rows: Iterator[_Row]) -> Iterator[_Row]:
    """The rows with their time in seconds since the first one, spread where the grid is coarse."""
    first = list(islice(rows, _LOOK_AT))
    stamps = [round(row.timestamp) for row in first if row.timestamp is not None]
    if not stamps:
        yield from chain(first, rows)
        return
    began, spread_ms = stamps[0], _grid_ms(stamps)
    for cell in _cells(chain(first, rows), spread_ms > 0):
        places = sorted(_chance(row.number) for row in cell) if spread_ms else [0.0]
        for row, place in zip(cell, places, strict=True):
            if row.timestamp is not None:
                row.at_s = max(0.0, (row.timestamp - began + place * spread_ms) / 1e3)
            yield row


def _chance(number: int) -> float:
    """A number in [0, 1) for a row (splitmix64; a generator per row would take longest of all)."""
    mixed = number * 0x9E3779B97F4A7C15 & _WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    return (mixed ^ mixed >> 27) / 2**64


def _grid_ms(stamps: list[int]) -> int:
    """The smallest step between stamps, where it is coarse and stamps repeat; else 0."""
    distinct = sorted(set(stamps))
    step_ms = min((after - before for before, after in pairwise(distinct)), default=0)
    return step_ms if step_ms >= _COARSE_MS and len(distinct) < len(stamps) else 0


def _cells(rows: Iterable[_Row], together: bool) -> Iterator[list[_Row]]:
    """Neighbouring rows of one stamp; single rows where they are not to be spread."""
    cell: list[_Row] = []
    for row in rows:
        if cell and (not together or row.timestamp != cell[0].timestamp or len(cell) == _CELL_ROWS):
            yield cell
            cell = []
        cell.append(row)
    if cell:
        yield cell


def _turn(row: _Row, gap_s: float) -> Turn:
    cap = row.output_length
    if row.payload:
        turn = turn_of(row.payload)
        return msgspec.structs.replace(turn, gap_s=gap_s, fresh=True)
    messages = (
        check_messages(row.messages) if row.messages is not None else (user(row.text_input or ""),)
    )
    return Turn(
        messages,
        max(1, cap) if cap is not None else MAX_OUTPUT_TOK,
        gap_s=gap_s,
        fresh=row.messages is not None,
        n_input_tok=row.input_length,
        n_output_tok=cap,
    )


class _Group:
    """The rows of one session: with text, or lengths only."""

    def __init__(self, row: _Row) -> None:
        self._first = row
        self._at_s = row.at_s
        self._turns: list[Turn] = []
        self._requests = Requests()
        self.weight = 0
        self.add(row)

    def add(self, row: _Row) -> None:
        if row.has_text != self._first.has_text:
            raise BadRow(f"session {row.session_id!r} has rows with text and rows without")
        gap_s = self._gap_s(row)
        if row.has_text:
            self._turns.append(_turn(row, gap_s))
            self.weight += sum(len(str(m)) for m in self._turns[-1].messages) // 8
        else:
            n_in, n_out = row.input_length or 0, row.output_length or 0
            self._requests.add(n_in, n_out, row.hash_ids, gap_s=gap_s, gap_kind="human")
            self.weight += len(row.hash_ids) + 20

    def _gap_s(self, row: _Row) -> float:
        """The delay, or the time since the row before; the time of its answer is not known."""
        if row is self._first:
            return 0.0
        if row.delay is not None:
            return row.delay / 1e3
        if row.at_s is None or self._at_s is None:
            return 0.0
        gap_s, self._at_s = max(0.0, row.at_s - self._at_s), row.at_s
        return gap_s

    def done(self, name: str = "") -> Recorded:
        first = self._first
        session_id = name or str(first.session_id)
        if not first.has_text:
            return self._requests.session(_BLOCK_TOK, session_id, first.at_s)
        extra = extra_of(first.payload) if first.payload else dict(first.extra or {})
        if first.tools is not None:
            extra["tools"] = first.tools
        return Session(tuple(self._turns), session_id, first.at_s, extra)
