"""Plays the batch scheduler in real time, ``speed`` times as fast as the machine it simulates.

Every pass ends at an exact point of a virtual clock; being late for one does not delay the next.
So throughput and token times are the same at any speed that the process can follow.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from random import Random

from autotune.engine.simulated.batch import BatchScheduler, Pass, Request
from autotune.engine.simulated.startup import die, log

_TIMER_S = 0.0012
"""asyncio rounds a timer up to a whole millisecond; the rest is slept exactly."""
_NEAR_WALL_GB = 0.35
"""With less free memory than this after capture, a peak under load may not fit."""


class VirtualClock:
    """Server seconds since the server became ready."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._origin = time.monotonic()

    def now_s(self) -> float:
        return (time.monotonic() - self._origin) * self._speed

    async def sleep_until(self, at_s: float) -> None:
        """Returns at ``at_s``, or at once when that is past; lets the event loop run meanwhile."""
        real_at = self._origin + at_s / self._speed
        wait = real_at - time.monotonic()
        if wait > _TIMER_S:
            await asyncio.sleep(wait - _TIMER_S)
            wait = real_at - time.monotonic()
        if wait > 0:
            time.sleep(wait)


class Pump:
    """Feeds requests to the scheduler and hands their tokens to whoever streams them."""

    def __init__(
        self, scheduler: BatchScheduler, clock: VirtualClock, seed: int, log_interval: int
    ) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self.last_gen_tok_s = 0.0
        self._listeners: dict[Request, Callable[[int, bool], None]] = {}
        self._wake = asyncio.Event()
        self._log_interval = log_interval
        self._passes = 0
        self._is_frozen = False
        self._logged = (0.0, 0, 0, 0)
        self._n_retractions = 0
        self._n_tok = 0
        self._dies_after = _passes_before_death(scheduler, seed)

    def submit(self, request: Request, listener: Callable[[int, bool], None]) -> None:
        """``listener(n_tok, finished)`` is called as tokens appear."""
        self._listeners[request] = listener
        self.scheduler.submit(request)
        self._wake.set()

    def abort(self, request: Request) -> None:
        """Takes a request out and tells its listener that it has ended."""
        listener = self._listeners.pop(request, None)
        if listener is not None:
            self.scheduler.abort(request)
            listener(0, True)

    def abort_all(self) -> None:
        for request in tuple(self._listeners):
            self.abort(request)

    def freeze(self) -> None:
        """From now on no pass ends: a server that hangs."""
        self._is_frozen = True

    async def run(self) -> None:
        """Runs until cancelled."""
        scheduler = self.scheduler
        while True:
            if self._is_frozen:
                await asyncio.Event().wait()
            if scheduler.is_idle:
                self._wake.clear()
                await self._wake.wait()
                scheduler.now_s = max(scheduler.now_s, self.clock.now_s())
            # Two turns of the loop: requests that are already in the socket join this pass.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            played = scheduler.step()
            if played is None:
                await asyncio.sleep(0.001)
                continue
            await self.clock.sleep_until(played.ends_at_s)
            self._deliver(played)
            self._account(played)

    def _deliver(self, played: Pass) -> None:
        for request, n_tok, finished in played.emissions:
            listener = self._listeners.get(request)
            if listener is None:
                continue  # aborted while this pass ran
            if finished:
                del self._listeners[request]
            listener(n_tok, finished)

    def _account(self, played: Pass) -> None:
        scheduler = self.scheduler
        self._passes += 1
        self._n_tok += sum(e.n_tok for e in played.emissions)
        if self._passes >= self._dies_after and len(scheduler.running) >= 8:
            log("Scheduler hit an exception: Traceback (most recent call last):")
            log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.")
            die(killed=True)
        if n_retracted := scheduler.n_retractions - self._n_retractions:
            self._n_retractions += n_retracted
            log(f"KV cache pool is full. Retract requests. #retracted_reqs: {n_retracted}")
        if self._passes % self._log_interval == 0:
            self._log_decode()

    def _log_decode(self) -> None:
        scheduler, (at_s, n_tok, n_cycles, n_accepted) = self.scheduler, self._logged
        self.last_gen_tok_s = (self._n_tok - n_tok) / max(1e-9, scheduler.now_s - at_s)
        cycles = max(1, scheduler.n_cycles - n_cycles)
        accept_len = (scheduler.n_accepted - n_accepted) / cycles
        self._logged = (scheduler.now_s, self._n_tok, scheduler.n_cycles, scheduler.n_accepted)
        usage = scheduler.cache.busy_tok / max(1, scheduler.cache.capacity_tok)
        captured = len(scheduler.running) <= scheduler.deployment.graph_max_batch
        log(
            f"Decode batch, #running-req: {len(scheduler.running)}, "
            f"#token: {scheduler.cache.busy_tok}, token usage: {usage:.2f}, "
            f"accept len: {accept_len:.2f}, cuda graph: {captured}, "
            f"gen throughput (token/s): {self.last_gen_tok_s:.2f}, "
            f"#queue-req: {len(scheduler.queue)}"
        )


def _passes_before_death(scheduler: BatchScheduler, seed: int) -> float:
    """Passes after which a server close to the upper memory wall runs out; infinite for others."""
    free_gb = scheduler.deployment.free_after_capture_gb
    rng = Random(seed * 31 + 5)
    if rng.random() < (_NEAR_WALL_GB - free_gb) / _NEAR_WALL_GB:
        return rng.randint(50, 600)
    return float("inf")
