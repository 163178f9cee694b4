"""The file formats that are read, and how each is told from the first row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autotune.errors import WorkloadError, nearest
from autotune.workload.lengths import Recorded
from autotune.workload.readers import (
    bailian,
    canonical,
    chat_bodies,
    chat_logs,
    csv_traces,
    mooncake,
    prompt_files,
    tracelab,
    weka,
)
from autotune.workload.readers.scan import beginning
from autotune.workload.readers.source import Source

_HEAD_BYTES = 256 * 1024
Row = Mapping[str, Any]
"""The first row as far as it was looked at; the columns of a CSV file, without values."""


Kind = Literal["json", "table"]
_TABLE: frozenset[Kind] = frozenset({"table"})


@dataclass(frozen=True, slots=True)
class Format:
    """A file format.

    Attributes:
        name: what ``--format`` takes.
        title: for a list of formats.
        read: the sessions of a file, one at a time.
        fits: whether the first row looks like this format.
        kinds: whether files are JSON, CSV tables, or either.
    """

    name: str
    title: str
    read: Callable[[Source], Iterator[Recorded]]
    fits: Callable[[Row], bool]
    kinds: frozenset[Kind] = frozenset({"json"})


def format_named(name: str) -> Format:
    """A format by its name.

    Raises:
        WorkloadError: no format has this name.
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise WorkloadError(f"there is no format {name!r}: {nearest(name, FORMATS)}") from None


def format_of(path: Path) -> Format:
    """The format of a file, told from its first row.

    Raises:
        WorkloadError: no format fits, or several do.
    """
    kind, row = _first_row(path)
    fitting = [form for form in FORMATS.values() if kind in form.kinds and form.fits(row)]
    if len(fitting) == 1:
        return fitting[0]
    hint = f"name it with --format: {', '.join(form.name for form in fitting or FORMATS.values())}"
    has = ", ".join(list(map(repr, row))[:8]) or "nothing that was understood"
    if not fitting:
        raise WorkloadError(f"{path} is in no known format: its first row has {has}", hint=hint)
    raise WorkloadError(f"{path} may be in several formats: its first row has {has}", hint=hint)


def _first_row(path: Path) -> tuple[Kind, Row]:
    head = Source(path).head(_HEAD_BYTES)
    if not head.strip():
        raise WorkloadError(f"{path} is empty")
    text = head.decode(errors="replace").lstrip()
    if text[0] not in "{[":
        columns = text.splitlines()[0].split(",")
        return "table", dict.fromkeys(column.strip().strip('"') for column in columns)
    row = beginning(text)
    while isinstance(row, list):
        row = row[0] if row else None
    return "json", row if isinstance(row, dict) else {}


def _items(row: Row, *keys: str) -> Any:  # noqa: ANN401 (from JSON)
    """The first item of the first of these lists that is there."""
    for key in keys:
        value = row.get(key)
        if isinstance(value, list) and value:
            return value[0]
    return None


def _said(row: Row) -> Row:
    item = _items(row, "conversations", "conversation")
    return item if isinstance(item, dict) else {}


def _turn(row: Row) -> Row:
    item = _items(row, "turns")
    return item if isinstance(item, dict) else {}


_MOONCAKE_TEXT = ("text_input", "messages", "payload")
_TIMED = frozenset({"timestamp", "delay", "session_id", "input_length"})


def _is_mooncake(row: Row) -> bool:
    timed_text = any(key in row for key in _MOONCAKE_TEXT) and not _TIMED.isdisjoint(row)
    return ("input_length" in row or timed_text) and "chat_id" not in row and "turns" not in row


def _is_body(row: Row) -> bool:
    return "messages" in row and _TIMED.isdisjoint(row)


_ALL = (
    Format(
        "sessions",
        "a session per line, as `autotune workload convert` writes them",
        canonical.canonical,
        lambda row: "messages" in _turn(row),
    ),
    Format(
        "openai",
        "chat bodies, one per line (SGLang openai, AIPerf raw_payload)",
        chat_bodies.bodies,
        _is_body,
    ),
    Format(
        "openai-batch",
        "the file for OpenAI's batch API: custom_id and body",
        chat_bodies.batch,
        lambda row: "body" in row,
    ),
    Format(
        "sharegpt",
        "conversations of human and gpt",
        chat_logs.conversations,
        lambda row: "from" in _said(row),
    ),
    Format(
        "custom",
        "SGLang's custom: conversations of content or value",
        chat_logs.conversations,
        lambda row: bool(_said(row)) and "from" not in _said(row),
    ),
    Format(
        "agentic-trace",
        "SGLang's agentic-trace: lists of turns with their new messages",
        chat_logs.agentic_trace,
        lambda row: isinstance(_items(row, "conversations"), list),
    ),
    Format(
        "spec-bench",
        "SPEED-Bench and Spec-Bench: questions in turns",
        chat_logs.spec_bench,
        lambda row: isinstance(_items(row, "turns"), str),
    ),
    Format(
        "guidellm",
        "prompts, as JSON lines or CSV: prompt, or prompt_0, prompt_1, …",
        prompt_files.guidellm,
        lambda row: any(name in row or f"{name}_0" in row for name in prompt_files.PROMPTS),
        frozenset({"json", "table"}),
    ),
    Format(
        "aiperf",
        "AIPerf single_turn and multi_turn",
        prompt_files.aiperf,
        lambda row: any("text" in r or "texts" in r for r in (row, _turn(row))),
    ),
    Format(
        "mooncake",
        "lengths and blocks of 512 tokens, ms; also AIPerf's with text",
        mooncake.mooncake,
        _is_mooncake,
    ),
    Format(
        "bailian",
        "lengths and blocks of 16 tokens, s, chained by parent_chat_id",
        bailian.bailian,
        lambda row: "parent_chat_id" in row,
    ),
    Format(
        "weka",
        "kv-cache-tester: a session per JSON file, or a folder of them",
        weka.weka,
        lambda row: "requests" in row,
    ),
    Format(
        "tracelab",
        "TraceLab: one model call of a coding agent per line",
        tracelab.tracelab,
        lambda row: "input_tokens_total" in row,
    ),
    Format(
        "azure",
        "Azure LLM inference, CSV",
        csv_traces.azure,
        lambda row: all(column in row for column in csv_traces.AZURE),
        _TABLE,
    ),
    Format(
        "burstgpt",
        "BurstGPT, CSV; failed requests are left out",
        csv_traces.burst_gpt,
        lambda row: all(column in row for column in csv_traces.BURST_GPT),
        _TABLE,
    ),
)
FORMATS: Mapping[str, Format] = {form.name: form for form in _ALL}
