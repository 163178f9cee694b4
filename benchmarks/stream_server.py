"""A server in a process of its own whose every delay is known, and which notes what it really did.

As little as possible stands between a deadline and its bytes: one heap of deadlines, one timer,
events that were put together beforehand. ``GET /truth`` hands out the real send times.
"""

from __future__ import annotations

import asyncio
import heapq
import subprocess
import sys
import time
import urllib.request
from types import TracebackType
from typing import Self

import msgspec

from benchmarks.output import ROOT
from benchmarks.script import EVENTS, HEAD, Script, Sent, Truth, ending

_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_READ_SCRIPT = msgspec.json.Decoder(Script)


class _Pacer:
    """Sends what is due. One timer for all streams is cheaper than one each."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: list[tuple[float, int, _Stream]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._n_added = 0

    def add(self, stream: _Stream, at_s: float) -> None:
        self._n_added += 1  # so that two equal deadlines never compare two streams
        heapq.heappush(self._due, (at_s, self._n_added, stream))
        if self._due[0][2] is stream:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due[0][0], self._fire) if self._due else None

    def _fire(self) -> None:
        due, now_s = self._due, time.perf_counter()
        while due and due[0][0] <= now_s:
            _, number, stream = due[0]
            next_s = stream.send()
            if next_s is None:
                heapq.heappop(due)
            else:
                heapq.heapreplace(due, (next_s, number, stream))
        self._arm()


class _Server:
    """What the streams share."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.pacer = _Pacer(loop)
        self.streams: list[_Stream] = []

    def truth(self) -> Truth:
        """What was done since the last asking; a stream that still runs is told as far as it is."""
        late_s = sorted(
            at_s - stream.script.deadline_s(stream.received_s, place)
            for stream in self.streams
            for place, at_s in enumerate(stream.sent_s)
        )
        told = Truth(
            [Sent(s.script.number, s.received_s, s.sent_s) for s in self.streams],
            time.process_time(),
            late_s[int(len(late_s) * 0.99)] if late_s else 0.0,
        )
        self.streams = []
        return told


class _Stream(asyncio.Protocol):
    """One connection with one request."""

    script: Script
    received_s: float

    def __init__(self, server: _Server) -> None:
        self.sent_s: list[float] = []
        self._server = server
        self._buffer = b""
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True

    def data_received(self, data: bytes) -> None:
        now_s = time.perf_counter()
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        if head.startswith(b"POST "):
            length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
            if len(body) >= int(length):
                self._begin(body, now_s)
            return
        if head.startswith(b"GET /truth "):
            told = msgspec.json.encode(self._server.truth())
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(told))
            self._transport.write(told)
        else:
            self._transport.write(_NOT_FOUND)
        self._transport.close()

    def _begin(self, body: bytes, now_s: float) -> None:
        self.script, self.received_s = _READ_SCRIPT.decode(body), now_s
        self._transport.write(HEAD)
        self._server.streams.append(self)
        self._server.pacer.add(self, self.script.deadline_s(now_s, 0))

    def send(self) -> float | None:
        """Sends the next event; when the one after it is due, or None where nothing is left."""
        if self._closed:
            return None
        place = len(self.sent_s)
        self.sent_s.append(time.perf_counter())
        if place + 1 < self.script.n_events:
            self._transport.write(EVENTS[place])
            return self.script.deadline_s(self.received_s, place + 1)
        self._transport.write(EVENTS[place] + ending(place + 1))
        self._transport.close()
        return None


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = _Server(loop)
    listener = await loop.create_server(lambda: _Stream(server), "127.0.0.1", 0, backlog=1024)
    gone = loop.create_future()
    loop.add_reader(sys.stdin, gone.set_result, None)  # whoever started us has ended
    print(listener.sockets[0].getsockname()[1], flush=True)
    await gone
    loop.remove_reader(sys.stdin)
    listener.close()


class StreamServer:
    """Starts the server and ends it."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.stream_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._process.communicate()  # closes its standard input, which ends it

    def truth(self) -> Truth:
        """What was done since the last asking."""
        with urllib.request.urlopen(f"{self.url}/truth", timeout=60) as answer:
            return msgspec.json.decode(answer.read(), type=Truth)


if __name__ == "__main__":
    asyncio.run(_serve())
