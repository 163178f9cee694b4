"""A server whose every delay and token is written down in the test: real sockets, no model."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from .answers import HEAD, chat, sized, sse


class Exchange:
    """One request and the way to answer it. ``wrote_s`` stamps each write."""

    def __init__(self, number: int, head: str, body: bytes, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.head = head
        self.body: dict[str, Any] = json.loads(body or b"{}")
        self.began_s = time.perf_counter()
        self.ended_s = float("inf")
        self.wrote_s: list[float] = []
        self.writer = writer

    async def write(self, data: bytes) -> None:
        self.wrote_s.append(time.perf_counter())
        self.writer.write(data)
        await self.writer.drain()

    async def at(self, after_s: float) -> None:
        """Returns ``after_s`` seconds after the request came, on an absolute schedule."""
        await asyncio.sleep(max(0.0, self.began_s + after_s - time.perf_counter()))


Script = Callable[[Exchange], Awaitable[None]]


def talk(ttft_s: float, gap_s: float, counts: tuple[int, ...] = (1, 4, 4, 4)) -> Script:
    """Streams one event per count: the first after ``ttft_s``, the others ``gap_s`` apart."""

    async def script(exchange: Exchange) -> None:
        words = [(f" answer{exchange.number}" * n, n) for n in counts]
        payloads = sse(chat(words, n_verify=len(counts)))
        await exchange.write((HEAD + "transfer-encoding: chunked\r\n\r\n").encode())
        for place, payload in enumerate(payloads):
            if 0 < place <= len(counts):
                await exchange.at(ttft_s + (place - 1) * gap_s)
            await exchange.write(b"%x\r\n%s\r\n" % (len(payload), payload))
        await exchange.write(b"0\r\n\r\n")

    return script


def refuse(status: str = "500 Internal Server Error") -> Script:
    async def script(exchange: Exchange) -> None:
        await exchange.write(sized(b'{"object":"error","message":"refused"}', status=status))

    return script


async def hang_up(exchange: Exchange) -> None:
    """Closes the connection without a byte."""


async def say_nothing(exchange: Exchange) -> None:
    await asyncio.sleep(60)


class ScriptedServer:
    """Runs a script for each request, in a thread with a loop of its own.

    Args:
        looked_at: the script of GET requests, which are no exchanges: by default there is nothing.
    """

    def __init__(self, script: Script, looked_at: Script | None = None) -> None:
        self.script, self._looked_at = script, looked_at or refuse("404 Not Found")
        self.exchanges: list[Exchange] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def in_flight(self, at_s: float) -> int:
        return sum(e.began_s <= at_s < e.ended_s for e in self.exchanges)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=256)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        await asyncio.sleep(0.02)  # a connection that is just being accepted needs the server open
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)  # transports let go of their sockets
        await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._answer(reader, writer))
        self._tasks.add(task)
        self._writers.append(writer)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    int(line.partition(":")[2])
                    for line in head.splitlines()
                    if line.lower().startswith("content-length:")
                )
                body = await reader.readexactly(length)
                if head.startswith("GET "):
                    await self._looked_at(Exchange(-1, head, body, writer))
                    return
                exchange = Exchange(len(self.exchanges), head, body, writer)
                self.exchanges.append(exchange)
                try:
                    await self.script(exchange)
                finally:
                    exchange.ended_s = time.perf_counter()
        finally:
            writer.close()
