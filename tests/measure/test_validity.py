from __future__ import annotations

from typing import Any

import pytest

from autotune.core.trial import FailureKind, Interval, Phase
from autotune.measure.validity import ServerLimits, caveats, fatal

ONE = Interval(1.0, 0.99, 1.01)
NOTHING = Interval(0.0, 0.0, 0.0)


def phase(
    *, turn: Interval = ONE, output: Interval = ONE, output_tok: float = 200.0, **changed: object
) -> Phase:
    """A phase that nothing is wrong with, but for what is said."""
    sound: dict[str, Any] = {
        "role": "serving",
        "concurrency": 16,
        "n_requests": 80,
        "n_failed": 0,
        "duration_s": 10.0,
        **dict.fromkeys(("ttft_s", "tpot_s", "e2e_s", "decode_tok_s"), ONE),
        "turn_latency_s": turn,
        "output_tok_s": output,
        "accept_length": None,
        "in_flight_mean": 16.0,
        "client_cpu_frac": 0.2,
        "client_lag_s": 0.002,
        "cache_hit_frac": 0.75,
        "cache_first_frac": 0.4,
        "foreign_mean": 0.0,
        "n_retractions": 0,
        "temperature": 0.6,
        "n_sent": 96,
        "percentiles": {"output_tok": {"p50": output_tok}},
    }
    return Phase(**(sound | changed))


CHAIN_OF_4 = ServerLimits(running=48, graph_batch=48, accept_length=5)


def codes(*measured: Phase, limits: ServerLimits = CHAIN_OF_4) -> list[str]:
    return [caveat.code for caveat in caveats(measured, limits)]


def test_a_clean_phase_has_no_caveat() -> None:
    assert codes(phase(accept_length=3.1, loop_frac=0.0)) == []
    assert codes(phase(client_cpu_frac=None), limits=ServerLimits()) == []
    assert fatal(phase()) is None


def test_queueing_is_named() -> None:
    (caveat,) = caveats([phase()], ServerLimits(running=13))
    assert caveat.code == "concurrency_above_running_limit"
    assert caveat.text == "C=16 queues: 13 run at once"


@pytest.mark.parametrize(
    ("measured", "code"),
    [
        (phase(client_cpu_frac=0.9), "client_busy"),
        (phase(n_failed=1), "requests_failed"),
        (phase(n_requests=4), "few_requests"),
        (phase(accept_length=4.8), "accept_length_at_ceiling"),
        (phase(accept_length=1.03), "accept_length_about_one"),
        (phase(loop_frac=0.3), "answers_loop"),
        (phase(cache_first_frac=0.99), "prompts_cached"),
        (phase(client_lag_s=0.09), "client_busy"),
        (phase(n_retractions=3), "retractions"),
        (phase(n_aborted=2), "requests_aborted"),
        (phase(foreign_mean=1.2), "foreign_load"),
        (phase(output=Interval(1.0, 0.9, 1.1)), "wide_interval"),
        (phase(role="latency", turn=Interval(1.0, 0.9, 1.1)), "wide_interval"),
        (phase(output_tok=9.0), "answers_short"),
        (phase(n_repeated=30), "repeated_prompts"),
        (phase(n_repeated=30, temperature=0.0), "repeated_prompts"),
        (phase(n_repeated=30, cache_first_frac=0.99), "repeated_prompts"),
        (phase(rate_req_s=2.0, turn=Interval(1.0, 0.9, 1.1)), "wide_interval"),
        (phase(replay=True, turn=Interval(1.0, 0.9, 1.1)), "wide_interval"),
        (phase(drift_frac=0.12), "drift"),
        (phase(drift_frac=-0.12), "drift"),
    ],
)
def test_what_makes_a_number_doubtful_is_named(measured: Phase, code: str) -> None:
    assert codes(measured) == [code]


@pytest.mark.parametrize(
    "measured",
    [
        phase(drift_frac=0.02),
        phase(n_repeated=3),
        phase(foreign_mean=0.1),
        phase(foreign_mean=None, n_retractions=None, client_lag_s=None, temperature=None),
        phase(cache_first_frac=None, cache_hit_frac=None, percentiles={}),
        phase(role="latency", output=Interval(1.0, 0.8, 1.2)),
        phase(rate_req_s=2.0, output=Interval(1.0, 0.8, 1.2)),
        phase(replay=True, output=Interval(1.0, 0.8, 1.2)),
    ],
)
def test_what_is_usual_is_not_named(measured: Phase) -> None:
    assert codes(measured) == []


def test_a_repeated_prompt_at_temperature_0_is_named_as_such() -> None:
    (caveat,) = caveats([phase(n_repeated=30, temperature=0.0)], CHAIN_OF_4)
    assert caveat.text == "C=16: 30 of 96 prompts were sent before, word for word at temperature 0"


def test_an_open_loop_is_named_by_its_rate_and_a_replay_as_such() -> None:
    (caveat,) = caveats([phase(rate_req_s=2.5, n_failed=1)], CHAIN_OF_4)
    assert caveat.text == "2.5 req/s: 1 request failed"
    (caveat,) = caveats([phase(replay=True, n_failed=2)], CHAIN_OF_4)
    assert caveat.text == "replay: 2 requests failed"


def test_a_faked_accept_length_is_named() -> None:
    assert codes(phase(), limits=ServerLimits(fakes_acceptance=True)) == ["simulated_acceptance"]


def test_a_cache_that_helped_more_or_less_than_with_the_baseline_is_named() -> None:
    def against(hits: float | None) -> list[str]:
        found = caveats([phase(cache_hit_frac=hits)], CHAIN_OF_4, [phase(cache_hit_frac=0.75)])
        return [caveat.code for caveat in found]

    assert against(0.60) == against(0.90) == ["cache_hit_differs"]
    assert against(0.70) == against(0.80) == against(None) == []
    other_load = phase(concurrency=32, cache_hit_frac=0.2)
    assert not caveats([other_load], CHAIN_OF_4, [phase(cache_hit_frac=0.75)])


def test_a_saturated_client_invalidates_the_phase() -> None:
    failure = fatal(phase(client_cpu_frac=0.99, client_lag_s=0.5))
    assert failure is not None and failure.kind is FailureKind.CLIENT_SATURATED
    assert fatal(phase(client_cpu_frac=0.99, client_lag_s=0.01)) is None
    assert fatal(phase(client_cpu_frac=0.5, client_lag_s=0.5)) is None


def test_every_warning_says_what_to_do() -> None:
    doubtful = phase(
        n_requests=3, n_sent=6, n_aborted=1, n_retractions=1, foreign_mean=1.0, client_cpu_frac=0.9,
        output_tok=4.0, n_repeated=3, drift_frac=0.2, cache_first_frac=1.0, loop_frac=0.5,
        accept_length=1.0,
    )  # fmt: skip
    limits = ServerLimits(running=3, graph_batch=1, accept_length=5, fakes_acceptance=True)
    found = caveats([doubtful], limits, [phase()])
    assert len(found) >= 11
    assert found[0].code == "simulated_acceptance", "it takes the meaning of all the rest"
    assert all(caveat.remedy for caveat in found)


def test_graphs_that_end_below_the_running_batch_are_named() -> None:
    assert codes(phase(), limits=ServerLimits(graph_batch=8)) == ["graph_below_batch"]
    assert codes(phase(concurrency=8), limits=ServerLimits(graph_batch=8)) == []
    few = ServerLimits(running=6, graph_batch=8)
    assert codes(phase(), limits=few) == ["concurrency_above_running_limit"]


def test_one_draft_token_is_often_accepted_and_that_says_nothing() -> None:
    assert codes(phase(accept_length=1.99), limits=ServerLimits(accept_length=2)) == []


def test_without_speculation_the_accept_length_says_nothing() -> None:
    assert codes(phase(accept_length=1.0), limits=ServerLimits()) == []


def test_what_holds_for_the_whole_launch_is_said_once() -> None:
    easy = phase(accept_length=4.9, loop_frac=0.5)
    assert codes(easy, easy, easy) == ["answers_loop", "accept_length_at_ceiling"]


def test_a_few_failures_are_not_fatal_and_many_are() -> None:
    assert fatal(phase(n_requests=95, n_failed=5)) is None
    failure = fatal(phase(n_requests=94, n_failed=6, first_error="HTTP 500: out of memory"))
    assert failure is not None and failure.kind is FailureKind.REQUEST_ABORTED
    assert failure.evidence == "6 of 100 requests failed at C=16: HTTP 500: out of memory"


def test_nothing_measured_is_fatal() -> None:
    assert fatal(phase(n_requests=0)) is not None


@pytest.mark.parametrize("measured", [phase(turn=NOTHING), phase(output=NOTHING)])
def test_a_phase_without_a_value_never_becomes_a_perfect_score(measured: Phase) -> None:
    failure = fatal(measured)
    assert failure is not None and failure.stage == "serving"
    assert failure.evidence == (
        "none of 80 answers at C=16 came in two events and 8 tokens or more: nothing to time"
    )
