"""A small HTTP/1.1 server on asyncio: exact control over when a chunk leaves the process.

Only what the simulated server needs: keep-alive, bodies by Content-Length, JSON answers, and
server-sent events with chunked transfer coding. It trusts its clients; it is not for the internet.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import msgspec

_MAX_HEAD = 64 * 1024
_MAX_BODY = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A parsed request; header names are lower-case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


class Reply:
    """The answer to one request: one document, or a stream of events."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.has_begun = False
        self.on_disconnect: Callable[[], None] | None = None

    def document(
        self, body: object, status: int = 200, content_type: str = "application/json"
    ) -> None:
        """Sends a whole answer; ``str`` and ``bytes`` as they are, anything else as JSON."""
        raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else None
        payload = msgspec.json.encode(body) if raw is None else raw
        self._head(status, f"content-type: {content_type}\r\ncontent-length: {len(payload)}")
        self._transport.write(payload)

    def error(self, status: int, message: str) -> None:
        """An error in the shape SGLang gives it."""
        kind = "BadRequestError" if status == 400 else HTTPStatus(status).phrase
        self.document(
            {"object": "error", "message": message, "type": kind, "param": None, "code": status},
            status,
        )

    def start_events(self) -> None:
        self._head(
            200, "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked"
        )

    def event(self, payload: bytes) -> None:
        self._transport.write(b"%x\r\ndata: %s\n\n\r\n" % (len(payload) + 8, payload))

    def end_events(self) -> None:
        self.event(b"[DONE]")
        self._transport.write(b"0\r\n\r\n")

    def _head(self, status: int, headers: str) -> None:
        self.has_begun = True
        phrase = HTTPStatus(status).phrase
        self._transport.write(f"HTTP/1.1 {status} {phrase}\r\n{headers}\r\n\r\n".encode())


Handler = Callable[[HttpRequest, Reply], Awaitable[None]]


class HttpConnection(asyncio.Protocol):
    """One client connection; requests on it are answered in order."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._reply: Reply | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reply is not None and self._reply.on_disconnect is not None:
            self._reply.on_disconnect()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._task is None:
            self._next()

    def _next(self) -> None:
        """Starts the next request once it is here whole."""
        assert self._transport is not None
        try:
            request = _take_request(self._buffer)
        except ValueError as error:
            Reply(self._transport).error(400, str(error))
            self._transport.close()
            return
        if request is None:
            return
        self._reply = Reply(self._transport)
        self._task = asyncio.ensure_future(self._answer(request, self._reply))

    async def _answer(self, request: HttpRequest, reply: Reply) -> None:
        assert self._transport is not None
        try:
            await self._handler(request, reply)
        except Exception as error:
            traceback.print_exc()
            if not reply.has_begun:
                reply.error(500, repr(error))
            self._transport.close()
        self._reply = self._task = None
        if request.headers.get("connection", "").lower() == "close":
            self._transport.close()
        elif not self._transport.is_closing():
            self._next()


def _take_request(buffer: bytearray) -> HttpRequest | None:
    """Removes one whole request from the buffer; None while it is incomplete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > _MAX_HEAD:
            raise ValueError("request head too long")
        return None
    lines = buffer[:end].decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3:
        raise ValueError("malformed request line")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _MAX_BODY:
        raise ValueError("body too long")
    if len(buffer) < end + 4 + length:
        return None
    body = bytes(buffer[end + 4 : end + 4 + length])
    del buffer[: end + 4 + length]
    url = urlsplit(parts[1])
    return HttpRequest(parts[0], url.path, parse_qs(url.query), headers, body)
