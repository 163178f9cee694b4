"""Traces as CSV tables without text: Azure LLM inference (2023, 2024, 2025) and BurstGPT."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from autotune.workload.lengths import Recorded, Requests
from autotune.workload.readers.complaint import BadRow
from autotune.workload.readers.driver import Clock, each_of_table
from autotune.workload.readers.source import Source
from autotune.workload.readers.units import MAX_TOK

AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURST_GPT = ("Timestamp", "Request tokens", "Response tokens")


def azure(source: Source) -> Iterator[Recorded]:
    """A session of one request per row; time stamps have seven decimals, of which six are read."""
    clock = Clock()

    def session_of(row: Mapping[str, str], line: int) -> Recorded:
        at_s = _moment_s(row["TIMESTAMP"])
        n_in, n_out = _count(row, "ContextTokens"), _count(row, "GeneratedTokens")
        return _single(n_in, n_out, str(line), clock.since_first(at_s))

    return each_of_table(source, AZURE, session_of)


def burst_gpt(source: Source) -> Iterator[Recorded]:
    """A session of one request per row; failed requests (no response tokens) are left out.

    The first hours have a hundredth of the later load (BurstGPT#11): whoever takes a part of the
    file must not take its beginning. Conversations cannot be put together: the session id of a row
    names a user, and a row does not say whether its prompt holds the ones before.
    """
    clock = Clock()

    def session_of(row: Mapping[str, str], line: int) -> Recorded | None:
        at_s = _number(row, "Timestamp")
        n_in, n_out = _count(row, "Request tokens"), _count(row, "Response tokens")
        if n_out == 0:
            source.n_skipped += 1
            return None
        return _single(n_in, n_out, str(line), clock.since_first(at_s))

    return each_of_table(source, BURST_GPT, session_of)


def _single(n_in: int, n_out: int, session_id: str, start_s: float) -> Recorded:
    requests = Requests()
    requests.add(n_in, n_out, ())
    return requests.session(0, session_id, start_s)


def _moment_s(cell: str) -> float:
    date, point, fraction = cell.strip().partition(".")
    digits = fraction[: len(fraction) - len(fraction.lstrip("0123456789"))]
    zone = fraction[len(digits) :]
    decimals = f".{digits[:6].ljust(6, '0')}" if point else ""
    try:
        moment = datetime.fromisoformat(f"{date}{decimals}{zone}")
    except ValueError:
        raise BadRow(
            f"TIMESTAMP must be a time such as 2023-11-16 18:17:03.9799600, not {cell!r}"
        ) from None
    # Only differences matter: a stamp without a zone is taken as UTC, whatever the machine's is.
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _count(row: Mapping[str, str], column: str) -> int:
    number = _number(row, column)
    if not 0 <= number <= MAX_TOK or number != int(number):
        raise BadRow(f"{column} must be a whole number from 0 to {MAX_TOK}, not {row[column]!r}")
    return int(number)


def _number(row: Mapping[str, str], column: str) -> float:
    try:
        number = float(row[column])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadRow(f"{column} must be a number, not {row[column]!r}")
    return number
