"""Prompt files of load generators: guidellm (JSON lines, CSV), AIPerf (single and multi turn)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from autotune.workload.lengths import Recorded
from autotune.workload.model import Message, Session, Turn
from autotune.workload.readers.complaint import BadRow
from autotune.workload.readers.dialogue import MAX_OUTPUT_TOK, role_of
from autotune.workload.readers.driver import Clock, each, each_of_table
from autotune.workload.readers.source import Source
from autotune.workload.readers.units import MAX_TOK, Positive, SomeId, Time

PROMPTS = ("prompt", "instruction", "question")
"""Columns that hold a prompt, the first that is there; guidellm's names without the vague ones."""
_PREFIXES = ("prefix", "system_prompt", "system")
_OUTPUTS = ("output_tokens_count", "completion_tokens_count", "output_tokens")
_INPUTS = ("prompt_tokens_count", "input_tokens_count", "prompt_tokens")

_table_row = msgspec.json.Decoder(dict[str, Any])


def guidellm(source: Source) -> Iterator[Recorded]:
    """A session per row: ``prompt``, or ``prompt_0``, ``prompt_1``, … after each other."""
    if source.is_json:
        return each(source, _table_row, _from_columns)
    return each_of_table(source, (), _from_cells)


def _from_cells(row: Mapping[str, str], line: int) -> Session:
    return _from_columns({name: cell for name, cell in row.items() if cell != ""}, line)


def _from_columns(row: Mapping[str, Any], line: int) -> Session:
    opening: list[Message] = []
    prefix = _first(row, _PREFIXES, "")
    if prefix is not None:
        opening.append({"role": "system", "content": _as_text(prefix, "prefix")})
    turns: list[Turn] = []
    ends = ("",) if _first(row, PROMPTS, "") is not None else map("_{}".format, range(len(row)))
    for end in ends:
        prompt = _first(row, PROMPTS, end)
        if prompt is None:
            break
        n_out = _as_count(row, _OUTPUTS, end)
        said = (*opening, {"role": "user", "content": _as_text(prompt, f"prompt{end}")})
        # A count of a row is of its own prompt; of the whole conversation it is known only once.
        n_in = _as_count(row, _INPUTS, end) if not turns and not opening else None
        turns.append(Turn(said, n_out or MAX_OUTPUT_TOK, n_input_tok=n_in, n_output_tok=n_out))
        opening = []
    if not turns:
        raise BadRow("there is no 'prompt' and no 'prompt_0'")
    return Session(tuple(turns), session_id=str(line))


def _first(row: Mapping[str, Any], names: tuple[str, ...], end: str) -> Any:  # noqa: ANN401
    return next((row[name + end] for name in names if row.get(name + end) is not None), None)


def _as_text(value: Any, name: str) -> str:  # noqa: ANN401 (from JSON)
    if not isinstance(value, str):
        raise BadRow(f"{name} must be text, not {value!r:.40}")
    return value


def _as_count(row: Mapping[str, Any], names: tuple[str, ...], end: str) -> int | None:
    value = _first(row, names, end)
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 1 <= number <= MAX_TOK or number != int(number):
        raise BadRow(f"{names[0]}{end} must be a whole number from 1 to {MAX_TOK}, not {value!r}")
    return int(number)


class _Single(msgspec.Struct):
    text: str | None = None
    texts: list[str] = []
    output_length: Positive | None = None
    max_tokens: Positive | None = None
    timestamp: Time | None = None
    delay: Time | None = None
    role: str = "user"
    session_id: SomeId | None = None
    extra: dict[str, Any] = {}
    type: Literal["single_turn", "multi_turn"] | None = None


class _Multi(_Single):
    turns: list[_Single] | None = None


_multi = msgspec.json.Decoder(_Multi)


def aiperf(source: Source) -> Iterator[Recorded]:
    """A session per row: of one turn, or of those under ``turns``. Times are milliseconds."""
    clock = Clock()

    def session_of(row: _Multi, line: int) -> Session:
        rows: list[_Single] = [row] if row.turns is None else list(row.turns)
        if not rows:
            raise BadRow("turns must hold at least one turn")
        turns = tuple(_turn(one, before) for one, before in zip(rows, [None, *rows], strict=False))
        start_s = None
        if rows[0].timestamp is not None:
            start_s = clock.since_first(rows[0].timestamp) / 1e3
        name = row.session_id if row.session_id is not None else line
        return Session(turns, str(name), start_s, row.extra or rows[0].extra)

    return each(source, _multi, session_of)


def _turn(row: _Single, before: _Single | None) -> Turn:
    parts = [row.text] if row.text is not None else row.texts
    if not parts:
        raise BadRow("a turn has neither 'text' nor 'texts'")
    gap_s = (row.delay or 0.0) / 1e3 if before is not None else 0.0
    if before is not None and row.delay is None and row.timestamp and before.timestamp is not None:
        gap_s = max(0.0, (row.timestamp - before.timestamp) / 1e3)
    message = {"role": role_of(row.role), "content": "\n".join(parts)}
    cap = row.output_length or row.max_tokens
    return Turn((message,), cap or MAX_OUTPUT_TOK, gap_s=gap_s, gap_kind="human", n_output_tok=cap)
