"""What is seen beside the requests: the server's own load, and whether the client keeps up.

Nothing here may disturb the measurement: ``/health`` is never asked, as it makes SGLang generate a
token (SGLang 0.5.3), and the load is read once in half a second.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

import msgspec
import numpy as np

from autotune.measure.client import Endpoint, fetch

_LOOK_EVERY_S = 0.5
_TICK_S = 0.01


def _gauge(name: str) -> re.Pattern[bytes]:
    """Finds the value of a metric for each rank; SGLang changed its prefix."""
    return re.compile(rf"^sglang[:_]{name}\{{[^}}]*\}} ([\d.e+-]+)$".encode(), re.MULTILINE)


_RUNNING, _WAITING = _gauge("num_running_reqs"), _gauge("num_queue_reqs")
_KV_USED = _gauge("token_usage")
_RETRACTED = tuple(
    _gauge(name)
    for name in ("num_retracted_requests_total", "total_retracted_reqs", "num_retractions_sum")
)
"""Counters of retractions, newest first: newer versions have several at once, and each counts all.
``num_retracted_reqs``, which they have too, tells of the last batch only.
"""


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """Requests on the server, ours and those of others.

    Attributes:
        kv_used_frac: share of the KV pool that running requests hold, of its fullest rank; None
            where not told. What is only kept for reuse does not count.
    """

    n_running: int
    n_waiting: int
    kv_used_frac: float | None = None


@dataclass(slots=True)
class Observations:
    """What was seen while the window was open.

    Attributes:
        foreign: requests on the server beyond our own, one value for each look at it.
        waiting: requests in the server's queue, one value for each look.
        kv_used: share of the KV pool in use, one value for each look that told it.
        lag_s: by how much the event loop was late, one value for each tick (wall seconds).
        n_retractions: how often the server took a request out of its batch again; None: not told.
    """

    foreign: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    kv_used: list[float] = field(default_factory=list)
    lag_s: list[float] = field(default_factory=list)
    n_retractions: int | None = None

    @property
    def foreign_mean(self) -> float | None:
        """None where the server does not tell its load, or there was no time to look."""
        return fmean(self.foreign) if self.foreign else None

    @property
    def waiting_mean(self) -> float | None:
        return fmean(self.waiting) if self.waiting else None

    @property
    def kv_used_frac(self) -> float | None:
        return fmean(self.kv_used) if self.kv_used else None

    @property
    def lag_p99_s(self) -> float | None:
        return float(np.percentile(self.lag_s, 99)) if self.lag_s else None


class Observer:
    """Watches server and client beside a phase, in two tasks of the same event loop.

    Args:
        in_flight: our own requests on the server now.
        is_open: whether the window is open.
    """

    def __init__(
        self, endpoint: Endpoint, in_flight: Callable[[], int], is_open: Callable[[], bool]
    ) -> None:
        self.seen = Observations()
        self._endpoint, self._in_flight, self._is_open = endpoint, in_flight, is_open
        self._n_retracted_before: int | None = None
        self._tells_load = True

    async def watch_server(self) -> None:
        """Looks at the server's load until it is cancelled or the server does not tell it."""
        self._n_retracted_before = await _retracted(self._endpoint)
        while self._tells_load:
            await asyncio.sleep(_LOOK_EVERY_S)
            before = self._in_flight()
            load = await server_load(self._endpoint)
            self._tells_load = load is not None
            if load is not None and self._is_open():
                ours = max(before, self._in_flight())
                self.seen.foreign.append(max(0, load.n_running + load.n_waiting - ours))
                self.seen.waiting.append(load.n_waiting)
                if load.kv_used_frac is not None:
                    self.seen.kv_used.append(load.kv_used_frac)

    async def watch_client(self) -> None:
        """Notes how late the event loop wakes a sleeper, until it is cancelled."""
        while True:
            began_s = time.perf_counter()
            await asyncio.sleep(_TICK_S)
            if self._is_open():
                self.seen.lag_s.append(max(0.0, time.perf_counter() - began_s - _TICK_S))

    async def finish(self) -> Observations:
        """Everything seen. Call it once, after the load has ended."""
        if self._n_retracted_before is not None:
            now = await _retracted(self._endpoint)
            if now is not None:
                self.seen.n_retractions = max(0, now - self._n_retracted_before)
        return self.seen


async def server_load(endpoint: Endpoint) -> ServerLoad | None:
    """What ``/v1/loads`` (SGLang 0.5.10) or ``/metrics`` says; None where neither does."""
    document = await fetch(endpoint, "/v1/loads?include=core")
    if document is not None and (load := _of_loads(document)) is not None:
        return load
    text = await fetch(endpoint, "/metrics") or b""
    running, waiting = _total(_RUNNING, text), _total(_WAITING, text)
    used = [float(share) for share in _KV_USED.findall(text)]
    return None if running is None else ServerLoad(running, waiting or 0, max(used, default=None))


def _of_loads(document: bytes) -> ServerLoad | None:
    try:
        ranks = msgspec.json.decode(document)["loads"]
        return ServerLoad(
            sum(int(rank["num_running_reqs"]) for rank in ranks),
            sum(int(rank["num_waiting_reqs"]) for rank in ranks),
            max((float(r["token_usage"]) for r in ranks if "token_usage" in r), default=None),
        )
    except (ValueError, KeyError, TypeError):
        return None


async def _retracted(endpoint: Endpoint) -> int | None:
    text = await fetch(endpoint, "/metrics") or b""
    told = (_total(pattern, text) for pattern in _RETRACTED)
    return next((n for n in told if n is not None), None)


def _total(pattern: re.Pattern[bytes], text: bytes) -> int | None:
    """Sum over the ranks; None where the name is not there."""
    found = pattern.findall(text)
    return round(sum(map(float, found))) if found else None
