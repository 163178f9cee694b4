"""Clients that play the same load, each in a process of its own, and tell the CPU time it took.

Every one of them keeps what a benchmark needs of each event: its time of arrival and the tokens so
far. Ours reads the answers after they have ended; the others cannot know their counts otherwise
than by reading each event as it comes.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import select
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import msgspec

from autotune.measure.client import Endpoint, Flight
from autotune.measure.records import RequestRecord
from autotune.measure.stream import Read, read_record
from benchmarks.load import Load, body_of, extra_of, messages_of
from benchmarks.output import ROOT
from benchmarks.script import Script

Arrivals = list[tuple[float, int]]
"""``(time, tokens so far)`` of each event that told a count."""
One = Callable[[Script], Awaitable[int]]
"""Plays one request; the number of its events that brought tokens."""
_HEADERS = {"Content-Type": "application/json"}


class Cost(msgspec.Struct, frozen=True):
    """CPU time of one client for one load.

    Attributes:
        n_events: events that brought tokens.
        all_s: CPU time from the first request to the last record.
        timed_s: the part of it that stood between the socket and a stamp.
    """

    n_events: int
    wall_s: float
    all_s: float
    timed_s: float

    @property
    def all_us(self) -> float:
        return self.all_s / self.n_events * 1e6

    @property
    def timed_us(self) -> float:
        return self.timed_s / self.n_events * 1e6


async def _floor(url: str, load: Load, n_requests: int) -> Cost:
    """Takes the bytes and drops them, without an event loop: what waking up and reading cost on
    this machine, whatever the client does with the bytes.
    """
    parts = urlsplit(url)
    scripts, room = load.scripts(n_requests), memoryview(bytearray(65536))
    streams: dict[int, socket.socket] = {}
    began_cpu_s, began_s = time.process_time(), time.perf_counter()
    with select.epoll() as waiter:

        def begin() -> None:
            if (script := next(scripts, None)) is not None:
                path, body = body_of(script)
                stream = socket.create_connection((parts.hostname or "", parts.port or 80))
                stream.sendall(
                    f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                )
                stream.sendall(body)
                streams[stream.fileno()] = stream
                waiter.register(stream.fileno(), select.EPOLLIN)

        for _ in range(load.concurrency):
            begin()
        while streams:
            for number, _ in waiter.poll():
                if not streams[number].recv_into(room):
                    streams.pop(number).close()
                    begin()
    all_s, wall_s = time.process_time() - began_cpu_s, time.perf_counter() - began_s
    return Cost(_n_events(load, n_requests), wall_s, all_s, all_s)


async def _autotune(url: str, load: Load, n_requests: int) -> Cost:
    endpoint = Endpoint(url, "scripted")
    reading_s = 0.0

    def timed_read(reads: list[Read], sent_s: float, done_s: float) -> RequestRecord:
        nonlocal reading_s
        began_s = time.process_time()
        record = read_record(reads, sent_s, done_s)
        reading_s += time.process_time() - began_s
        return record

    async def one(script: Script) -> int:
        record = await Flight(
            endpoint,
            messages_of(script.number),
            max_output_tok=8192,
            temperature=0.7,
            extra=extra_of(script),
        ).fly()
        assert record.ok, record.error
        return len(record.arrivals)

    with patch("autotune.measure.client.read_record", timed_read):
        cost = await play(load, n_requests, one)
    return msgspec.structs.replace(cost, timed_s=cost.all_s - reading_s)


async def _aiohttp_lines(url: str, load: Load, n_requests: int) -> Cost:
    """The loop of ``sglang.bench_serving``: lines of the body, each stripped, matched, decoded."""
    import aiohttp

    async def one(script: Script) -> int:
        arrivals: Arrivals = []
        path, body = body_of(script)
        async with session.post(url + path, data=body, headers=_HEADERS) as response:
            async for line in response.content:
                line = line.strip()
                if line.startswith(b"data:"):
                    _take_line(line.decode(), arrivals)
        return _n_counted(arrivals)

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        return await play(load, n_requests, one)


async def _aiohttp_chunks(url: str, load: Load, n_requests: int) -> Cost:
    """The cheapest way with aiohttp: whatever came, cut into events, read by msgspec."""
    import aiohttp

    async def one(script: Script) -> int:
        path, body = body_of(script)
        cutter = _Cutter()
        async with session.post(url + path, data=body, headers=_HEADERS) as response:
            async for data in response.content.iter_any():
                cutter.take(data)
        return _n_counted(cutter.arrivals)

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        return await play(load, n_requests, one)


async def _httpx_lines(url: str, load: Load, n_requests: int) -> Cost:
    """What most people write: ``aiter_lines`` and ``json.loads``."""
    import httpx

    async def one(script: Script) -> int:
        arrivals: Arrivals = []
        path, body = body_of(script)
        async with client.stream("POST", url + path, content=body, headers=_HEADERS) as response:
            async for line in response.aiter_lines():
                if line.startswith("data:"):
                    _take_line(line, arrivals)
        return _n_counted(arrivals)

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as client:
        return await play(load, n_requests, one)


async def _httpx_chunks(url: str, load: Load, n_requests: int) -> Cost:
    """The cheapest way with httpx: raw pieces, cut into events, read by msgspec."""
    import httpx

    async def one(script: Script) -> int:
        path, body = body_of(script)
        cutter = _Cutter()
        async with client.stream("POST", url + path, content=body, headers=_HEADERS) as response:
            async for data in response.aiter_raw():
                cutter.take(data)
        return _n_counted(cutter.arrivals)

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as client:
        return await play(load, n_requests, one)


def _take_line(line: str, arrivals: Arrivals) -> None:
    text = line[5:].strip()
    if text != "[DONE]":
        _count(json.loads(text), time.perf_counter(), arrivals)


class _Cutter:
    """Cuts a byte stream into events."""

    def __init__(self) -> None:
        self.arrivals: Arrivals = []
        self._rest = b""

    def take(self, data: bytes) -> None:
        now_s = time.perf_counter()
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            if event != b"data: [DONE]":
                _count(msgspec.json.decode(event[6:]), now_s, self.arrivals)


def _count(event: dict[str, Any], now_s: float, arrivals: Arrivals) -> None:
    arrivals.append((now_s, event["usage"]["completion_tokens"]))


def _n_counted(arrivals: Arrivals) -> int:
    """Events whose count grew: the closing ones bring nothing."""
    return len({so_far for _, so_far in arrivals})


async def play(load: Load, n_requests: int, one: One) -> Cost:
    """Plays all requests, ``concurrency`` at a time."""
    scripts = load.scripts(n_requests)
    began_cpu_s, began_s = time.process_time(), time.perf_counter()
    n_events = sum(await asyncio.gather(*(_work(scripts, one) for _ in range(load.concurrency))))
    all_s, wall_s = time.process_time() - began_cpu_s, time.perf_counter() - began_s
    assert n_events == _n_events(load, n_requests)
    return Cost(n_events, wall_s, all_s, all_s)


def _n_events(load: Load, n_requests: int) -> int:
    return sum(script.n_events for script in load.scripts(n_requests))


async def _work(scripts: Iterator[Script], one: One) -> int:
    n_events = 0
    for script in scripts:
        n_events += await one(script)
    return n_events


@dataclass(frozen=True, slots=True)
class Client:
    """A client by its name in the tables.

    Attributes:
        needs: modules it needs beside those of the project.
    """

    title: str
    play: Callable[[str, Load, int], Coroutine[Any, Any, Cost]]
    needs: tuple[str, ...] = ()

    @property
    def is_here(self) -> bool:
        return all(importlib.util.find_spec(name) is not None for name in self.needs)


CLIENTS = {
    "floor": Client("floor: epoll, read, drop", _floor),
    "autotune": Client("autotune without uvloop", _autotune),
    "autotune-uvloop": Client("autotune, with the extra `fast`", _autotune, ("uvloop",)),
    "aiohttp-chunks": Client("aiohttp `iter_any` + msgspec", _aiohttp_chunks, ("aiohttp",)),
    "aiohttp-lines": Client("aiohttp lines + `json.loads`", _aiohttp_lines, ("aiohttp",)),
    "httpx-chunks": Client("httpx `aiter_raw` + msgspec", _httpx_chunks),
    "httpx-lines": Client("httpx `aiter_lines` + `json.loads`", _httpx_lines),
}


def cost_of(name: str, url: str, load: Load, n_requests: int) -> Cost:
    """Plays the load with one client in a process of its own."""
    words = (name, url, msgspec.json.encode(load).decode(), str(n_requests))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.clients", *words],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=Cost)


def _main(name: str, url: str, load: str, n_requests: str) -> None:
    work = CLIENTS[name].play(url, msgspec.json.decode(load, type=Load), int(n_requests))
    if name.endswith("-uvloop"):
        import uvloop

        cost = uvloop.run(work)
    else:
        cost = asyncio.run(work)
    sys.stdout.buffer.write(msgspec.json.encode(cost))


if __name__ == "__main__":
    _main(*sys.argv[1:])
