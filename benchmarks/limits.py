"""How many events per second until the client disturbs what it measures.

The rate is raised until the typical error of the TTFT passes 1 ms. The servers run on the same
machine: where they fall behind their own deadlines first, the row says so.
"""

from __future__ import annotations

import asyncio
import importlib.util
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

import msgspec
import numpy as np

from autotune.measure.client import Endpoint, Flight
from autotune.measure.records import RequestRecord
from benchmarks.clients import play
from benchmarks.load import Load, extra_of, messages_of
from benchmarks.output import Result, as_command
from benchmarks.script import MAX_EVENTS, Script
from benchmarks.stream_server import StreamServer

_RATES = (1_250, 2_500, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 40_000, 60_000)
_QUICK_RATES = (2_500, 5_000, 10_000, 20_000)
_CONCURRENCY = 64
_PER_SERVER = 20_000
"""Events per second that one server process sends without being late itself."""
_BAR_S = 1e-3
_BAR_RATE = 5_000
_TICK_S = 0.005
_KEPT_UP_FRAC = 0.9

Runner = Callable[[Coroutine[Any, Any, "Step"]], "Step"]


class Step(msgspec.Struct, frozen=True):
    """One rate.

    Attributes:
        wanted: events per second that the scripts add up to.
        events_s: those that the servers really sent.
        cpu_frac: share of one core that the client used.
        delay_p50_s: from a server's send to the client's stamp, over events.
        lag_p99_s: by how much the client's event loop was late.
        ttft_s: median over requests of client minus server.
    """

    wanted: int
    events_s: float
    cpu_frac: float
    delay_p50_s: float
    delay_p99_s: float
    lag_p99_s: float
    ttft_s: float
    ttft_p99_s: float
    server_late_s: float

    @property
    def disturbs(self) -> bool:
        return abs(self.ttft_s) > _BAR_S

    @property
    def server_fell_behind(self) -> bool:
        return self.events_s < _KEPT_UP_FRAC * self.wanted


async def _step(servers: list[StreamServer], rate: int, seconds: float) -> Step:
    """Three requests for each of C workers; the middle third is looked at."""
    gap_s = _CONCURRENCY / rate
    load = Load(_CONCURRENCY, 0.02, gap_s, max(3, min(MAX_EVENTS // 2, round(seconds / gap_s))))
    records: dict[int, RequestRecord] = {}

    async def one(script: Script) -> int:
        record = await Flight(
            Endpoint(servers[script.number % len(servers)].url, "scripted"),
            messages_of(script.number),
            max_output_tok=8192,
            temperature=0.7,
            extra=extra_of(script),
        ).fly()
        assert record.ok, record.error
        records[script.number] = record
        return len(record.arrivals)

    lags: list[float] = []
    ticker = asyncio.create_task(_tick(lags))
    cost = await play(load, 3 * _CONCURRENCY, one)
    ticker.cancel()
    truths = [server.truth() for server in servers]
    sent = {e.number: e for truth in truths for e in truth.exchanges}
    middle = range(_CONCURRENCY, 2 * _CONCURRENCY)
    delays = [
        at_s - real_s
        for number in middle
        for (at_s, _), real_s in zip(records[number].arrivals, sent[number].sent_s, strict=True)
    ]
    ttfts = [records[n].ttft_s - (sent[n].sent_s[0] - sent[n].received_s) for n in middle]
    begin_s = median(sent[n].sent_s[0] for n in middle)
    end_s = median(sent[n].sent_s[-1] for n in middle)
    n_between = sum(begin_s < at_s <= end_s for e in sent.values() for at_s in e.sent_s)
    return Step(
        wanted=rate,
        events_s=n_between / (end_s - begin_s),
        cpu_frac=cost.all_s / cost.wall_s,
        delay_p50_s=float(np.percentile(delays, 50)),
        delay_p99_s=float(np.percentile(delays, 99)),
        lag_p99_s=float(np.percentile(lags, 99)),
        ttft_s=median(ttfts),
        ttft_p99_s=float(np.percentile(np.abs(ttfts), 99)),
        server_late_s=max(truth.late_s for truth in truths),
    )


async def _tick(lags: list[float]) -> None:
    while True:
        began_s = time.perf_counter()
        await asyncio.sleep(_TICK_S)
        lags.append(time.perf_counter() - began_s - _TICK_S)


def _climb(runner: Runner, rates: Sequence[int], seconds: float) -> list[Step]:
    """Raises the rate until the client disturbs, or the servers cannot send more."""
    steps: list[Step] = []
    for rate in rates:
        with ExitStack() as stack:
            n_servers = -(-rate // _PER_SERVER)
            servers = [stack.enter_context(StreamServer()) for _ in range(n_servers)]
            steps.append(runner(_step(servers, rate, seconds)))
        if steps[-1].disturbs or steps[-1].server_fell_behind:
            break
    return steps


def _runners() -> dict[str, Runner]:
    found: dict[str, Runner] = {"asyncio": asyncio.run}
    if importlib.util.find_spec("uvloop") is not None:
        import uvloop

        found["uvloop"] = uvloop.run
    return found


def run(quick: bool) -> Result:
    """Climbs with each event loop; in a hurry with asyncio's only."""
    runners = {"asyncio": _runners()["asyncio"]} if quick else _runners()
    rates, seconds = (_QUICK_RATES, 0.4) if quick else (_RATES, 1.5)
    climbs = {name: _climb(runner, rates, seconds) for name, runner in runners.items()}
    return Result(
        title="The client at its limits (ms: median, 99th percentile)",
        columns=("loop", "events/s", "client CPU", "loop lag", "stamp", "TTFT error", "verdict"),
        rows=[_row(name, step) for name, steps in climbs.items() for step in steps],
        missed=[
            f"at {step.wanted:,} events/s the TTFT is off by {step.ttft_s * 1e3:+.2f} ms"
            for step in climbs["asyncio"]
            if step.disturbs and step.wanted <= _BAR_RATE
        ],
        values={"limits": msgspec.to_builtins(climbs)},
    )


def _row(name: str, step: Step) -> list[str]:
    verdict = "disturbs" if step.disturbs else "good"
    return [
        name,
        f"{step.events_s:,.0f}",
        f"{step.cpu_frac:.0%}",
        f"{step.lag_p99_s * 1e3:.1f}",
        f"{step.delay_p50_s * 1e3:.2f}, {step.delay_p99_s * 1e3:.2f}",
        f"{step.ttft_s * 1e3:+.2f}, {step.ttft_p99_s * 1e3:.2f}",
        "server too slow" if step.server_fell_behind else verdict,
    ]


if __name__ == "__main__":
    as_command(run, "Raise the rate until the client disturbs its own measurement.")()
