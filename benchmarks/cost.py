"""CPU time of a streamed event: our client against others, on the same server in one run.

Every client runs in a process of its own. The repeats are interleaved, so that a busy moment of the
machine strikes all of them; medians are told, of ratios too. The first row is no client: it wakes
up, reads and drops, and shows what the machine takes for that alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import msgspec

from benchmarks.clients import CLIENTS, Cost, cost_of
from benchmarks.load import Load
from benchmarks.output import Result, as_command
from benchmarks.stream_server import StreamServer

_REFERENCE = Load(concurrency=64, ttft_s=0.05, gap_s=0.015, n_events=90, lockstep=True)
"""Some 3,500 events per second, which come 64 at a time, as a step of a batch sends them; 216
tokens are 72 such events.
"""
_ONE_BY_ONE = replace(_REFERENCE, lockstep=False)
"""The same events evenly apart: the dearest way to receive them, as every one wakes the client."""
_BAR_US = 15.0
_BAR_RATIO = 5.0
_OURS, _PLAIN = "autotune-uvloop", "httpx-lines"
_QUICK = ("floor", _OURS, "autotune", "aiohttp-lines", _PLAIN)

Costs = dict[str, list[Cost]]
"""By client, one for each repeat."""


def run(quick: bool) -> Result:
    """Plays the loads with every client that can be imported; in a hurry the reference with a few:
    shorter answers would weigh the connecting more than the events.
    """
    loads = {"batch": _REFERENCE} if quick else {"batch": _REFERENCE, "one by one": _ONE_BY_ONE}
    n_repeats, n_rounds = (1, 1) if quick else (5, 2)
    here = [name for name in (_QUICK if quick else CLIENTS) if CLIENTS[name].is_here]
    costs = {name: _measure(load, here, n_repeats, n_rounds) for name, load in loads.items()}
    rate = median(c.n_events / c.wall_s for c in costs["batch"][_OURS])
    columns = ["client"]
    for name in loads:
        columns += [f"{name}: timed path", "in all", "ratio"]
    return Result(
        title=f"CPU time of the client per event (µs), C={_REFERENCE.concurrency}, "
        f"{rate:,.0f} events/s, median of {n_repeats}",
        columns=columns,
        rows=[_row(name, list(costs.values())) for name in here],
        missed=_missed(costs["batch"]),
        values={"cost": msgspec.to_builtins(costs)},
    )


def _measure(load: Load, names: Sequence[str], n_repeats: int, n_rounds: int) -> Costs:
    costs: Costs = {name: [] for name in names}
    with StreamServer() as server:
        for _ in range(n_repeats):
            for name in names:
                n_requests = n_rounds * load.concurrency
                costs[name].append(cost_of(name, server.url, load, n_requests))
                server.truth()  # or it would keep what it did
    return costs


def _ratio(costs: Costs, name: str) -> float:
    """What this client costs against ours, both of the same repeat."""
    pairs = zip(costs[name], costs[_OURS], strict=True)
    return median(theirs.all_us / ours.all_us for theirs, ours in pairs)


def _row(name: str, loads: Sequence[Costs]) -> list[str]:
    row = [CLIENTS[name].title]
    for costs in loads:
        row.append(f"{median(c.timed_us for c in costs[name]):.1f}")
        row.append(f"{median(c.all_us for c in costs[name]):.1f}")
        row.append(f"{_ratio(costs, name):.1f}")
    return row


def _missed(costs: Costs) -> list[str]:
    sentences = []
    ours_us, ratio = median(c.all_us for c in costs[_OURS]), _ratio(costs, _PLAIN)
    if ours_us > _BAR_US:
        sentences.append(f"an event costs {ours_us:.1f} µs in all, more than {_BAR_US:g}")
    if ratio < _BAR_RATIO:
        sentences.append(f"the plain httpx loop costs {ratio:.1f} x, less than {_BAR_RATIO:g} x")
    return sentences


if __name__ == "__main__":
    as_command(run, "Measure the CPU time that a client spends on a streamed event.")()
