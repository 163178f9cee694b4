from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trial import Phase
from autotune.measure.metrics import counted, summarize
from autotune.measure.observe import Observations
from autotune.measure.plan import PhasePlan
from autotune.measure.records import RequestRecord
from autotune.workload.text import output, prose
from autotune.workload.text.documents import document
from autotune.workload.text.pen import Pen
from autotune.workload.text.python import python


def steady(sent_s: float, n_tok: int = 20, *, per_s: float = 0.1, **more: object) -> RequestRecord:
    """First token half a second after sending, then one event of 2 tokens every ``2 per_s``."""
    arrivals = tuple(
        (sent_s + 0.5 + 2 * per_s * place, 2 * (place + 1)) for place in range(n_tok // 2)
    )
    fields = {"n_prompt_tok": 100, "n_verify": n_tok // 2, **more}
    return RequestRecord(sent_s, arrivals[-1][0], arrivals, **fields)  # type: ignore[arg-type]


def summary(
    records: list[RequestRecord],
    window: tuple[float, float] = (0.0, 100.0),
    in_flight: list[tuple[float, int]] | None = None,
) -> Phase:
    return summarize(
        records,
        plan=PhasePlan("serving", 4, 100, 0),
        window=window,
        in_flight=in_flight or [],
        reference_output_tok=200,
        temperature=0.6,
        client_cpu_frac=0.1,
        seen=Observations(),
    )


def test_one_turn_is_the_first_token_and_the_reference_number_of_tokens() -> None:
    phase = summary([steady(float(n)) for n in range(5)])
    assert phase.ttft_s.value == pytest.approx(0.5)
    assert phase.tpot_s.value == pytest.approx(0.1)
    assert phase.turn_latency_s.value == pytest.approx(0.5 + 200 * 0.1)
    assert phase.decode_tok_s.value == pytest.approx(10.0)


def test_latencies_are_of_requests_that_end_inside_the_window() -> None:
    early, inside, late = (steady(at_s) for at_s in (0.0, 10.0, 20.0))
    phase = summary([early, inside, late], (early.done_s, inside.done_s))
    assert phase.n_requests == 1
    assert phase.duration_s == pytest.approx(10.0)


def test_throughput_counts_every_token_inside_the_window() -> None:
    whole = RequestRecord(0.0, 12.0, tuple((float(s), 5 * s) for s in range(1, 13)))
    assert summary([whole], (0.0, 12.0)).output_tok_s.value == pytest.approx(5.0)
    part = summary([whole], (2.0, 8.0))
    assert part.n_requests == 0
    assert part.output_tok_s.value == pytest.approx(5.0)


def test_acceptance_is_all_tokens_over_all_passes() -> None:
    records = [steady(0.0, 40, n_verify=10), steady(0.0, 10, n_verify=5), steady(0.0, n_verify=0)]
    assert summary(records).accept_length == pytest.approx(50 / 15)
    assert summary([steady(0.0, n_verify=0)]).accept_length is None


def test_the_cache_share_is_of_prompt_tokens_and_none_where_nothing_is_told() -> None:
    told = [steady(0.0, n_cached_tok=50), steady(0.0, n_prompt_tok=300, n_cached_tok=150)]
    assert summary(told).cache_hit_frac == pytest.approx(0.5)
    silent = steady(0.0, n_prompt_tok=400)  # without speculation SGLang tells hits only
    assert summary([*told, silent]).cache_hit_frac == pytest.approx(0.25)
    assert summary([steady(0.0)]).cache_hit_frac is None


def test_a_failed_request_is_counted_and_not_timed() -> None:
    phase = summary([steady(0.0), steady(1.0, error="HTTP 500"), steady(2.0, error="other")])
    assert (phase.n_requests, phase.n_failed, phase.first_error) == (1, 2, "HTTP 500")


def test_short_answers_say_nothing_about_the_time_per_token() -> None:
    phase = summary([steady(0.0, 4), steady(0.0, 20)])
    assert phase.n_requests == 2
    assert phase.tpot_s.value == pytest.approx(0.1)
    assert phase.percentiles["tpot_s"]["p99"] == pytest.approx(0.1)


def test_nothing_measured_is_all_zeros() -> None:
    phase = summary([], (5.0, 5.0))
    assert phase.n_requests == 0 and phase.duration_s == 0.0
    assert phase.output_tok_s.value == phase.turn_latency_s.value == 0.0
    assert phase.percentiles == {}


def test_in_flight_is_averaged_over_time() -> None:
    steps = [(0.0, 1), (1.0, 4), (5.0, 2), (9.0, 0)]
    assert summary([], (1.0, 9.0), steps).in_flight_mean == pytest.approx(3.0)
    assert summary([], (0.0, 1.0), steps).in_flight_mean == pytest.approx(1.0)


@given(
    st.lists(st.tuples(st.floats(0, 50), st.integers(1, 60)), min_size=1, max_size=12),
    st.floats(0, 50),
    st.floats(0.1, 50),
)
def test_no_token_is_counted_twice_or_lost(
    sent: list[tuple[float, int]], begin_s: float, length_s: float
) -> None:
    records = [steady(at_s, 2 * n) for at_s, n in sent]
    end_s = begin_s + length_s
    inside = sum(n for r in records for at_s, n in r.increments() if begin_s < at_s <= end_s)
    phase = summary(records, (begin_s, end_s))
    assert phase.output_tok_s.value * (end_s - begin_s) == pytest.approx(inside)
    assert phase.output_tok_s.low <= phase.output_tok_s.value <= phase.output_tok_s.high


def test_a_first_event_of_several_tokens_is_not_spread_over_the_time_before_it() -> None:
    record = RequestRecord(0.0, 3.0, ((1.0, 5), (3.0, 9)))
    assert record.ttft_s == 1.0 and record.e2e_s == 3.0
    assert record.tpot_s == 0.5


def test_answers_that_repeat_themselves_are_counted() -> None:
    pen = Pen("varied")
    varied = prose.prose(pen, 1500)
    turning = varied + " and then it said the same again" * 60
    texts = [varied, python(pen, 1200), turning, "no " * 300]
    phase = summary([steady(float(place), text=said) for place, said in enumerate(texts)])
    assert phase.loop_frac == 0.5


def test_short_answers_say_nothing_about_loops() -> None:
    assert summary([steady(0.0, text="no no no no")]).loop_frac is None


@given(st.integers(0, 10_000))
def test_generated_prose_code_logs_and_json_are_no_loops(seed: int) -> None:
    pen = Pen(f"{seed}")
    kinds = [write(pen, 1500) for write in (prose.prose, python, output.log, document)]
    phase = summary([steady(float(place), text=said) for place, said in enumerate(kinds)])
    assert phase.loop_frac == 0.0


def test_what_broke_off_before_its_tokens_were_told_is_counted_by_its_text() -> None:
    told = replace(steady(0.0, 20), text="x" * 80)  # 4 characters a token
    cut = RequestRecord(
        3.0, 6.0, (), text="y" * 60, cut=True, uncounted=((4.0, 20), (5.0, 40))
    )  # fmt: skip
    assert [r.arrivals for r in counted([told, cut])] == [told.arrivals, ((4.0, 5), (5.0, 15))]
    alone = summary([cut], (0.0, 10.0))
    both = summary([told, cut], (0.0, 10.0))
    assert alone.output_tok_s.value == 0.0
    assert both.output_tok_s.value == pytest.approx((20 + 15) / 10)
