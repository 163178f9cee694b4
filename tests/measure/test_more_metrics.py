"""What a phase tells beside its headline, on records made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trial import Phase
from autotune.measure.metrics import Limits, headline, summarize
from autotune.measure.observe import Observations
from autotune.measure.plan import PhasePlan
from autotune.measure.records import RequestRecord

PLAN = PhasePlan("serving", 2, 100, 0)


def record(*arrivals: tuple[float, int], sent_s: float = 0.0, **more: object) -> RequestRecord:
    told = {"done_s": arrivals[-1][0] if arrivals else sent_s, **more}
    return RequestRecord(sent_s, arrivals=arrivals, **told)  # type: ignore[arg-type]


def summary(
    *records: RequestRecord,
    window: tuple[float, float] = (0.0, 100.0),
    plan: PhasePlan = PLAN,
    limits: Limits | None = None,
    seen: Observations | None = None,
    n_repeated: int = 0,
) -> Phase:
    return summarize(
        records,
        plan=plan,
        window=window,
        in_flight=[],
        reference_output_tok=100,
        temperature=0.6,
        client_cpu_frac=0.1,
        seen=seen or Observations(),
        n_repeated=n_repeated,
        limits=limits,
    )


def value(interval: object) -> float:
    return float(interval.value)  # type: ignore[attr-defined]


# ---- gaps ---------------------------------------------------------------------------------------

SPECULATED = record((1.0, 1), (1.4, 5), (1.5, 6), (2.0, 11))
"""Ten tokens in 1 s after the first: gaps of 0.4 s for 4, 0.1 s for 1 and 0.5 s for 5."""


def test_an_event_of_several_tokens_is_one_chunk_gap_and_several_token_gaps() -> None:
    phase = summary(SPECULATED)
    assert phase.itl_s is not None and phase.chunk_gap_s is not None
    assert phase.itl_s.value == pytest.approx(1.0 / 10)
    assert phase.chunk_gap_s.value == pytest.approx(1.0 / 3)
    assert phase.tpot_s.value == pytest.approx(0.1)
    assert phase.percentiles["chunk_gap_s"]["p50"] == pytest.approx(0.4)
    assert phase.percentiles["itl_s"]["p99"] == pytest.approx(0.1)


def test_the_time_per_token_is_a_median_of_requests_and_the_token_gap_a_mean_of_tokens() -> None:
    long_and_quick = record((1.0, 1), (2.0, 101))
    short_and_slow = record((1.0, 1), (2.0, 11))
    phase = summary(long_and_quick, short_and_slow, short_and_slow)
    assert phase.tpot_s.value == pytest.approx(0.1)
    assert value(phase.itl_s) == pytest.approx(3.0 / 120)
    assert phase.percentiles["itl_s"]["p50"] == pytest.approx(0.01), "most tokens came quickly"


def test_one_event_has_no_gap() -> None:
    phase = summary(record((1.0, 50)))
    assert value(phase.itl_s) == value(phase.chunk_gap_s) == 0.0
    assert "itl_s" not in phase.percentiles


events = st.lists(st.tuples(st.floats(0.001, 2.0), st.integers(1, 8)), min_size=2, max_size=20)


@given(st.lists(events, min_size=1, max_size=6))
def test_a_percentile_of_token_gaps_is_that_of_every_token_by_itself(
    answers: list[list[tuple[float, int]]],
) -> None:
    records, each = [], []
    for steps in answers:
        at_s, n_tok, arrivals = 0.0, 0, []
        for place, (gap_s, n_new) in enumerate(steps):
            at_s, n_tok = at_s + gap_s, n_tok + n_new
            arrivals.append((at_s, n_tok))
            if place:
                before_s = arrivals[-2][0]
                each += [(at_s - before_s) / n_new] * n_new
        records.append(record(*arrivals))
    found = summary(*records, window=(0.0, 1000.0)).percentiles["itl_s"]
    expected = np.percentile(each, (50, 90, 95, 99), method="inverted_cdf")
    assert list(found.values()) == pytest.approx(list(expected))


# ---- throughput ---------------------------------------------------------------------------------


def test_input_counts_once_the_first_answer_token_has_come() -> None:
    inside = record((5.0, 1), (9.0, 9), n_prompt_tok=600)
    before = record((1.0, 1), (6.0, 9), n_prompt_tok=7000)
    never = record(n_prompt_tok=900, done_s=6.0, error="HTTP 500")
    phase = summary(inside, before, never, window=(4.0, 10.0))
    assert value(phase.input_tok_s) == pytest.approx(100.0)


def test_the_whole_run_has_the_ramp_and_the_tail_that_the_window_leaves_out() -> None:
    steady = record(*((float(s), 10 * s) for s in range(1, 21)), n_prompt_tok=400)
    phase = summary(steady, window=(5.0, 15.0))
    assert phase.output_tok_s.value == pytest.approx(10.0)
    assert value(phase.output_run_tok_s) == pytest.approx(200 / 20)
    late = record((40.0, 100), sent_s=30.0, n_prompt_tok=400)
    phase = summary(steady, late, window=(5.0, 15.0))
    assert phase.output_tok_s.value == pytest.approx(10.0)
    assert value(phase.output_run_tok_s) == pytest.approx(300 / 40)
    assert value(phase.input_run_tok_s) == pytest.approx(800 / 40)


def test_tokens_of_what_was_cut_or_failed_in_mid_stream_were_made_all_the_same() -> None:
    whole = record((1.0, 10), (2.0, 20))
    cut = record((1.0, 10), (2.0, 20), cut=True)
    broken = record((1.0, 10), (2.0, 20), error="the stream broke off")
    phase = summary(whole, cut, broken, window=(0.0, 2.0))
    assert phase.output_tok_s.value == pytest.approx(30.0)
    assert (phase.n_requests, phase.n_failed, phase.n_sent) == (1, 1, 3)


# ---- goodput ------------------------------------------------------------------------------------

QUICK = record((0.1, 1), (1.1, 11))
SLOW_START = record((3.0, 1), (4.0, 11))
SLOW_PACE = record((0.1, 1), (20.1, 11))


@pytest.mark.parametrize(
    ("limits", "n_good"),
    [
        ({"ttft_s": 1.0}, 2),
        ({"tpot_s": 0.5}, 2),
        ({"ttft_s": 1.0, "tpot_s": 0.5}, 1),
        ({"ttft_s": 0.1}, 2),
        ({"e2e_s": 5.0}, 2),
        ({"turn_latency_s": 15.0}, 2),  # 0.1 s + 100 tokens of 0.1 s; 3 s + 10 s; 0.1 s + 200 s
        ({"ttft_s": 0.01}, 0),
    ],
)
def test_goodput_counts_the_requests_that_keep_every_limit(limits: Limits, n_good: int) -> None:
    phase = summary(QUICK, SLOW_START, SLOW_PACE, limits=limits)
    assert value(phase.good_frac) == pytest.approx(n_good / 3)
    assert value(phase.goodput_req_s) == pytest.approx(n_good / 100)


def test_a_failed_request_is_none_of_the_good_ones_and_a_cut_one_is_not_asked() -> None:
    failed = replace(QUICK, error="HTTP 500")
    cut = replace(QUICK, cut=True)
    phase = summary(QUICK, failed, cut, limits={"ttft_s": 1.0})
    assert value(phase.good_frac) == pytest.approx(1 / 2)


def test_an_answer_without_a_pace_is_not_held_against_a_limit_of_it() -> None:
    phase = summary(record((0.1, 50)), limits={"tpot_s": 0.001})
    assert value(phase.good_frac) == 1.0


def test_without_limits_there_is_no_goodput() -> None:
    phase = summary(QUICK)
    assert phase.goodput_req_s is None and phase.good_frac is None


def test_goodput_of_an_open_loop_is_of_those_that_were_due_in_the_window() -> None:
    plan = PhasePlan("serving", 1, 100, 0, rate_req_s=1.0)
    due = [replace(QUICK, due_s=at_s, sent_s=at_s) for at_s in (9.0, 10.0, 15.0, 20.0, 21.0)]
    late = [replace(r, arrivals=((r.sent_s + 0.5, 1), (r.sent_s + 30.0, 11))) for r in due]
    late = [replace(r, done_s=r.arrivals[-1][0]) for r in late]
    phase = summary(*late, window=(10.0, 20.0), plan=plan, limits={"ttft_s": 1.0})
    assert phase.n_requests == 3, "one that is due as the window opens or closes is inside"
    assert value(phase.goodput_req_s) == pytest.approx(3 / 10)


def test_an_open_loop_counts_from_when_a_request_was_due() -> None:
    plan = PhasePlan("serving", 1, 100, 0, rate_req_s=1.0)
    held_back = record((7.0, 1), (8.0, 11), sent_s=6.5, due_s=2.0)
    phase = summary(held_back, plan=plan)
    assert phase.ttft_s.value == pytest.approx(5.0)
    assert phase.e2e_s.value == pytest.approx(6.0)
    assert phase.tpot_s.value == pytest.approx(0.1)


# ---- acceptance ---------------------------------------------------------------------------------


def test_the_histogram_is_of_all_passes_whatever_their_length() -> None:
    one = record((1.0, 1), (2.0, 21), n_verify=10, accept_histogram=(4, 3, 3))
    two = record((1.0, 1), (2.0, 10), n_verify=6, accept_histogram=(5, 0, 0, 1))
    silent = record((1.0, 1), (2.0, 10))
    phase = summary(one, two, silent)
    assert phase.accept_histogram == pytest.approx((9 / 16, 3 / 16, 3 / 16, 1 / 16))
    assert sum(phase.accept_histogram) == pytest.approx(1.0)
    assert phase.accept_length == pytest.approx(31 / 16)
    assert phase.accept_length_interval is not None
    assert phase.accept_length_interval.value == phase.accept_length
    assert phase.accept_length_interval.low < phase.accept_length


def test_a_server_that_tells_no_histogram_has_none() -> None:
    assert summary(record((1.0, 1), (2.0, 21), n_verify=10)).accept_histogram == ()
    assert summary(record((1.0, 1), (2.0, 21))).accept_length_interval is None


# ---- what the server tells ----------------------------------------------------------------------


def test_the_queue_is_a_mean_of_those_that_tell_it() -> None:
    waited = [replace(QUICK, queue_s=s) for s in (0.0, 0.2, 0.4)]
    assert value(summary(*waited, QUICK).queue_s) == pytest.approx(0.2)
    assert summary(QUICK).queue_s is None


def test_what_the_server_ended_is_aborted_and_failed() -> None:
    told = replace(QUICK, aborted=True, error="the server aborted the request")
    phase = summary(QUICK, told, told)
    assert (phase.n_aborted, phase.n_failed, phase.n_requests) == (2, 2, 1)


@pytest.mark.parametrize(
    ("by_answers", "by_server", "n"),
    [(0, None, None), (3, None, 3), (0, 0, 0), (2, 5, 5), (5, 2, 5), (0, 4, 4)],
)
def test_retractions_are_what_the_server_or_the_answers_tell(
    by_answers: int, by_server: int | None, n: int | None
) -> None:
    seen = Observations(n_retractions=by_server)
    assert summary(replace(QUICK, n_retractions=by_answers), seen=seen).n_retractions == n


def test_what_was_observed_is_averaged() -> None:
    seen = Observations(foreign=[0, 1, 5], waiting=[2, 4], lag_s=[0.001] * 99 + [0.5])
    phase = summary(QUICK, seen=seen, n_repeated=7)
    assert (phase.foreign_mean, phase.waiting_mean, phase.n_repeated) == (2.0, 3.0, 7)
    assert phase.client_lag_s is not None and 0.001 <= phase.client_lag_s < 0.5


def test_the_cache_of_first_requests_is_that_of_each_session_alone() -> None:
    first = replace(QUICK, n_prompt_tok=100, n_cached_tok=60, session=1)
    later = replace(QUICK, n_prompt_tok=300, n_cached_tok=280, session=1, sent_s=50.0)
    other = replace(QUICK, n_prompt_tok=100, n_cached_tok=20, session=2, done_s=500.0)
    phase = summary(later, first, other)
    assert phase.cache_first_frac == pytest.approx(80 / 200), "also of those outside the window"
    assert phase.cache_hit_frac == pytest.approx(340 / 400)


# ---- drift and headline -------------------------------------------------------------------------


def test_drift_is_of_throughput_at_a_constant_load_and_of_the_pace_else() -> None:
    ramp = [(float(s), 10 * s if s <= 60 else 600 + 15 * (s - 60)) for s in range(1, 121)]
    jitter = [(at_s + 0.1 * (place % 3), n) for place, (at_s, n) in enumerate(ramp)]
    assert summary(record(*jitter), window=(0.0, 120.0)).drift_frac == pytest.approx(0.5, abs=0.1)
    slower = [
        record((at, 1), (at + (1.0 if at < 50 else 1.3) + 0.01 * (at % 3), 11)) for at in range(99)
    ]
    for plan in (PhasePlan("latency", 1, 99, 0), PhasePlan("serving", 1, 99, 0, rate_req_s=1.0)):
        phase = summary(*slower, window=(0.0, 200.0), plan=plan)
        assert phase.drift_frac == pytest.approx(1 / 1.3 - 1, abs=0.03)


def test_the_headline_of_a_phase_is_what_it_is_stopped_by() -> None:
    told = [record((at + 0.5, 1), (at + 1.5, 11), sent_s=at) for at in map(float, range(30))]
    for plan in (PLAN, PhasePlan("latency", 1, 99, 0)):
        phase = summary(*told, window=(0.0, 31.5), plan=plan)
        assert headline(told, plan, (0.0, 31.5), 100) == phase.headline
    open_loop = summary(*told, plan=PhasePlan("serving", 1, 99, 0, rate_req_s=1.0))
    assert open_loop.headline == open_loop.turn_latency_s


def test_percentiles_are_of_requests() -> None:
    told = [record((at / 100, 1), (at / 100 + 1, 11), n_prompt_tok=at) for at in range(1, 101)]
    found = summary(*told).percentiles
    drawn = summary(*told).quantiles
    assert set(drawn) == {"ttft_s", "tpot_s", "turn_latency_s"} and len(drawn["ttft_s"]) == 21
    assert (drawn["ttft_s"][0], drawn["ttft_s"][10], drawn["ttft_s"][20]) == (0.01, 0.505, 1.0)
    assert found["ttft_s"]["p50"] == pytest.approx(0.505)
    assert found["ttft_s"]["p99"] == pytest.approx(0.9901)
    assert found["input_tok"]["p90"] == pytest.approx(90.1)
    assert set(found) == {
        "ttft_s", "tpot_s", "e2e_s", "turn_latency_s", "decode_tok_s", "output_tok", "input_tok",
        "itl_s", "chunk_gap_s",
    }  # fmt: skip
