"""When a phase measures: opening, counting, and the three ways to its end."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trial import Phase
from autotune.measure import Endpoint, PhasePlan, measure_phase
from autotune.measure.plan import plan_levels, plan_open_loop, plan_phases
from autotune.measure.records import RequestRecord
from autotune.measure.window import Window

from .scripted import Exchange, ScriptedServer, refuse, talk
from .sessions import SHORT, healthy, sessions_of

PLAN = PhasePlan("serving", 4, 40, 0, min_requests=10, precision_frac=0.02)


def ended(at_s: float, *, ok: bool = True) -> RequestRecord:
    return RequestRecord(at_s - 1, at_s, ((at_s, 9),), error="" if ok else "HTTP 500")


def fed(window: Window, times: list[float]) -> Window:
    for at_s in times:
        if window.closed_s is None:
            window.take(ended(at_s))
    return window


# ---- plans --------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 256), min_size=1, max_size=5, unique=True))
def test_every_phase_waits_for_one_turnover_and_measures_two_at_least(levels: list[int]) -> None:
    for plan in plan_levels(tuple(sorted(levels)), 0.01):
        assert plan.role == ("latency" if plan.concurrency == 1 else "serving")
        assert plan.n_warm >= plan.concurrency
        assert plan.min_requests is not None
        assert 2 * plan.concurrency <= plan.min_requests < plan.n_requests
        assert plan.precision_frac == 0.01 and not plan.open_loop


def test_a_latency_phase_of_several_in_flight_sees_as_many_turnovers() -> None:
    latency, serving = plan_phases(32, (32,))
    assert latency.min_requests == serving.min_requests
    assert latency.n_requests == serving.n_requests


# ---- closed loop --------------------------------------------------------------------------------


def test_the_window_opens_after_one_turnover_and_closes_after_the_last_wanted_request() -> None:
    window = fed(Window(PLAN, 0.0), [0.1 * n for n in range(1, 60)])
    assert window.opened_s == pytest.approx(0.4)
    assert window.span == pytest.approx((0.4, 4.4))


@given(
    st.lists(st.floats(0.01, 3.0), min_size=60, max_size=60),
    st.integers(1, 12),
    st.integers(1, 40),
    st.floats(1.0, 30.0),
    st.floats(1.0, 60.0),
)
def test_a_window_holds_what_was_wanted_or_lasts_as_long_as_it_may(
    gaps: list[float], concurrency: int, n_requests: int, max_warm_s: float, max_window_s: float
) -> None:
    plan = PhasePlan(
        *("serving", concurrency, n_requests, 0), max_warm_s=max_warm_s, max_window_s=max_window_s
    )
    times = [math.fsum(gaps[: n + 1]) for n in range(len(gaps))]
    window = fed(Window(plan, 0.0), times)
    if window.opened_s is None:
        return
    before = [at_s for at_s in times if at_s <= window.opened_s]
    assert len(before) >= 2
    assert len(before) <= plan.n_warm or window.opened_s >= max_warm_s
    if window.span is None:
        return
    inside = [at_s for at_s in times if window.opened_s < at_s <= window.span[1]]
    assert 1 <= len(inside) <= n_requests
    if len(inside) < n_requests:
        assert window.span[1] - window.span[0] >= max_window_s
        assert inside[-1] == window.span[1]
        assert all(at_s - window.opened_s < max_window_s for at_s in inside[:-1])
    assert window.share(window.span[1]) == 1.0


def test_it_is_looked_at_from_the_fewest_requests_on_and_ever_more_rarely() -> None:
    window, due = Window(PLAN, 0.0), []
    for n in range(1, 44):
        window.take(ended(float(n)))
        if window.is_due:
            due.append(n - 4)
            window.judge(0.5, float(n))
    assert due[0] == 10
    steps = [after - before for before, after in itertools.pairwise(due)]
    assert steps == sorted(steps) and steps[-1] >= 4


def test_two_narrow_looks_in_a_row_close_it_at_the_second() -> None:
    window = fed(Window(PLAN, 0.0), [float(n) for n in range(1, 15)])
    for half_width, at_s in ((0.01, 15.0), (0.03, 16.0), (0.02, 17.0)):
        window.judge(half_width, at_s)
        assert window.closed_s is None
    window.judge(0.0199, 18.0)
    assert window.closed_s == 18.0
    window.close(99.0)
    assert window.closed_s == 18.0, "the first end counts"


def test_a_plan_without_a_precision_is_never_looked_at() -> None:
    window = Window(replace(PLAN, precision_frac=None), 0.0)
    for n in range(1, 44):
        window.take(ended(float(n)))
        assert not window.is_due


def test_too_many_failures_close_it() -> None:
    window = Window(PLAN, 0.0)
    for n in range(3):
        window.take(ended(float(n), ok=False))
    assert window.closed_s == 2.0 and window.span is None


# ---- open loop ----------------------------------------------------------------------------------


def test_the_window_of_an_open_loop_has_the_times_of_its_plan_whatever_ends() -> None:
    plan = plan_open_loop(5.0, 40.0)
    window = Window(plan, 100.0)
    for n in range(200):
        window.take(ended(100.0 + n / 3))
        window.pass_time(100.0 + n / 3)
    assert window.span == (110.0, 150.0)


def test_a_trace_is_measured_from_its_beginning() -> None:
    window = Window(plan_open_loop(None, 40.0), 100.0)
    window.pass_time(100.0)
    assert window.opened_s == 100.0


def test_an_open_loop_gives_up_a_server_that_refuses_everything() -> None:
    window = Window(plan_open_loop(5.0, 40.0), 0.0)
    for n in range(20):
        assert window.closed_s is None
        window.take(ended(n / 5, ok=False))
    assert window.closed_s == pytest.approx(19 / 5)


def test_an_open_loop_goes_on_where_some_are_answered() -> None:
    window = Window(plan_open_loop(5.0, 1e6), 0.0)
    for n in range(500):
        window.take(ended(n / 5, ok=n == 7))
    assert window.closed_s is None


# ---- on a server --------------------------------------------------------------------------------


def measure(server: ScriptedServer, plan: PhasePlan, **more: object) -> Phase:
    return measure_phase(Endpoint(server.url, "m"), SHORT, plan, check=healthy, **more)  # type: ignore[arg-type]


def test_a_steady_server_is_known_soon_and_the_phase_ends() -> None:
    plan = PhasePlan("latency", 1, 400, 0, min_requests=12, precision_frac=0.2)
    with ScriptedServer(talk(0.01, 0.005)) as server:
        phase = measure(server, plan)
    assert 12 <= phase.n_requests < 400
    assert phase.turn_latency_s.half_width_frac <= 0.2


def test_a_fickle_server_is_measured_to_the_cap() -> None:
    rng = Random(3)

    async def script(exchange: Exchange) -> None:
        await talk(0.0, rng.choice((0.001, 0.02)))(exchange)

    plan = PhasePlan("latency", 1, 40, 0, min_requests=4, precision_frac=1e-6)
    with ScriptedServer(script) as server:
        phase = measure(server, plan)
    assert phase.n_requests == 40
    assert phase.turn_latency_s.half_width_frac > 1e-6


def test_the_throughput_is_known_soon_too_and_what_is_in_flight_counts() -> None:
    plan = PhasePlan("serving", 4, 4000, 0, min_requests=8, precision_frac=0.5)
    with ScriptedServer(talk(0.01, 0.01, (1, 2, 2, 2))) as server:
        phase = measure(server, plan)
    assert 8 <= phase.n_requests < 4000
    assert phase.output_tok_s.half_width_frac <= 0.5
    assert phase.in_flight_mean > 3.0


def test_an_open_loop_that_is_refused_everything_ends_soon() -> None:
    with ScriptedServer(refuse()) as server:
        phase = measure(server, plan_open_loop(200.0, 3000.0))
        n_sent = len(server.exchanges)
    assert phase.n_requests == 0 and 20 <= phase.n_failed < 200 and n_sent < 200


def test_a_short_trace_ends_the_phase_and_is_measured_whole() -> None:
    trace = sessions_of(2, gap_s=0.05, n_sessions=5, starts_every_s=0.05)
    with ScriptedServer(talk(0.01, 0.005)) as server:
        phase = measure_phase(
            Endpoint(server.url, "m"), trace, plan_open_loop(None, 600.0), check=healthy
        )
    assert (phase.n_requests, phase.n_failed, phase.n_sent) == (10, 0, 10)
    assert phase.duration_s < 30
    assert phase.replay and phase.open_loop and phase.load == "replay"


def test_what_the_progress_raises_ends_an_open_loop_too() -> None:
    def progress(share: float) -> None:
        raise ZeroDivisionError

    with ScriptedServer(talk(0.0, 0.0)) as server, pytest.raises(ZeroDivisionError):
        measure(server, plan_open_loop(20.0, 0.4), progress=progress)


def test_an_open_loop_measures_for_its_time_and_waits_for_the_last_answer() -> None:
    with ScriptedServer(talk(0.2, 0.1)) as server:
        phase = measure(server, plan_open_loop(30.0, 1.2))
        assert len(server.exchanges) == phase.n_sent
    assert phase.duration_s == pytest.approx(1.2)
    assert phase.rate_req_s == 30.0 and phase.load == "30 req/s"
    assert phase.n_failed == 0
    assert 15 <= phase.n_requests <= 60, "36 are expected; Poisson"
    assert phase.percentiles["e2e_s"]["p50"] >= 0.5, "none was broken off"
    assert phase.concurrency == max(1, round(phase.in_flight_mean)) > 4


def test_a_stall_of_the_server_shows_in_an_open_loop() -> None:
    """In a closed loop one request waits; here everyone who was due meanwhile."""

    def stalling(server_s: list[float]) -> ScriptedServer:
        async def script(exchange: Exchange) -> None:
            if not server_s:
                server_s.append(exchange.began_s + 1.2)
            start_s, length_s = server_s[0], 1.0
            stalls = start_s <= exchange.began_s < start_s + length_s
            wait_s = start_s + length_s - exchange.began_s if stalls else 0.0
            await talk(wait_s, 0.002)(exchange)

        return ScriptedServer(script)

    closed = PhasePlan("latency", 1, 10_000, 0, max_window_s=3.0, max_warm_s=0.1)
    with stalling([]) as server:
        one = measure(server, closed)
    with stalling([]) as server:
        open_loop = measure(server, replace(plan_open_loop(40.0, 3.0), max_warm_s=0.1))
    assert one.n_requests > 150 and one.percentiles["ttft_s"]["p99"] < 0.4
    assert open_loop.percentiles["ttft_s"]["p99"] > 0.6
    assert open_loop.percentiles["ttft_s"]["p90"] > 0.3
