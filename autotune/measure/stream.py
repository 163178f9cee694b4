"""Bytes with arrival times to a ``RequestRecord``.

Pure functions, run after the request has ended: nothing here stands in the timed path. Tokens come
from usage, from ``meta_info`` or, where a server tells neither per event, from the final usage
spread over the events by the length of their text. The number of events is never a number of
tokens: under speculation one event carries several.
"""

from __future__ import annotations

from collections.abc import Sequence

from autotune.measure.chunks import Tally
from autotune.measure.framing import BrokenAnswer, HttpAnswer, Read, parse_answer, split_events
from autotune.measure.records import RequestRecord

__all__ = ["BrokenAnswer", "Read", "parse_answer", "read_record"]


def read_record(reads: Sequence[Read], sent_s: float, done_s: float) -> RequestRecord:
    """The record of one request from everything the socket gave.

    Never raises: a broken answer is a record with an ``error``.
    """
    try:
        answer = parse_answer(reads)
    except (BrokenAnswer, ValueError) as error:
        return RequestRecord(sent_s, done_s, (), error=str(error))
    tally = _tally(answer)
    return RequestRecord(
        sent_s=sent_s,
        done_s=done_s,
        arrivals=tally.arrivals,
        n_prompt_tok=tally.n_prompt_tok,
        n_verify=tally.n_verify,
        n_cached_tok=tally.n_cached_tok,
        finish_reason=tally.finish_reason,
        text=tally.text,
        error=_why_not(answer, tally),
        accept_histogram=tally.accept_histogram,
        n_retractions=tally.n_retractions,
        queue_s=tally.queue_s,
        aborted=tally.aborted,
        uncounted=tally.uncounted,
    )


def _tally(answer: HttpAnswer) -> Tally:
    tally, body = Tally(), answer.payload
    if "event-stream" not in answer.headers.get("content-type", ""):
        if body.data and answer.complete is not False:
            tally.read(body.times[-1], body.data)
        return tally
    for at_s, data in split_events(body):
        if data == b"[DONE]":
            tally.ended = True
            break
        if data:
            tally.read(at_s, data)
    return tally


def _why_not(answer: HttpAnswer, tally: Tally) -> str:
    """Why this answer does not count; empty where it does."""
    if answer.status != 200:
        reason = tally.error or answer.payload.data[:200].decode(errors="replace").strip()
        return f"HTTP {answer.status}: {reason}" if reason else f"HTTP {answer.status}"
    if tally.error:
        return tally.error
    unframed_end = answer.complete is None and tally.finish_reason
    if not (tally.ended or answer.complete or unframed_end):
        return "the stream broke off"
    if tally.unreadable:
        return f"the server sent something unreadable: {tally.unreadable[:80]!r}"
    if tally.aborted:
        return "the server aborted the request"
    return "" if tally.arrivals else "the answer holds no tokens"
