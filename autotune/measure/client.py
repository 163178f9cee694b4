"""Sends one request and keeps every byte with its arrival time.

The hot path is a protocol class of its own: ``data_received`` stamps and stores, nothing else.
Every request has its own connection, opened before the clock starts, so that neither a connect nor
a stale keep-alive enters a latency.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from autotune.errors import UsageError
from autotune.measure.records import RequestRecord
from autotune.measure.stream import Read, read_record
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
        stall_s: wall seconds without a byte after which a request is given up.
    """

    url: str
    model: str
    api_key: str | None = None
    time_scale: float = 1.0
    context_tok: int | None = None
    stall_s: float = 60.0

    def now_s(self) -> float:
        """Server seconds on a monotonic clock."""
        return time.perf_counter() * self.time_scale


class _Collector(asyncio.Protocol):
    """Stamps and keeps what arrives, until the server closes."""

    def __init__(self, time_scale: float) -> None:
        self.reads: list[Read] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._time_scale = time_scale

    def data_received(self, data: bytes) -> None:
        self.reads.append((time.perf_counter() * self._time_scale, data))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)


async def send_chat(
    endpoint: Endpoint,
    messages: list[Message],
    *,
    max_output_tok: int,
    temperature: float,
    stop: asyncio.Future[None] | None = None,
) -> RequestRecord:
    """One streamed ``/v1/chat/completions`` request. Never raises for what the server does.

    Once ``stop`` is done the request is broken off, and its record is marked as ``cut``.
    """
    body = {
        "model": endpoint.model,
        "messages": messages,
        "max_tokens": max_output_tok,
        "temperature": temperature,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
    }
    return await _exchange(endpoint, "/v1/chat/completions", msgspec.json.encode(body), stop)


async def _exchange(
    endpoint: Endpoint, path: str, body: bytes, stop: asyncio.Future[None] | None
) -> RequestRecord:
    loop = asyncio.get_running_loop()
    host, port, tls, prefix = _address(endpoint.url)
    try:
        async with asyncio.timeout(endpoint.stall_s):
            transport, collector = await loop.create_connection(
                lambda: _Collector(endpoint.time_scale), host, port, ssl=tls
            )
    except OSError as error:
        now = endpoint.now_s()
        why = str(error) or f"no answer for {endpoint.stall_s:g} s"
        return RequestRecord(now, now, (), error=f"cannot connect: {why}")
    try:
        sent_s = endpoint.now_s()
        transport.write(_head(endpoint, host, port, prefix + path, len(body)) + body)
        end = await _until_closed(collector, endpoint, sent_s, stop)
        done_s = endpoint.now_s()
    finally:
        transport.abort()
    record = read_record(collector.reads, sent_s, done_s)
    if end == "silent":
        return replace(record, error=f"no byte for {endpoint.stall_s:g} s")
    return replace(record, error="", cut=True) if end == "stopped" else record


async def _until_closed(
    collector: _Collector, endpoint: Endpoint, sent_s: float, stop: asyncio.Future[None] | None
) -> Literal["closed", "silent", "stopped"]:
    """Waits for the server to close, unless it goes silent or we are told to stop."""
    awaited = {collector.closed} if stop is None else {collector.closed, stop}
    while not collector.closed.done():
        if stop is not None and stop.done():
            return "stopped"
        heard_s = collector.reads[-1][0] if collector.reads else sent_s
        silent_s = (endpoint.now_s() - heard_s) / endpoint.time_scale
        if silent_s >= endpoint.stall_s:
            return "silent"
        await asyncio.wait(
            awaited,
            timeout=endpoint.stall_s - silent_s,
            return_when=asyncio.FIRST_COMPLETED,
        )
    return "closed"


def _head(endpoint: Endpoint, host: str, port: int, path: str, length: int) -> bytes:
    headers: Mapping[str, str] = {
        "Host": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        "Accept": "text/event-stream",
        "Connection": "close",
    }
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
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
