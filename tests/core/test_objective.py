from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.objective import (
    PRESETS,
    Objective,
    broken_for_good,
    gain_pct,
    objective_named,
    objective_values,
    parse_slo,
    violations,
)
from autotune.errors import ConfigError

from .samples import phase

positive = st.floats(1e-3, 1e5)
weight = st.floats(0.0, 1.0)


@given(weight, positive, positive)
def test_the_baseline_itself_scores_zero(w: float, latency: float, throughput: float) -> None:
    score = Objective("any", w).score(latency, throughput, (latency, throughput))
    assert score == 0.0
    assert gain_pct(score) == 0.0


@given(weight, positive, positive, st.tuples(positive, positive), positive, positive)
def test_a_score_has_no_unit(
    w: float, latency: float, throughput: float, base: tuple[float, float], a: float, b: float
) -> None:
    objective = Objective("any", w)
    in_other_units = objective.score(a * latency, b * throughput, (a * base[0], b * base[1]))
    assert in_other_units == pytest.approx(objective.score(latency, throughput, base), abs=1e-9)


@given(st.floats(0.1, 0.9), positive, positive)
def test_less_latency_and_more_throughput_score_higher(w: float, lat: float, thr: float) -> None:
    objective, base = Objective("any", w), (lat, thr)
    assert objective.score(lat * 0.9, thr, base) > 0.0 > objective.score(lat * 1.1, thr, base)
    assert objective.score(lat, thr * 1.1, base) > 0.0 > objective.score(lat, thr * 0.9, base)


def test_the_agentic_score_weighs_latency_by_seven_tenths() -> None:
    score = PRESETS["agentic"].score(0.78, 1690.0, (0.92, 1733.0))
    assert score == pytest.approx(0.7 * math.log(0.92 / 0.78) + 0.3 * math.log(1690 / 1733))
    assert PRESETS["agentic"].weights == {"latency": 0.7, "throughput": 0.3}
    assert PRESETS["agentic"].describe() == "agentic (0.7 latency, 0.3 throughput)"


def test_an_unknown_objective_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'agentic'") as caught:
        objective_named("agnetic")
    assert "latency_weight" in caught.value.hint


def test_throughput_is_the_geometric_mean_over_the_serving_phases() -> None:
    values = objective_values(
        [
            phase(turn_s=0.9),
            phase("serving", 16, tok_s=1000.0),
            phase("serving", 32, tok_s=1440.0),
        ]
    )
    assert values["latency_s"].value == pytest.approx(0.9)
    assert values["throughput_tok_s"].value == pytest.approx(1200.0)
    assert values["throughput_tok_s"].low <= 1200.0 + 1e-9


def test_objective_values_need_both_roles() -> None:
    with pytest.raises(ValueError, match="latency phase and a serving phase"):
        objective_values([phase()])


@pytest.mark.parametrize(
    ("text", "metric", "percentile", "concurrency", "at_most", "limit"),
    [
        ("ttft_p95_s<=0.5", "ttft_s", "p95", None, True, 0.5),
        ("decode_tok_s@1>=50", "decode_tok_s", None, 1, False, 50.0),
        ("  tpot_s <= 2e-2 ", "tpot_s", None, None, True, 0.02),
        ("decode_p50_tok_s@16>=30", "decode_tok_s", "p50", 16, False, 30.0),
        ("turn_latency_p99_s<=4", "turn_latency_s", "p99", None, True, 4.0),
        ("output_tok_s@32 >= 1500", "output_tok_s", None, 32, False, 1500.0),
        ("accept_length>=2.5", "accept_length", None, None, False, 2.5),
    ],
)
def test_an_slo_is_read_whole(
    text: str,
    metric: str,
    percentile: str | None,
    concurrency: int | None,
    at_most: bool,
    limit: float,
) -> None:
    slo = parse_slo(text)
    read = (slo.metric, slo.percentile, slo.concurrency, slo.at_most, slo.limit)
    assert read == (metric, percentile, concurrency, at_most, limit)
    assert slo.text == text.strip()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ttft_s<0.5", "is not of the form METRIC<=LIMIT, such as 'ttft_p95_s<=0.5'"),
        ("ttft_s", "is not of the form"),
        ("<=0.5", "is not of the form"),
        ("tftt_s<=0.5", "no metric 'tftt_s': did you mean 'ttft_s'?"),
        ("ttft_p42_s<=0.5", "no metric 'ttft_p42_s': did you mean 'ttft_s'?"),
        ("ttft_s<=0", "the limit must be a number above 0"),
        ("ttft_s<=-1", "the limit must be a number above 0"),
        ("ttft_s<=1e999", "the limit must be a number above 0"),
        ("ttft_s<=1.2.3", "the limit must be a number above 0"),
        ("output_p95_tok_s>=1500", "output_tok_s is one number per phase and has no percentiles"),
    ],
)
def test_an_slo_that_cannot_be_kept_is_refused_with_the_reason(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_slo(text)
    assert sentence in caught.value.message
    assert repr(text) in caught.value.message


def test_a_violation_is_relative_to_the_limit() -> None:
    slow = phase(percentiles={"ttft_s": {"p95": 0.75}})
    assert parse_slo("ttft_p95_s<=0.5").violation([slow]) == pytest.approx(0.5)
    assert parse_slo("ttft_p95_s<=1.5").violation([slow]) == pytest.approx(-0.5)
    assert parse_slo("decode_tok_s>=500").violation([slow]) == pytest.approx(0.5)


def test_the_worst_phase_decides() -> None:
    slo = parse_slo("turn_latency_s<=2")
    assert slo.violation([phase(turn_s=1.0), phase("serving", 16, turn_s=3.0)]) == 0.5
    at_one = parse_slo("turn_latency_s@1<=2")
    assert at_one.violation([phase(turn_s=1.0), phase("serving", 16, turn_s=3.0)]) == -0.5


def test_what_was_not_measured_is_violated() -> None:
    assert parse_slo("ttft_s@64<=0.5").violation([phase()]) == 1.0
    assert parse_slo("accept_length>=2").violation([phase(accept_length=None)]) == 1.0
    assert parse_slo("ttft_p95_s<=0.5").violation([phase()]) == 1.0


def test_violations_are_known_by_the_text_of_the_slo() -> None:
    slos = [parse_slo("ttft_s<=0.2"), parse_slo("tpot_s<=0.002")]
    told = violations(slos, iter([phase()]))
    assert told["ttft_s<=0.2"] < 0 < told["tpot_s<=0.002"]


def test_only_what_later_loads_cannot_mend_is_broken_for_good() -> None:
    slos = [parse_slo(t) for t in ("ttft_s<=0.01", "ttft_s@1<=0.01", "ttft_s@16<=0.01")]
    after_one = broken_for_good(slos, [phase()])
    assert set(after_one) == {"ttft_s<=0.01", "ttft_s@1<=0.01"}
    assert not broken_for_good([parse_slo("ttft_s<=1000")], [phase()])
