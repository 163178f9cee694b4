"""The measuring client on the simulated server: what a study will see."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.core.trial import Phase, Role
from autotune.measure import Endpoint, PhasePlan, measure_phase
from autotune.measure.plan import plan_open_loop
from autotune.measure.prompt import APIS, Api
from autotune.workload.agentic import agentic_short

from .conftest import Server, Start
from .loads import measure_plan, prompts


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


@pytest.mark.alone
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


def test_the_three_apis_measure_the_same(start: Start) -> None:
    """Single turns with the same prompt tokens: only the template of chat adds a few."""
    found: dict[Api, Phase] = {}
    for api in APIS:
        server = start(*EAGLE, "--speed", 20)
        plan = PhasePlan("latency", 2, 40, 0)
        load = prompts(lambda n: 400, max_output_tok=256, extra={"ignore_eos": True})
        found[api], _ = measure_plan(server.url, plan, workload=load, api=api)
        server.stop()
    chat = found.pop("chat")
    assert chat.accept_length is not None and chat.cache_hit_frac is not None
    for phase in found.values():
        assert (phase.n_requests, phase.n_failed) == (40, 0)
        assert phase.percentiles["output_tok"] == chat.percentiles["output_tok"]
        assert phase.percentiles["input_tok"]["p50"] == pytest.approx(
            chat.percentiles["input_tok"]["p50"], abs=12
        )
        assert phase.accept_length == pytest.approx(chat.accept_length, rel=0.08)
        assert phase.accept_histogram == pytest.approx(chat.accept_histogram, abs=0.06)
        assert phase.tpot_s.value == pytest.approx(chat.tpot_s.value, rel=0.3)
        assert phase.ttft_s.value == pytest.approx(chat.ttft_s.value, rel=0.8)


def test_the_accept_histogram_is_of_all_passes_and_tells_the_accept_length(start: Start) -> None:
    phase = measure(start(*EAGLE, "--speed", 20), 4, 24)
    assert len(phase.accept_histogram) == 4, "three steps accept 0 to 3 draft tokens"
    assert sum(phase.accept_histogram) == pytest.approx(1.0)
    mean = 1 + sum(n * share for n, share in enumerate(phase.accept_histogram))
    # The first token is nobody's guess, and of the last pass some tokens may be over the end.
    assert phase.accept_length == pytest.approx(mean, rel=0.03)
    assert phase.accept_length_interval is not None
    assert phase.accept_length_interval.half_width_frac < 0.1


def test_input_and_output_are_counted_in_the_window_and_over_the_whole_run(start: Start) -> None:
    phase = measure(start(*EAGLE, "--speed", 20), 8, 40)
    told = (phase.input_tok_s, phase.input_run_tok_s, phase.output_run_tok_s)
    window_in, run_in, run_out = (rate.value for rate in told if rate is not None)
    assert run_out < phase.output_tok_s.value * 1.1, "ramp and tail are in it"
    assert run_out > 0.5 * phase.output_tok_s.value
    mean_in = phase.percentiles["input_tok"]["p50"] / phase.percentiles["output_tok"]["p50"]
    assert 0.3 * mean_in < window_in / phase.output_tok_s.value < 3 * mean_in
    assert 0.3 < run_in / window_in < 3


def test_gaps_between_tokens_and_between_events_differ_by_the_tokens_of_an_event(
    start: Start,
) -> None:
    phase = measure(start(*EAGLE, "--speed", 20), 1, 10, role="latency")
    assert phase.itl_s is not None and phase.chunk_gap_s is not None
    assert phase.accept_length is not None
    carried = phase.chunk_gap_s.value / phase.itl_s.value
    assert carried == pytest.approx(phase.accept_length, rel=0.1)
    assert phase.itl_s.value == pytest.approx(phase.tpot_s.value, rel=0.3)


def test_an_open_loop_does_not_wait_for_a_server_that_cannot_follow(start: Start) -> None:
    server = start(*EAGLE, "--speed", 20)
    plan = replace(plan_open_loop(3.0, 60.0), max_warm_s=5.0)
    phase, _ = measure_plan(server.url, plan, workload=prompts(max_output_tok=64))
    assert phase.open_loop and phase.n_failed == 0
    assert 110 <= phase.n_requests <= 250, "180 are expected; Poisson"
    server = start(*EAGLE, "--speed", 20, "--max-running-requests", 1)
    queues, _ = measure_plan(server.url, plan, workload=prompts(max_output_tok=64))
    assert queues.percentiles["ttft_s"]["p99"] > 2 * phase.percentiles["ttft_s"]["p99"]
