"""Bytes with arrival times to a ``RequestRecord``: HTTP framing, server-sent events, tokens.

Pure functions, run after the request has ended: nothing here stands in the timed path. Tokens come
from usage, from ``meta_info`` or, where a server tells neither per event, from the final usage
spread over the events by the length of their text. The number of events is never a number of
tokens: under speculation one event carries several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from autotune.measure.records import RequestRecord

Read = tuple[float, bytes]
"""(server seconds, bytes as they came out of the socket)."""


class BrokenAnswer(Exception):
    """The answer is no HTTP, or ended before its end."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response: status, and the body in the pieces it came in.

    ``complete`` is None where only the end of the connection could tell.
    """

    status: int
    headers: dict[str, str]
    body: tuple[Read, ...]
    complete: bool | None


def parse_answer(reads: Sequence[Read]) -> HttpAnswer:
    """Splits raw reads into head and body; undoes chunked transfer coding.

    Raises:
        BrokenAnswer: the head is missing or malformed.
    """
    buffer = bytearray()
    for place, (at_s, data) in enumerate(reads):
        buffer += data
        end = buffer.find(b"\r\n\r\n")
        if end >= 0:
            rest = [(at_s, bytes(buffer[end + 4 :])), *reads[place + 1 :]]
            status, headers = _parse_head(bytes(buffer[:end]))
            return _parse_body(status, headers, rest)
    raise BrokenAnswer("the connection ended before the head of the answer")


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/") or not parts[1].isdigit():
        raise BrokenAnswer(f"not an HTTP answer: {lines[0][:80]!r}")
    pairs = (line.partition(":") for line in lines[1:])
    return int(parts[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _parse_body(status: int, headers: dict[str, str], reads: Iterable[Read]) -> HttpAnswer:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body, complete = _dechunk(reads)
        return HttpAnswer(status, headers, tuple(body), complete)
    body = [(at_s, data) for at_s, data in reads if data]
    length = headers.get("content-length")
    whole = None if length is None else sum(len(data) for _, data in body) >= int(length)
    return HttpAnswer(status, headers, tuple(body), whole)


def _dechunk(reads: Iterable[Read]) -> tuple[list[Read], bool]:
    """The payload of chunked coding, and whether the closing chunk came."""
    body: list[Read] = []
    buffer = bytearray()
    left = -1  # bytes left of the current chunk with its closing CRLF; -1: a size line is due
    for at_s, data in reads:
        buffer += data
        while True:
            if left < 0:
                end = buffer.find(b"\r\n")
                if end < 0:
                    break
                size = _chunk_size(bytes(buffer[:end]))
                del buffer[: end + 2]
                if size == 0:
                    return body, True
                left = size + 2
            payload = bytes(buffer[: min(len(buffer), max(0, left - 2))])
            if payload:
                body.append((at_s, payload))
            taken = len(payload)
            if len(buffer) >= left:
                del buffer[:left]
                left = -1
            else:
                del buffer[:taken]
                left -= taken
                break
    return body, False


def _chunk_size(line: bytes) -> int:
    digits = line.split(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise BrokenAnswer(f"malformed chunk size {digits[:20]!r}")
    return int(digits, 16)


def split_events(body: Iterable[Read]) -> list[Read]:
    """The ``data`` of each server-sent event, at the time its last byte came.

    Lines end with LF, CRLF or CR; comments and other fields are passed over; several ``data``
    lines of one event are joined with LF (WHATWG HTML, 9.2).
    """
    events: list[Read] = []
    data_lines: list[bytes] = []
    buffer = bytearray()
    last_s = 0.0
    for at_s, data in body:
        last_s = at_s
        buffer += data
        end = _last_line_end(buffer)
        if end == 0:
            continue
        complete = bytes(buffer[:end])
        del buffer[:end]
        for line in complete.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]:
            _take_line(line, data_lines, events, at_s)
    if buffer:
        _take_line(bytes(buffer).rstrip(b"\r"), data_lines, events, last_s)
    if data_lines:
        events.append((last_s, b"\n".join(data_lines)))
    return events


def _last_line_end(buffer: bytearray) -> int:
    """Length of the whole lines; a final CR waits, for it may be half of a CRLF."""
    newline = buffer.rfind(b"\n")
    carriage = buffer.rfind(b"\r", 0, len(buffer) - 1)
    return max(newline, carriage) + 1


def _take_line(line: bytes, data_lines: list[bytes], events: list[Read], at_s: float) -> None:
    if not line:
        if data_lines:
            events.append((at_s, b"\n".join(data_lines)))
            data_lines.clear()
    elif line.startswith(b"data:"):
        data_lines.append(line[5:].removeprefix(b" "))


@dataclass(slots=True)
class _Tally:
    """What the events of one answer add up to."""

    counted: list[tuple[float, int]] = field(default_factory=list)
    texts: list[tuple[float, str]] = field(default_factory=list)
    n_total_tok: int = 0
    n_prompt_tok: int = 0
    n_verify: int = 0
    n_cached_tok: int | None = None
    finish_reason: str = ""
    error: str = ""
    unreadable: bytes = b""
    ended: bool = False

    def read(self, at_s: float, data: bytes) -> None:
        """One JSON document. What is none, or has a shape no server gives it, is remembered."""
        try:
            event = msgspec.json.decode(data)
            if isinstance(event, dict):
                self._take(at_s, event)
        except (ValueError, TypeError, AttributeError):
            self.unreadable = self.unreadable or data

    def _take(self, at_s: float, event: dict[str, Any]) -> None:
        if event.get("error") or event.get("object") == "error":
            self.error = _error_text(event)
        elif "meta_info" in event:
            self._take_generate(at_s, event)
        else:
            self._take_openai(at_s, event)

    def _take_generate(self, at_s: float, event: dict[str, Any]) -> None:
        meta = event["meta_info"]
        self._count(at_s, int(meta.get("completion_tokens") or 0))
        text = str(event.get("text") or "")
        said = "".join(t for _, t in self.texts)
        self.texts.append((at_s, text.removeprefix(said)))  # cumulative, unless told otherwise
        self.n_prompt_tok = int(meta.get("prompt_tokens") or 0)
        self.n_cached_tok = meta.get("cached_tokens", self.n_cached_tok)
        self.n_verify = int(meta.get("spec_verify_ct") or self.n_verify)
        reason = meta.get("finish_reason")
        if reason:
            self.finish_reason = str(reason.get("type") if isinstance(reason, dict) else reason)

    def _take_openai(self, at_s: float, event: dict[str, Any]) -> None:
        for choice in event.get("choices") or ():
            text = _delta_text(choice)
            if text:
                self.texts.append((at_s, text))
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
        usage = event.get("usage")
        if usage:
            self._count(at_s, int(usage.get("completion_tokens") or 0))
            self.n_prompt_tok = int(usage.get("prompt_tokens") or 0)
            details = usage.get("prompt_tokens_details") or {}
            self.n_cached_tok = details.get("cached_tokens", self.n_cached_tok)
        extra = (event.get("sglext") or {}).get("spec_tokens_details") or {}
        self.n_verify = int(extra.get("spec_verify_ct") or self.n_verify)

    def _count(self, at_s: float, so_far: int) -> None:
        if so_far > self.n_total_tok:
            self.n_total_tok = so_far
            self.counted.append((at_s, so_far))

    def arrivals(self) -> tuple[tuple[float, int], ...]:
        """Token counts over time; spread by text length where only a total is known."""
        if len(self.counted) > 1 or len(self.texts) <= 1:
            return tuple(self.counted)
        total_chars = sum(len(text) for _, text in self.texts) or 1
        spread, said = [], 0
        for at_s, text in self.texts:
            said += len(text)
            spread.append((at_s, max(1, round(self.n_total_tok * said / total_chars))))
        return tuple(spread) if self.n_total_tok else ()


def _delta_text(choice: dict[str, Any]) -> str:
    """Visible text, reasoning and tool-call arguments all are tokens."""
    delta = choice.get("delta") or choice.get("message") or {}
    parts = [choice.get("text"), delta.get("reasoning_content"), delta.get("content")]
    parts += [(c.get("function") or {}).get("arguments") for c in delta.get("tool_calls") or ()]
    return "".join(part for part in parts if part)


def _error_text(event: dict[str, Any]) -> str:
    error = event.get("error", event)
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or "the server reported an error in the stream")


def read_record(reads: Sequence[Read], sent_s: float, done_s: float) -> RequestRecord:
    """The record of one request from everything the socket gave.

    Never raises: a broken answer is a record with an ``error``.
    """
    try:
        answer = parse_answer(reads)
        tally = _tally(answer)
    except (BrokenAnswer, ValueError) as error:
        return RequestRecord(sent_s, done_s, (), error=str(error))
    return RequestRecord(
        sent_s=sent_s,
        done_s=done_s,
        arrivals=tally.arrivals(),
        n_prompt_tok=tally.n_prompt_tok,
        n_verify=tally.n_verify,
        n_cached_tok=tally.n_cached_tok,
        finish_reason=tally.finish_reason,
        text="".join(text for _, text in tally.texts),
        error=_why_not(answer, tally),
    )


def _why_not(answer: HttpAnswer, tally: _Tally) -> str:
    """Why this answer does not count; empty where it does."""
    if answer.status != 200:
        reason = tally.error or _body_text(answer)
        return f"HTTP {answer.status}: {reason}" if reason else f"HTTP {answer.status}"
    if tally.error:
        return tally.error
    unframed_end = answer.complete is None and tally.finish_reason
    if not (tally.ended or answer.complete or unframed_end):
        return "the stream broke off"
    if tally.unreadable:
        return f"the server sent something unreadable: {tally.unreadable[:80]!r}"
    if tally.finish_reason == "abort":
        return "the server aborted the request"
    return "" if tally.n_total_tok else "the answer holds no tokens"


def _tally(answer: HttpAnswer) -> _Tally:
    tally = _Tally()
    if "event-stream" not in answer.headers.get("content-type", ""):
        if answer.body and answer.complete is not False:
            tally.read(answer.body[-1][0], _joined(answer))
        return tally
    for at_s, data in split_events(answer.body):
        if data == b"[DONE]":
            tally.ended = True
            break
        tally.read(at_s, data)
    return tally


def _joined(answer: HttpAnswer) -> bytes:
    return b"".join(data for _, data in answer.body)


def _body_text(answer: HttpAnswer) -> str:
    return _joined(answer)[:200].decode(errors="replace").strip()
