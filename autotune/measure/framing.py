"""Bytes with arrival times to an HTTP answer and its server-sent events.

Everything works on the whole answer at once: its bytes in one piece, beside them where each read
ended. That is several times cheaper than carrying pieces along, and how the bytes were cut cannot
change what is found in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

Read = tuple[float, bytes]
"""(server seconds, bytes as they came out of the socket)."""


class BrokenAnswer(Exception):
    """The answer is no HTTP, or ended before its end."""


@dataclass(frozen=True, slots=True)
class Body:
    """Bytes, and when they came.

    Attributes:
        ends: for each read, how many of the bytes had come by then; never falls.
        times: when each read came (server seconds).
    """

    data: bytes
    ends: Sequence[int]
    times: Sequence[float]

    @classmethod
    def of(cls, reads: Sequence[Read]) -> Body:
        times = [at_s for at_s, _ in reads]
        pieces = [data for _, data in reads]
        return cls(b"".join(pieces), list(accumulate(map(len, pieces))), times)

    def after(self, place: int) -> Body:
        """The bytes from ``place`` on."""
        return Body(self.data[place:], [max(0, end - place) for end in self.ends], self.times)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response: status, headers by lower-case name, and the body without its transfer coding.

    ``complete`` is None where only the end of the connection could tell.
    """

    status: int
    headers: dict[str, str]
    payload: Body
    complete: bool | None


def parse_answer(reads: Sequence[Read]) -> HttpAnswer:
    """Splits raw reads into head and body; undoes chunked transfer coding.

    Raises:
        BrokenAnswer: the head is missing or malformed, or a chunk is.
        ValueError: the length of the body is no number.
    """
    whole = Body.of(reads)
    end = whole.data.find(b"\r\n\r\n")
    if end < 0:
        raise BrokenAnswer("the connection ended before the head of the answer")
    status, headers = _parse_head(whole.data[:end])
    body = whole.after(end + 4)
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return HttpAnswer(status, headers, *_dechunk(body))
    length = headers.get("content-length")
    return HttpAnswer(
        status, headers, body, None if length is None else len(body.data) >= int(length)
    )


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/") or not parts[1].isdigit():
        raise BrokenAnswer(f"not an HTTP answer: {lines[0][:80]!r}")
    pairs = (line.partition(":") for line in lines[1:])
    return int(parts[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _dechunk(raw: Body) -> tuple[Body, bool]:
    """The payload of chunked coding (RFC 9112, 7.1), and whether the closing chunk came."""
    data, raw_ends = raw.data, [*raw.ends, len(raw.data) + 1]  # the last one ends no search
    pieces: list[bytes] = []
    ends: list[int] = []
    n_bytes = place = 0
    raw_end, complete = raw_ends[0], False
    while (line_end := data.find(b"\r\n", place)) >= 0:
        size = _chunk_size(data[place:line_end])
        if size == 0:
            complete = True
            break
        begin = line_end + 2
        piece = data[begin : begin + size]
        place = begin + len(piece)
        while raw_end <= place:
            ends.append(n_bytes + max(0, raw_end - begin))
            raw_end = raw_ends[len(ends)]
        pieces.append(piece)
        n_bytes += len(piece)
        place += 2
    ends += [n_bytes] * (len(raw.ends) - len(ends))
    return Body(b"".join(pieces), ends, raw.times), complete


@lru_cache(maxsize=1024)  # events differ little in length
def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise BrokenAnswer(f"malformed chunk size {digits[:20]!r}")
    return int(digits, 16)


def split_events(body: Body) -> Iterator[Read]:
    """The ``data`` of each server-sent event, at the time its last byte came.

    Lines end with LF, CRLF or CR; comments and other fields are passed over; several ``data``
    lines of one event are joined with LF (WHATWG HTML, 9.2). What is left at the end counts as an
    event although its blank line is missing.
    """
    if b"\r" in body.data:
        body = _with_line_feeds(body)
    ends, times = body.ends, body.times
    parts: list[bytes] = []
    end = read = 0
    lines = body.data.split(b"\n")
    rest = lines.pop()  # what no line feed ends
    for line in lines:
        end += len(line) + 1
        if line:
            if line.startswith(b"data:"):
                parts.append(line[6:] if line.startswith(b"data: ") else line[5:])
        elif parts:
            while ends[read] < end:
                read += 1
            yield times[read], parts[0] if len(parts) == 1 else b"\n".join(parts)
            parts.clear()
    if rest.startswith(b"data:"):
        parts.append(rest[5:].removeprefix(b" "))
    if parts:
        yield times[-1], b"\n".join(parts)


def _with_line_feeds(body: Body) -> Body:
    """The same text with LF alone; a CRLF has come once both of its bytes have."""
    pieces: list[bytes] = []
    ends: list[int] = []
    begin = n_bytes = 0
    for raw_end in body.ends:
        is_split = body.data[raw_end - 1 : raw_end + 1] == b"\r\n" and raw_end > begin
        end = raw_end - is_split
        piece = body.data[begin:end].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        pieces.append(piece)
        n_bytes += len(piece)
        ends.append(n_bytes)
        begin = end
    return Body(b"".join(pieces), ends, body.times)
