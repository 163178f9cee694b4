"""One load level: warm up, keep C requests in flight, measure in the steady window.

Closed loop: each of C workers plays sessions one after the other, and a new session starts the
moment one ends. The window opens once C requests are in flight and one turnover of the batch has
passed, and closes with the last wanted request, while C are still in flight; those are broken off,
and their tokens inside the window still count. So what is measured is constant
load, never the ramp or the tail of a burst.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from autotune.core.trial import Phase, Role
from autotune.measure.client import Endpoint, send_chat
from autotune.measure.metrics import summarize
from autotune.measure.records import RequestRecord
from autotune.measure.validity import FAILED_FRAC
from autotune.workload.model import Message, Session, Turn, Workload

Progress = Callable[[float], None]
"""Takes the measured share of a phase, in [0, 1]."""
HealthCheck = Callable[[], None]
"""Raises when the server under test has died; called many times a second."""

_WATCH_S = 0.05
_N_LATENCY = 24
"""Requests of a latency phase: enough turns for a median that holds to 2 %."""
_SERVING_TURNOVERS = 4
"""How often the whole batch is replaced inside the window of a serving phase."""
_SESSIONS_APART = 100_000
_TEXT_MARGIN = 1.6
"""How many more tokens per character a new text may have than the text before it."""
_LATENCY_WINDOW_S = 90.0
"""One request at a time is slow to give a sample: a latency phase may take longer."""


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """What to measure.

    Attributes:
        concurrency: requests in flight, >= 1.
        n_requests: requests to end inside the window before the phase ends.
        max_warm_s: server seconds after which the window opens all the same.
        max_window_s: server seconds after which it closes all the same.
        first_session: number of the first session; phases must not share sessions, or the prefix
            cache of one would serve the next.
    """

    role: Role
    concurrency: int
    n_requests: int
    first_session: int
    max_warm_s: float = 20.0
    max_window_s: float = 30.0

    @property
    def n_warm(self) -> int:
        """Requests that end before the window opens: one turnover, at least two."""
        return max(2, self.concurrency)


def plan_phases(
    latency_concurrency: int, serving_concurrencies: tuple[int, ...]
) -> tuple[PhasePlan, ...]:
    """The phases of one launch, lightest first, on disjoint sets of sessions."""
    n_latency = max(_N_LATENCY, _SERVING_TURNOVERS * latency_concurrency)
    plans = [_latency_plan(latency_concurrency, n_latency)]
    for place, concurrency in enumerate(sorted(serving_concurrencies), start=1):
        n_requests = _SERVING_TURNOVERS * concurrency
        plans.append(PhasePlan("serving", concurrency, n_requests, _SESSIONS_APART * place))
    return tuple(plans)


def plan_levels(levels: tuple[int, ...]) -> tuple[PhasePlan, ...]:
    """A phase per concurrency, lightest first; only C=1 is a latency phase."""
    plans = []
    for place, concurrency in enumerate(levels):
        if concurrency == 1:
            plans.append(_latency_plan(1, _N_LATENCY))
        else:
            n_requests = max(_N_LATENCY, _SERVING_TURNOVERS * concurrency)
            plans.append(PhasePlan("serving", concurrency, n_requests, _SESSIONS_APART * place))
    return tuple(plans)


def _latency_plan(concurrency: int, n_requests: int) -> PhasePlan:
    return PhasePlan("latency", concurrency, n_requests, 0, max_window_s=_LATENCY_WINDOW_S)


def measure_phase(
    endpoint: Endpoint,
    workload: Workload,
    plan: PhasePlan,
    *,
    check: HealthCheck,
    progress: Progress = lambda share: None,
) -> Phase:
    """Measures one phase on a running server.

    Raises:
        Exception: whatever ``check`` raises when the server dies meanwhile.
    """
    return asyncio.run(_Run(endpoint, workload, plan, progress).play(check))


@dataclass(slots=True)
class _Run:
    """The state of one phase while it is measured. Single event loop, no locks."""

    endpoint: Endpoint
    workload: Workload
    plan: PhasePlan
    progress: Progress
    records: list[RequestRecord] = field(default_factory=list)
    in_flight: list[tuple[float, int]] = field(default_factory=list)
    opened_s: float | None = None
    closed_s: float | None = None
    _n_flying: int = 0
    _n_measured: int = 0
    _began_s: float = 0.0
    _stop: asyncio.Future[None] | None = None

    async def play(self, check: HealthCheck) -> Phase:
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        self._stop, self._began_s = (
            asyncio.get_running_loop().create_future(),
            self.endpoint.now_s(),
        )
        sessions = self._sessions()
        workers = [asyncio.create_task(self._work(sessions)) for _ in range(self.plan.concurrency)]
        watcher = asyncio.create_task(_watch(check))
        try:
            await _first_failure_or_all(workers, watcher)
        finally:
            for task in (*workers, watcher):
                task.cancel()
            await asyncio.gather(*workers, watcher, return_exceptions=True)
        busy_frac = (time.process_time() - cpu_s) / max(1e-9, time.perf_counter() - wall_s)
        end_s = self.closed_s if self.closed_s is not None else self.endpoint.now_s()
        begin_s = self.opened_s if self.opened_s is not None else end_s
        return summarize(
            self.records,
            plan_role=self.plan.role,
            concurrency=self.plan.concurrency,
            window=(begin_s, end_s),
            in_flight=self.in_flight,
            reference_output_tok=self.workload.reference_output_tok,
            client_cpu_frac=busy_frac,
        )

    def _sessions(self) -> Iterator[Session]:
        number = self.plan.first_session
        while self.closed_s is None:
            yield self.workload.session(number)
            number += 1

    async def _work(self, sessions: Iterator[Session]) -> None:
        for session in sessions:
            messages: list[Message] = []
            last: RequestRecord | None = None
            for turn in session.turns:
                if self.closed_s is not None:
                    return
                messages.extend(turn.messages)
                if last is not None and not self._fits(last, messages, turn):
                    break
                last = await self._send(messages, turn.max_output_tok)
                if not last.ok:
                    break  # without the answer the rest of the session makes no sense
                messages.append({"role": "assistant", "content": last.text})

    def _fits(self, last: RequestRecord, messages: list[Message], turn: Turn) -> bool:
        """Whether the turn that ends ``messages`` still fits the context of the server.

        Only the server's tokenizer knows the length of new text: it is taken from the text that was
        sent before, with a margin for text of another kind, so that a session rather ends a turn
        early than is refused.
        """
        limit = self.endpoint.context_tok
        if limit is None:
            return True
        n_new = len(turn.messages)
        sent_chars = _n_chars(messages[: -n_new - 1])
        tok_per_char = last.n_prompt_tok / max(1, sent_chars)
        new_tok = _TEXT_MARGIN * tok_per_char * _n_chars(turn.messages)
        return last.n_prompt_tok + last.n_output_tok + new_tok + turn.max_output_tok < limit

    async def _send(self, messages: list[Message], max_output_tok: int) -> RequestRecord:
        self._fly(+1)
        record = await send_chat(
            self.endpoint,
            messages,
            max_output_tok=max_output_tok,
            temperature=self.workload.temperature,
            stop=self._stop,
        )
        self._fly(-1)
        self.records.append(record)
        if not record.cut:
            self._move_window(record.done_s)
        if record.failed:
            await asyncio.sleep(0.05)  # a server that refuses everything must not be hammered
        return record

    def _fly(self, change: int) -> None:
        self._n_flying += change
        self.in_flight.append((self.endpoint.now_s(), self._n_flying))

    def _move_window(self, done_s: float) -> None:
        """Opens the window after the warm-up, closes it after the last wanted request or its time.

        It also closes once so many requests have failed that the phase cannot count any more: a
        server that hangs would hold every further request for the whole stall time.
        """
        plan, n_failed = self.plan, sum(record.failed for record in self.records)
        if n_failed > FAILED_FRAC * (plan.n_warm + plan.n_requests):
            self._close(done_s)
        elif self.opened_s is None:
            waited_s = done_s - self._began_s
            if len(self.records) >= (2 if waited_s >= plan.max_warm_s else plan.n_warm):
                self.opened_s = done_s
        elif self.closed_s is None:
            self._n_measured += 1
            open_s = done_s - self.opened_s
            share = max(self._n_measured / plan.n_requests, open_s / plan.max_window_s)
            self.progress(min(1.0, share))
            if share >= 1.0:
                self._close(done_s)

    def _close(self, at_s: float) -> None:
        if self.closed_s is None:
            self.closed_s = at_s
            assert self._stop is not None
            self._stop.set_result(None)


def _n_chars(messages: Iterable[Message]) -> int:
    return sum(len(str(message.get("content") or "")) for message in messages)


async def _watch(check: HealthCheck) -> None:
    while True:
        check()
        await asyncio.sleep(_WATCH_S)


async def _first_failure_or_all(
    workers: list[asyncio.Task[None]], watcher: asyncio.Task[None]
) -> None:
    """Returns when all workers are done; raises as soon as one of them or the watcher does."""
    pending: set[asyncio.Task[None]] = set(workers)
    while pending:
        done, _ = await asyncio.wait({*pending, watcher}, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        pending -= done
