"""One load level: warm up, keep the load at its target, measure in the steady window."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from autotune.core.trial import Phase
from autotune.measure.client import Endpoint, Flight, Pulse
from autotune.measure.loop import run
from autotune.measure.metrics import Limits, headline, summarize
from autotune.measure.observe import Observer
from autotune.measure.plan import PhasePlan
from autotune.measure.records import RequestRecord
from autotune.measure.schedule import ClosedLoop, OpenLoop
from autotune.measure.window import Window
from autotune.workload.model import Message, Session, Turn, Workload

Progress = Callable[[float], None]
"""Takes the measured share of a phase, in [0, 1]."""
HealthCheck = Callable[[], None]
"""Raises when the server under test has died; called many times a second."""

_WATCH_S = 0.05
_REFUSED_PAUSE_S = 0.05
"""A server that refuses everything must not be hammered."""


def measure_phase(
    endpoint: Endpoint,
    workload: Workload,
    plan: PhasePlan,
    *,
    check: HealthCheck,
    progress: Progress = lambda share: None,
    limits: Limits | None = None,
) -> Phase:
    """Measures one phase on a running server.

    Args:
        limits: what a request must keep to count as good (``goodput_req_s``); None: no such value.

    Raises:
        WorkloadError: the workload cannot be played as the plan says.
        Exception: whatever ``check`` raises when the server dies meanwhile.
    """
    with _no_garbage_collection():
        return run(_Run(endpoint, workload, plan, progress, limits).play(check))


@dataclass(slots=True)
class _Run:
    """The state of one phase while it is measured. Single event loop, no locks.

    Implements ``schedule.Load``.
    """

    endpoint: Endpoint
    workload: Workload
    plan: PhasePlan
    progress: Progress
    limits: Limits | None
    records: list[RequestRecord] = field(default_factory=list)
    in_flight: list[tuple[float, int]] = field(default_factory=list)
    began_s: float = 0.0
    _window: Window = field(init=False)
    _stop: asyncio.Future[None] = field(init=False)
    _flights: set[Flight] = field(default_factory=set)
    _prompts: dict[int, int] = field(default_factory=dict)
    _pulse: Pulse = field(default_factory=Pulse)
    _look: asyncio.Event = field(default_factory=asyncio.Event)
    _maker: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=1))

    async def play(self, check: HealthCheck) -> Phase:
        self._stop = asyncio.get_running_loop().create_future()
        schedule = OpenLoop(self) if self.plan.open_loop else ClosedLoop(self)
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        self.began_s = self.now_s()
        self._window = Window(self.plan, self.began_s)
        observer = Observer(self.endpoint, lambda: len(self._flights), self._is_open)
        beside = [
            asyncio.create_task(work)
            for work in (
                observer.watch_server(),
                observer.watch_client(),
                self._time_the_window() if self.plan.open_loop else self._narrow(),
                _watch(check),
            )
        ]
        workers = list(schedule.workers())
        try:
            await _first_failure_or_all(workers, beside)
        finally:
            for task in (*workers, *beside):
                task.cancel()
            await asyncio.gather(*workers, *beside, return_exceptions=True)
            self._maker.shutdown(wait=False, cancel_futures=True)
        busy_frac = (time.process_time() - cpu_s) / max(1e-9, time.perf_counter() - wall_s)
        end_s = self.now_s()
        if self._is_open():  # a trace may end before its time is up
            self._window.close(end_s)
        return summarize(
            self.records,
            plan=self.plan,
            window=self._window.span or (end_s, end_s),
            in_flight=self.in_flight,
            reference_output_tok=self.workload.reference_output_tok,
            temperature=self.workload.temperature,
            client_cpu_frac=busy_frac,
            seen=await observer.finish(),
            workload=self.workload.name,
            n_repeated=sum(n - 1 for n in self._prompts.values()),
            limits=self.limits,
        )

    @property
    def is_over(self) -> bool:
        return self._window.closed_s is not None

    @property
    def context_tok(self) -> int | None:
        return self.endpoint.context_tok

    def now_s(self) -> float:
        return self.endpoint.now_s()

    async def session(self, number: int) -> Session:
        """Made in a thread: the stamps of all streams would wait for it."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._maker, self.workload.session, number)

    async def sleep_until(self, at_s: float) -> None:
        """Returns at ``at_s`` server seconds, or earlier once the window has closed."""
        left_s = (at_s - self.now_s()) / self.endpoint.time_scale
        if left_s > 0 and not self.is_over:
            await asyncio.wait({self._stop}, timeout=left_s)

    async def send(
        self,
        messages: Sequence[Message],
        turn: Turn,
        session: Session,
        number: int,
        due_s: float | None = None,
    ) -> RequestRecord:
        """Sends one turn and counts it. Never raises for what the server does."""
        self._remember(messages)
        flight = Flight(
            self.endpoint,
            messages,
            max_output_tok=turn.max_output_tok,
            temperature=self.workload.temperature,
            extra=session.extra,
            session=number,
            due_s=due_s,
            pulse=self._pulse,
        )
        self._flights.add(flight)
        self._note_in_flight()
        record = await flight.fly(None if self.plan.open_loop else self._stop)
        self._flights.discard(flight)
        self._note_in_flight()
        self.records.append(record)
        if not record.cut:
            self._move_window(record)
        if record.failed:
            await asyncio.sleep(_REFUSED_PAUSE_S)
        return record

    def _remember(self, messages: Sequence[Message]) -> None:
        key = hash(repr(messages))
        self._prompts[key] = self._prompts.get(key, 0) + 1

    def _note_in_flight(self) -> None:
        self.in_flight.append((self.now_s(), len(self._flights)))

    def _is_open(self) -> bool:
        return self._window.opened_s is not None and not self.is_over

    def _move_window(self, record: RequestRecord) -> None:
        was_open = self._is_open()
        self._window.take(record)
        if was_open:
            self.progress(self._window.share(record.done_s))
        if self._window.is_due:
            self._look.set()
        self._stop_if_over()

    def _stop_if_over(self) -> None:
        if self.is_over and not self._stop.done():
            self._stop.set_result(None)

    async def _narrow(self) -> None:
        """Ends the phase as soon as its headline value is known well enough.

        What is still in flight counts up to the moment of looking. It is read a request at a time,
        so that no byte waits long for its stamp.
        """
        while True:
            await self._look.wait()
            self._look.clear()
            at_s, begin_s = self.now_s(), self._window.opened_s
            known = list(self.records)
            for flight in tuple(self._flights):
                known.append(flight.so_far())
                await asyncio.sleep(0)
            if begin_s is not None and not self.is_over:
                value = headline(
                    known, self.plan, (begin_s, at_s), self.workload.reference_output_tok
                )
                self._window.judge(value.half_width_frac, at_s)
                self._stop_if_over()

    async def _time_the_window(self) -> None:
        """Opens and closes the window of an open loop, whose load does not wait for answers."""
        while not self.is_over:
            now_s = self.now_s()
            self._window.pass_time(now_s)
            if self._window.opened_s is not None:
                self.progress(self._window.share(now_s))
            self._stop_if_over()
            await asyncio.sleep(_WATCH_S)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keeps the collector out of the window: with Optuna and SciPy loaded, one full collection
    holds the event loop for 30 to 50 ms. What a phase leaves in cycles is little.
    """
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


async def _watch(check: HealthCheck) -> None:
    while True:
        check()
        await asyncio.sleep(_WATCH_S)


async def _first_failure_or_all(
    workers: Sequence[asyncio.Task[None]], beside: Sequence[asyncio.Task[None]]
) -> None:
    """Returns when all workers are done; raises as soon as a worker or a task beside them does."""
    pending, watched = set(workers), set(beside)
    while pending:
        done, _ = await asyncio.wait(pending | watched, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        pending -= done
        watched -= done
