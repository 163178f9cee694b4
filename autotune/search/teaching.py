"""What of a study's launches the models learn from, and what those launches tell of the box."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.search.cost import Room
from autotune.search.memory import USUAL_FRACTION, fraction_of
from autotune.search.observation import Measured, Observation

_USUAL_CONCURRENCIES = (16, 32)
_MOST_TOLD = 240
_BEST_TOLD = 60


def usual_fraction(ended: Sequence[Observation]) -> float:
    """The memory fraction where flags leave it out: that of the first launch."""
    return fraction_of(ended[0]) if ended else USUAL_FRACTION


def concurrencies_of(measured: Sequence[Observation]) -> tuple[int, ...]:
    """Serving loads that were measured, rising; the usual ones where no launch tells any."""
    found = {s.concurrency for o in measured for s in o.served}
    return tuple(sorted(found)) or _USUAL_CONCURRENCIES


def served_at(o: Observation, concurrency: int, n_levels: int) -> Measured | None:
    """Throughput at one concurrency; a launch that tells none has the mean of all of them."""
    if not o.served:
        return o.throughput
    return next((s.throughput for s in o.served if s.concurrency == concurrency), None)


def room_seen(measured: Sequence[Observation]) -> Room:
    """What launches were told to hold, or were seen to; shape (n,)."""
    limits, tokens = [], []
    for o in measured:
        ran = [s.n_running for s in o.served if s.n_running and s.n_running < 0.9 * s.concurrency]
        limits.append(min([o.running_limit or np.inf, *ran]))
        tokens.append(o.kv_tokens or np.inf)
    return Room(np.array(limits), np.array(tokens))


def most_telling(measured: Sequence[Observation]) -> list[Observation]:
    """Those that teach most: the first launch, the best at either goal, and the latest.

    Enough for the models, however long the study; in the order of the study.
    """
    n = len(measured)
    if n <= _MOST_TOLD:
        return list(measured)
    latency = np.argsort([o.latency.log for o in measured if o.latency])
    throughput = np.argsort([-o.throughput.log for o in measured if o.throughput])
    best = {*latency[:_BEST_TOLD].tolist(), *throughput[:_BEST_TOLD].tolist()}
    return [measured[i] for i in sorted({0, *best, *range(n - (_MOST_TOLD - len(best)), n)})]
