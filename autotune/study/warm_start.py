"""What a study may start from: an earlier study, a table of hand measurements, known recipes.

All three become a ``WarmStart`` that is kept in the new study, so that it goes on without them.

A table is a CSV file with a header. Columns: searched flags by their names; ``latency_s`` (one
reference turn at C=1, seconds) or ``decode_tok_s`` (tokens per second of one request at C=1);
``throughput_tok_s`` (all requests together, under load); and, where known, ``concurrency`` (how
many requests were in flight in this row), ``accept_length`` and ``max_running_requests``. Rows with
equal flags are one launch. A cell may be empty. Only ratios within the table count, so that any
machine will do.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.ranking import flag_key
from autotune.core.trial import FlagValue, TrialRecord
from autotune.errors import ConfigError, SpaceError, nearest
from autotune.search.warm import WarmStart
from autotune.space import SearchSpace
from autotune.space.rules import TREE_FLAGS
from autotune.study.reading import read_study
from autotune.study.recipes import recipes_for

RECIPES = "recipes"
"""The word that stands for them."""
_DECODE, _LIMIT = "decode_tok_s", "max_running_requests"
_VALUES = (LATENCY, _DECODE, THROUGHPUT, "concurrency", "accept_length", _LIMIT)
_REFERENCE_TOK = 216
_EFFECTIVE = (_LIMIT, *TREE_FLAGS, "mem_fraction_static")
_OF_PHASE = (
    "role", "concurrency", "ttft_s", "output_tok_s", "accept_length", "in_flight_mean",
    "waiting_mean",
)  # fmt: skip
_SPREAD = 0.03
"""Half of the 95 % interval that a hand measurement is taken to have, as a fraction."""


def read_warm_start(text: str, space: SearchSpace, model_path: str) -> WarmStart:
    """From the name of a study, a path that ends in .csv, or the word ``recipes``.

    Raises:
        StudyError: there is no such study.
        ConfigError: the table cannot be read, or nothing in it is of this space.
    """
    if text == RECIPES:
        return _from_recipes(space, model_path)
    if text.lower().endswith(".csv"):
        return _from_table(Path(text), space)
    view = read_study(text)
    records = [_told(r) for r in view.records if r.objectives is not None and r.same_as is None]
    if not records:
        raise ConfigError(f"nothing was measured in study {text!r}: it cannot start another one")
    return _checked(f"{len(records)} launches of study {view.name}", records, space)


def _checked(source: str, records: Sequence[dict[str, Any]], space: SearchSpace) -> WarmStart:
    shared = {name for record in records for name in record["flags"] if name in space.parameters}
    if not shared:
        raise ConfigError(f"{source}: none of the flags of space {space.name!r} is in it")
    return WarmStart(source=source, records=tuple(records))


def _told(record: TrialRecord) -> dict[str, Any]:
    """What another study may learn from a record; the rest is of that server alone."""
    plain = record.to_dict()
    return {
        "status": "complete",
        "role": record.role,
        "flags": plain["flags"],
        "effective": {k: v for k, v in plain["effective"].items() if k in _EFFECTIVE},
        "phases": [{k: p.get(k) for k in _OF_PHASE} for p in plain["phases"]],
        "objectives": plain["objectives"],
    }


# ---- recipes --------------------------------------------------------------------------------


def _from_recipes(space: SearchSpace, model_path: str) -> WarmStart:
    if space.tree is None:
        raise ConfigError(
            f"recipes are draft trees, and space {space.name!r} searches no speculative_num_steps"
        )
    found = recipes_for(model_path)
    trees: tuple[dict[str, FlagValue], ...] = tuple(
        dict(zip(TREE_FLAGS, (r.steps, r.topk, r.draft_tok), strict=True)) for r in found
    )
    told = "; ".join(f"{r.steps}-{r.topk}-{r.draft_tok} ({r.source})" for r in found[:2])
    return WarmStart(source=f"recipes {told}", first=trees)


# ---- a table --------------------------------------------------------------------------------


def _from_table(path: Path, space: SearchSpace) -> WarmStart:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            names = {column: _name(column) for column in reader.fieldnames or ()}
            _check_columns(path, list(names.values()), space)
            rows = [(reader.line_num, {names[k]: v for k, v in row.items() if k in names})
                    for row in reader]  # fmt: skip
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{path} cannot be read as a table: {reason}") from None
    groups: dict[Any, list[dict[str, Any]]] = {}
    for line, row in rows:
        values = {name: _number(path, line, name, row.get(name)) for name in _VALUES}
        flags = _flags(path, line, row, space)
        groups.setdefault(flag_key(flags), []).append({**values, "flags": flags})
    launches = [found for group in groups.values() if (found := _launch(group)) is not None]
    if not launches:
        raise ConfigError(
            f"{path} has no flags with both a value at C=1 ({LATENCY} or {_DECODE}) and a "
            f"{THROUGHPUT} under load"
        )
    return _checked(f"{len(launches)} hand measurements of {path.name}", launches, space)


def _name(column: str | None) -> str:
    return (column or "").strip().lstrip("-").replace("-", "_")


def _check_columns(path: Path, names: Sequence[str], space: SearchSpace) -> None:
    known = (*space.names, *_VALUES)
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{path} has a column {name!r}, which is neither a flag of space {space.name!r} "
                f"nor a value: {nearest(name, known)}",
                hint="times are in seconds (_s), rates in tokens per second (_tok_s)",
            )
    if not set(names) & set(space.names):
        raise ConfigError(f"{path} has no column for a flag, such as {next(iter(space.names))}")
    if LATENCY not in names and _DECODE not in names:
        raise ConfigError(f"{path} has no column {LATENCY} (or {_DECODE}): a value at C=1")
    if THROUGHPUT not in names:
        raise ConfigError(f"{path} has no column {THROUGHPUT}: tokens per second under load")


def _number(path: Path, line: int, name: str, text: str | None) -> float | None:
    if text is None or not text.strip():
        return None
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{path}, line {line}: {name} is {text!r}, not a number above 0")
    return value


def _flags(
    path: Path, line: int, row: Mapping[str, str | None], space: SearchSpace
) -> dict[str, FlagValue]:
    given: dict[str, FlagValue] = {}
    for name in space.names:
        text = (row.get(name) or "").strip()
        if text:
            given[name] = _value(text)
            if isinstance(given[name], str) and _is_number(space, name):
                raise ConfigError(f"{path}, line {line}: {name} is {text!r}, not a number")
    try:
        return space.canonical(given)
    except (SpaceError, ValueError) as error:
        reason = getattr(error, "message", str(error))
        raise ConfigError(f"{path}, line {line}: {reason}") from None


def _is_number(space: SearchSpace, name: str) -> bool:
    known = space.parameters.get(name)
    values = known.values() if known else [space.fixed.get(name, 0)]
    return not any(isinstance(value, bool | str) for value in values)


def _value(text: str) -> FlagValue:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _launch(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The rows of one configuration as a record; None: one of the two values is missing."""
    single = [r for r in rows if r["concurrency"] in (None, 1.0)]
    loaded = [r for r in rows if r["concurrency"] != 1.0 and r[THROUGHPUT]]
    latencies = [r[LATENCY] or (r[_DECODE] and _REFERENCE_TOK / r[_DECODE]) for r in single]
    latency = next((value for value in latencies if value), None)
    if latency is None or not loaded:
        return None
    logs = [math.log(r[THROUGHPUT]) for r in loaded]
    accepted = next((r["accept_length"] for r in rows if r["accept_length"]), None)
    limit = next((r[_LIMIT] for r in rows if r[_LIMIT]), None)
    phases: list[dict[str, Any]] = [
        {"role": "latency", "concurrency": 1, "accept_length": accepted},
        *(
            {"role": "serving", "concurrency": round(r["concurrency"]),
             "output_tok_s": _about(r[THROUGHPUT])}
            for r in loaded if r["concurrency"]
        ),
    ]  # fmt: skip
    return {
        "status": "complete",
        "role": "search",
        "flags": rows[0]["flags"],
        "effective": {} if limit is None else {_LIMIT: limit},
        "phases": phases,
        "objectives": {
            LATENCY: _about(latency), THROUGHPUT: _about(math.exp(sum(logs) / len(logs))),
        },
    }  # fmt: skip


def _about(value: float) -> dict[str, float]:
    return {"value": value, "low": value * (1 - _SPREAD), "high": value * (1 + _SPREAD)}
