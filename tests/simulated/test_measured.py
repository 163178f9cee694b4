"""The measuring client on the simulated server: what a study will see."""

from __future__ import annotations

import pytest

from autotune.core.trial import Phase, Role
from autotune.measure import Endpoint, PhasePlan, measure_phase
from autotune.workload.agentic import agentic_short

from .conftest import Server, Start


def healthy() -> None:
    pass


def measure(
    server: Server, concurrency: int, n_requests: int, *, role: Role = "serving", first: int = 0
) -> Phase:
    speed = server.get("/server_info").json()["simulation"]["speed"]
    endpoint = Endpoint(server.url, "org/model", time_scale=speed)
    plan = PhasePlan(role, concurrency, n_requests, first)
    phase = measure_phase(endpoint, agentic_short(0), plan, check=healthy)
    assert (phase.n_requests, phase.n_failed, phase.first_error) == (n_requests, 0, "")
    return phase


EAGLE = ("--speculative-algorithm", "EAGLE")


def test_values_do_not_depend_on_the_speed(start: Start) -> None:
    phases: list[tuple[Phase, Phase]] = []
    for speed in (4, 10):
        server = start(*EAGLE, "--speed", speed)
        one = measure(server, 1, 8, role="latency")
        many = measure(server, 8, 40, first=1000)
        phases.append((one, many))
        server.stop()
    (one_slow, many_slow), (one_fast, many_fast) = phases
    assert one_fast.turn_latency_s.value == pytest.approx(one_slow.turn_latency_s.value, rel=0.04)
    assert one_fast.tpot_s.value == pytest.approx(one_slow.tpot_s.value, rel=0.04)
    assert many_fast.output_tok_s.value == pytest.approx(many_slow.output_tok_s.value, rel=0.04)
    assert many_fast.turn_latency_s.value == pytest.approx(many_slow.turn_latency_s.value, rel=0.08)


def test_a_phase_on_the_simulated_server_is_complete(start: Start) -> None:
    server = start(*EAGLE, "--speed", 20)
    one = measure(server, 1, 8, role="latency")
    assert one.accept_length is not None and 2.0 < one.accept_length < 4.0
    assert one.cache_hit_frac is not None and one.cache_hit_frac > 0.3
    assert one.in_flight_mean == pytest.approx(1.0, abs=0.1)
    assert one.client_cpu_frac is not None and one.client_cpu_frac < 0.9
    assert one.ttft_s.value < one.turn_latency_s.value < 5.0
    assert one.decode_tok_s.value == pytest.approx(1 / one.tpot_s.value, rel=0.2)


def test_requests_above_the_running_limit_wait_for_their_first_token(start: Start) -> None:
    server = start(*EAGLE, "--speed", 20, "--max-running-requests", 2)
    fits = measure(server, 2, 12)
    queues = measure(server, 6, 18, first=1000)
    assert queues.ttft_s.value > 5 * fits.ttft_s.value
    assert queues.output_tok_s.value == pytest.approx(fits.output_tok_s.value, rel=0.25)
    assert queues.in_flight_mean > 5.5
