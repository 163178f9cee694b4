"""What to measure on one launch: the phases, their load and when each may end."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.core.trial import Role, load_name
from autotune.workload.model import STREAM

_N_LATENCY = (20, 48)
"""Fewest and most requests of a latency phase: what a median to 2 % takes, easy and hard."""
_TURNOVERS = (4, 8)
"""How often the whole batch is replaced inside the window of a serving phase, at least and at most.

Stopping as soon as an interval looks narrow makes intervals too narrow. Measured on three simulated
machines at C=16 and 32, 77 windows each: with two turnovers at least and looks 15 % apart, the 95 %
interval held the true throughput in 80 % of windows; with four and looks 25 % apart, in 92 %.
"""
_LATENCY_WINDOW_S = 90.0
"""One request at a time is slow to give a sample: a latency phase may take longer."""
_LATENCY_STAY = 4
"""Turns that a latency phase stays with a session: its few requests are to see many texts."""
PRECISION_FRAC = 0.02
"""Half the 95 % interval of a phase's headline value at which it has seen enough."""


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """What to measure.

    Attributes:
        concurrency: requests in flight, >= 1; of an open loop: ignored.
        n_requests: requests that end inside the window, at most.
        first_session: number of the first session; phases must not share sessions, or the prefix
            cache of one would serve the next.
        min_requests: requests that end inside the window, at least; None: ``n_requests``.
        precision_frac: the phase ends between the two once half the 95 % interval of its headline
            value is below this fraction of it; None: after ``n_requests``.
        max_warm_s: server seconds after which the window opens all the same.
        max_window_s: server seconds after which it closes all the same.
        stay_turns: turns played of a session before the next one is begun; None: all.
        gaps: wait the pauses of a session (tool runs, people) before each turn. Then fewer than
            ``concurrency`` requests are in flight, and it counts sessions.
        rate_req_s: open loop: requests are due at this mean rate (Poisson), whatever the server
            does; None: closed loop.
        replay: open loop at the arrival times of the workload's own trace.
    """

    role: Role
    concurrency: int
    n_requests: int
    first_session: int
    min_requests: int | None = None
    precision_frac: float | None = None
    max_warm_s: float = 20.0
    max_window_s: float = 60.0
    stay_turns: int | None = None
    gaps: bool = False
    rate_req_s: float | None = None
    replay: bool = False

    @property
    def open_loop(self) -> bool:
        return self.rate_req_s is not None or self.replay

    @property
    def load(self) -> str:
        """Its load in a few letters; see ``load_name``."""
        return load_name(self.concurrency, self.rate_req_s, self.replay)

    @property
    def n_warm(self) -> int:
        """Requests that end before the window opens: one turnover, at least two."""
        return max(2, self.concurrency)


def plan_phases(
    latency_concurrency: int, serving_concurrencies: tuple[int, ...]
) -> tuple[PhasePlan, ...]:
    """The phases of one launch, lightest first, on disjoint sets of sessions."""
    plans = [_latency(latency_concurrency)]
    for place, concurrency in enumerate(sorted(serving_concurrencies), start=1):
        plans.append(_serving(concurrency, STREAM * place))
    return tuple(plans)


def plan_levels(levels: tuple[int, ...], precision_frac: float) -> tuple[PhasePlan, ...]:
    """A phase per concurrency; only C=1 is a latency phase."""
    plans = [
        _latency(1) if concurrency == 1 else _serving(concurrency, STREAM * place)
        for place, concurrency in enumerate(levels)
    ]
    return tuple(replace(plan, precision_frac=precision_frac) for plan in plans)


def plan_open_loop(rate_req_s: float | None, window_s: float) -> PhasePlan:
    """Requests at a mean rate, or (None) at the arrival times of the workload's trace.

    A trace is measured from its first request on: its own beginning is part of it.
    """
    return PhasePlan(
        role="serving",
        concurrency=1,
        n_requests=1_000_000,
        first_session=0,
        max_warm_s=0.0 if rate_req_s is None else min(20.0, window_s / 4),
        max_window_s=window_s,
        rate_req_s=rate_req_s,
        replay=rate_req_s is None,
    )


def _latency(concurrency: int) -> PhasePlan:
    fewest, most = (max(n, _TURNOVERS[i] * concurrency) for i, n in enumerate(_N_LATENCY))
    return PhasePlan(
        "latency",
        concurrency,
        most,
        0,
        min_requests=fewest,
        precision_frac=PRECISION_FRAC,
        max_window_s=_LATENCY_WINDOW_S,
        stay_turns=_LATENCY_STAY,
    )


def _serving(concurrency: int, first_session: int) -> PhasePlan:
    fewest, most = (turnovers * max(4, concurrency) for turnovers in _TURNOVERS)
    return PhasePlan(
        "serving",
        concurrency,
        most,
        first_session,
        min_requests=fewest,
        precision_frac=PRECISION_FRAC,
    )
