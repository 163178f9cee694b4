"""Sends one request and keeps every byte with its arrival time.

The hot path is a protocol class of its own, which stamps and stores, nothing else.
Every request has its own connection, opened before the clock starts, so that neither a connect nor
a stale keep-alive enters a latency.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from autotune.errors import UsageError
from autotune.measure.prompt import Api, request_of
from autotune.measure.records import SILENT, RequestRecord
from autotune.measure.stream import BrokenAnswer, Read, parse_answer, read_record
from autotune.workload.model import Message


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where requests go.

    Attributes:
        url: base address, ``http://host:port`` with an optional path prefix.
        model: name sent in the request.
        api_key: bearer token; never logged or stored.
        time_scale: server seconds per wall second; 1.0 on hardware.
        context_tok: tokens that prompt and answer may have together; None: unknown.
        stall_s: wall seconds without a byte, of this or any other answer, after which a request is
            given up.
        api: which of the server's interfaces takes the requests.
    """

    url: str
    model: str
    api_key: str | None = None
    time_scale: float = 1.0
    context_tok: int | None = None
    stall_s: float = 60.0
    api: Api = "chat"

    def now_s(self) -> float:
        """Server seconds on a monotonic clock."""
        return time.perf_counter() * self.time_scale


_ROOM_BYTES = 64 * 1024
"""Room for one read. A plain protocol lets asyncio ask for 256 KiB each time, which costs more than
all the rest of a read."""


class Pulse:
    """When the last byte of any answer came: one request may wait long, a server may not hang."""

    __slots__ = ("heard_s",)

    def __init__(self) -> None:
        self.heard_s = 0.0


class _Collector(asyncio.BufferedProtocol):
    """Stamps and keeps what arrives, until the server closes."""

    def __init__(self, time_scale: float, pulse: Pulse) -> None:
        self.pulse = pulse
        self.reads: list[Read] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._time_scale = time_scale
        self._room = memoryview(bytearray(_ROOM_BYTES))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.pulse.heard_s = now_s = time.perf_counter() * self._time_scale
        self.reads.append((now_s, bytes(self._room[:nbytes])))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


class Flight:
    """One streamed request: ``fly`` sends it once, ``so_far`` looks at it meanwhile.

    Args:
        session: number of the session it belongs to.
        due_s: when it should be sent, in server seconds; None: as soon as it can be.
        pulse: shared by the requests of a phase; None: one of its own.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        messages: Sequence[Message],
        *,
        max_output_tok: int,
        temperature: float,
        extra: Mapping[str, Any] | None = None,
        session: int = 0,
        due_s: float | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self._pulse = pulse or Pulse()
        self._endpoint, self._session, self._due_s = endpoint, session, due_s
        self._path, self._body = request_of(
            endpoint.api,
            endpoint.model,
            messages,
            max_output_tok=max_output_tok,
            temperature=temperature,
            extra=extra or {},
        )
        self._reads: list[Read] = []
        self._sent_s = endpoint.now_s()

    async def fly(self, stop: asyncio.Future[None] | None = None) -> RequestRecord:
        """Sends it and waits for the whole answer. Never raises for what the server does.

        Once ``stop`` is done the request is broken off, and its record is marked as ``cut``.
        """
        endpoint = self._endpoint
        host, port, _, prefix = _address(endpoint.url)
        head = _head(endpoint, "POST", host, port, prefix + self._path, len(self._body))
        try:
            transport, collector = await _connect(endpoint, self._pulse)
        except OSError as error:
            now = endpoint.now_s()
            why = str(error) or f"no answer for {endpoint.stall_s:g} s"
            return self._marked(RequestRecord(now, now, (), error=f"cannot connect: {why}"))
        try:
            self._reads = collector.reads
            self._sent_s = endpoint.now_s()
            transport.write(head + self._body)
            end = await _until_closed(collector, endpoint, self._sent_s, stop)
            done_s = endpoint.now_s()
        finally:
            transport.abort()
        record = self._marked(read_record(collector.reads, self._sent_s, done_s))
        if end == "silent":
            return replace(record, error=f"{SILENT} {endpoint.stall_s:g} s")
        return replace(record, error="", cut=True) if end == "stopped" else record

    def so_far(self) -> RequestRecord:
        """What has come until now, as the record of a request that is broken off here."""
        record = read_record(tuple(self._reads), self._sent_s, self._endpoint.now_s())
        return replace(self._marked(record), error="", cut=True)

    def _marked(self, record: RequestRecord) -> RequestRecord:
        return replace(record, session=self._session, due_s=self._due_s)


async def fetch(endpoint: Endpoint, path: str) -> bytes | None:
    """The body of a GET answered with 200; None for anything else. For small documents.

    On the same event loop and with the same sockets as the load, so that a look at the server costs
    the measurement next to nothing.
    """
    host, port, _, prefix = _address(endpoint.url)
    try:
        transport, collector = await _connect(endpoint, Pulse())
    except OSError:
        return None
    try:
        sent_s = endpoint.now_s()
        transport.write(_head(endpoint, "GET", host, port, prefix + path, 0))
        await _until_closed(collector, endpoint, sent_s, None)
        answer = parse_answer(collector.reads)
    except BrokenAnswer:
        return None
    finally:
        transport.abort()
    return answer.payload.data if answer.status == 200 else None


async def _connect(endpoint: Endpoint, pulse: Pulse) -> tuple[asyncio.Transport, _Collector]:
    """A new connection.

    Raises:
        OSError: refused, or not taken within the stall time.
    """
    host, port, tls, _ = _address(endpoint.url)
    async with asyncio.timeout(endpoint.stall_s):
        return await asyncio.get_running_loop().create_connection(
            lambda: _Collector(endpoint.time_scale, pulse), host, port, ssl=tls
        )


async def _until_closed(
    collector: _Collector, endpoint: Endpoint, sent_s: float, stop: asyncio.Future[None] | None
) -> Literal["closed", "silent", "stopped"]:
    """Waits for the server to close, unless it goes silent or we are told to stop."""
    awaited = {collector.closed} if stop is None else {collector.closed, stop}
    while not collector.closed.done():
        if stop is not None and stop.done():
            return "stopped"
        heard_s = max(sent_s, collector.pulse.heard_s)
        silent_s = (endpoint.now_s() - heard_s) / endpoint.time_scale
        if silent_s >= endpoint.stall_s:
            return "silent"
        await asyncio.wait(
            awaited,
            timeout=endpoint.stall_s - silent_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
    return "closed"


def _head(endpoint: Endpoint, method: str, host: str, port: int, path: str, length: int) -> bytes:
    headers: Mapping[str, str] = {
        "Host": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        "Accept": "text/event-stream, */*",
        "Connection": "close",
    }
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if endpoint.api_key:
        lines.append(f"Authorization: Bearer {endpoint.api_key}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@lru_cache(maxsize=8)  # a TLS context takes longer to make than a token
def _address(url: str) -> tuple[str, int, ssl.SSLContext | None, str]:
    """Host, port, TLS context and path prefix of a base address.

    Raises:
        UsageError: not an http or https address.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise UsageError(f"{url!r} is not an http:// or https:// address")
    tls = ssl.create_default_context() if parts.scheme == "https" else None
    return parts.hostname, port or (443 if tls else 80), tls, parts.path.rstrip("/")
