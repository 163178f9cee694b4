from __future__ import annotations

import pytest

from autotune.core.trial import FailureKind, Interval, Phase
from autotune.measure.validity import ServerLimits, caveats, fatal

ONE = Interval(1.0, 0.9, 1.1)
NOTHING = Interval(0.0, 0.0, 0.0)


def phase(
    *,
    concurrency: int = 16,
    n_requests: int = 80,
    n_failed: int = 0,
    client_cpu_frac: float | None = 0.2,
    turn: Interval = ONE,
    output: Interval = ONE,
    first_error: str = "",
    accept_length: float | None = None,
    loop_frac: float | None = None,
    cache_hit_frac: float | None = 0.75,
) -> Phase:
    return Phase(
        role="serving",
        concurrency=concurrency,
        n_requests=n_requests,
        n_failed=n_failed,
        duration_s=10.0,
        ttft_s=ONE,
        tpot_s=ONE,
        e2e_s=ONE,
        turn_latency_s=turn,
        decode_tok_s=ONE,
        output_tok_s=output,
        accept_length=accept_length,
        in_flight_mean=16.0,
        client_cpu_frac=client_cpu_frac,
        loop_frac=loop_frac,
        cache_hit_frac=cache_hit_frac,
        first_error=first_error,
    )


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
        (phase(cache_hit_frac=0.99), "prompts_cached"),
    ],
)
def test_what_makes_a_number_doubtful_is_named(measured: Phase, code: str) -> None:
    assert codes(measured) == [code]


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
