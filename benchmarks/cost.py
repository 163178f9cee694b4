"""CPU time of a streamed event: our client against others, on the same server in one run.

Every client runs in a process of its own. The repeats are interleaved, so that a busy moment of the
machine strikes all of them; medians are told.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import msgspec

from benchmarks.clients import CLIENTS, Cost, cost_of
from benchmarks.load import Load
from benchmarks.output import Result, as_command
from benchmarks.stream_server import StreamServer

_REFERENCE = Load(concurrency=64, ttft_s=0.05, gap_s=0.015, n_events=90)
"""Some 3,500 events per second; 216 tokens are about 72 such events."""
_BAR_US = 15.0
_BAR_RATIO = 5.0
_OURS, _PLAIN = "autotune", "httpx-lines"


def run(quick: bool) -> Result:
    """Plays the reference load with every client that can be imported."""
    n_repeats = 1 if quick else 5
    load = replace(_REFERENCE, n_events=30) if quick else _REFERENCE
    here = [name for name, client in CLIENTS.items() if client.is_here]
    costs: dict[str, list[Cost]] = {name: [] for name in here}
    with StreamServer() as server:
        for _ in range(n_repeats):
            for name in here:
                costs[name].append(cost_of(name, server.url, load, load.concurrency * 2))
                server.truth()
    all_us = {name: median(c.all_us for c in costs[name]) for name in here}
    timed_us = {name: median(c.timed_us for c in costs[name]) for name in here}
    ratios = {
        name: median(
            theirs.all_us / ours.all_us
            for theirs, ours in zip(costs[name], costs[_OURS], strict=True)
        )
        for name in here
    }
    rate = median(c.n_events / c.wall_s for c in costs[_OURS])
    return Result(
        title=f"CPU time of the client per streamed event, C={load.concurrency}, "
        f"{rate:,.0f} events/s, median of {n_repeats}",
        columns=("client", "timed path (µs)", "in all (µs)", "against ours"),
        rows=[
            [
                CLIENTS[name].title,
                f"{timed_us[name]:.1f}",
                f"{all_us[name]:.1f}",
                f"{ratios[name]:.1f} x",
            ]
            for name in here
        ],
        missed=_missed(all_us[_OURS], ratios[_PLAIN]),
        values={
            "cost": {name: [msgspec.to_builtins(c) for c in costs[name]] for name in here},
            "all_us": all_us,
            "timed_us": timed_us,
            "ratios": ratios,
        },
    )


def _missed(ours_us: float, ratio: float) -> list[str]:
    sentences = []
    if ours_us > _BAR_US:
        sentences.append(f"an event costs {ours_us:.1f} µs in all, more than {_BAR_US:g}")
    if ratio < _BAR_RATIO:
        sentences.append(f"the plain httpx loop costs {ratio:.1f} x, less than {_BAR_RATIO:g} x")
    return sentences


if __name__ == "__main__":
    as_command(run, "Measure the CPU time that a client spends on a streamed event.")()
