"""Two measurements of the same load: what changed, and whether it is real."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.compare import Difference, differences, ratio_change
from autotune.core.trial import Interval, Phase, TrialRecord

from .samples import exactly, phase

intervals = st.builds(
    lambda value, down, up: Interval(value, value * (1 - down), value * (1 + up)),
    st.floats(1e-3, 1e5),
    st.floats(0, 0.9),
    st.floats(0, 0.9),
)


@given(intervals, intervals)
def test_a_change_turns_round_with_its_sides(before: Interval, after: Interval) -> None:
    there, back = ratio_change(before, after), ratio_change(after, before)
    assert (1 + there.value) * (1 + back.value) == pytest.approx(1.0)
    assert (1 + there.low) * (1 + back.high) == pytest.approx(1.0)
    assert (1 + there.high) * (1 + back.low) == pytest.approx(1.0)


@given(intervals, intervals)
def test_a_change_lies_in_its_interval_which_no_side_alone_has(
    before: Interval, after: Interval
) -> None:
    change = ratio_change(before, after)
    assert change.low <= change.value <= change.high
    assert change.value == pytest.approx(after.value / before.value - 1)
    alone = ratio_change(exactly(before.value, 0.0), after)
    assert change.low <= alone.low + 1e-9 and alone.high <= change.high + 1e-9


@given(intervals, intervals, st.floats(1e-3, 1e3))
def test_a_change_has_no_unit(before: Interval, after: Interval, scale: float) -> None:
    there = ratio_change(before, after)
    sides = (Interval(*(scale * x for x in (s.value, s.low, s.high))) for s in (before, after))
    scaled = ratio_change(*sides)
    assert scaled.value == pytest.approx(there.value, rel=1e-9, abs=1e-9)
    assert scaled.low == pytest.approx(there.low, rel=1e-9, abs=1e-9)


@given(intervals)
def test_what_is_equal_has_not_changed(same: Interval) -> None:
    change = ratio_change(same, same)
    assert change.value == 0.0 and change.low <= 0.0 <= change.high


def test_half_widths_add_in_squares() -> None:
    change = ratio_change(exactly(10.0, 0.03), exactly(10.0, 0.04))
    assert math.log1p(change.high) == pytest.approx(0.05, rel=0.03)
    lonely = Interval(1.0, 0.0, 1.0)
    assert ratio_change(lonely, lonely).low > -1.0, "a bound of 0 is no division by 0"


def load(**changed: object) -> Phase:
    """A phase at C=16 with intervals of 1 %, but for what is said."""
    sure = {name: exactly(1.0, 0.01) for name in METRICS}
    said = {"workload": "agentic"} | sure | changed
    return msgspec.structs.replace(phase("serving", 16, accept_length=None), **said)


METRICS = ("ttft_s", "tpot_s", "e2e_s", "turn_latency_s", "decode_tok_s", "output_tok_s")


def compared(before: Phase, after: Phase) -> list[Difference]:
    old, new = (
        TrialRecord(number=0, status="complete", flags={}, phases=[one]) for one in (before, after)
    )
    return list(differences(old, new))


@dataclass(frozen=True)
class Case:
    metric: str
    factor: float
    half_frac: float
    verdict: str


@pytest.mark.parametrize(
    "case",
    [
        Case("output_tok_s", 1.10, 0.01, "better"),
        Case("output_tok_s", 0.90, 0.01, "worse"),
        Case("turn_latency_s", 1.10, 0.01, "worse"),
        Case("turn_latency_s", 0.90, 0.01, "better"),
        Case("ttft_s", 0.90, 0.2, "tie"),
        Case("tpot_s", 1.004, 0.0001, "tie"),  # surer than any launch repeats
        Case("tpot_s", 1.006, 0.0001, "worse"),
        Case("output_tok_s", 1.0, 0.01, "tie"),
    ],
    ids=str,
)
def test_a_verdict_knows_which_way_is_up_and_what_is_noise(case: Case) -> None:
    before = load(**{case.metric: exactly(5.0, case.half_frac)})
    after = load(**{case.metric: exactly(5.0 * case.factor, case.half_frac)})
    verdicts = {d.metric: d.verdict for d in compared(before, after)}
    assert verdicts.pop(case.metric) == case.verdict
    assert set(verdicts.values()) == {"tie"}
    back = {d.metric: d.verdict for d in compared(after, before)}
    turned = {"better": "worse", "worse": "better", "tie": "tie"}
    assert back[case.metric] == turned[case.verdict]


def test_acceptance_is_compared_where_both_speculate() -> None:
    three, four = (
        load(accept_length=n, accept_length_interval=exactly(n, 0.01)) for n in (3.0, 4.0)
    )
    assert {d.metric: d.verdict for d in compared(three, four)}["accept_length"] == "better"
    assert "accept_length" not in {d.metric for d in compared(load(), four)}


@pytest.mark.parametrize(
    "other",
    [
        {"concurrency": 8},
        {"role": "latency"},
        {"rate_req_s": 2.0},
        {"replay": True},
        {"gaps": True},
        {"workload": "chat"},
    ],
)
def test_unlike_loads_are_not_compared(other: dict[str, object]) -> None:
    assert compared(load(), load(**other)) == []
    assert compared(load(**other), load()) == []


@pytest.mark.parametrize("more", [{"rate_req_s": 2.0}, {"replay": True}])
def test_open_loops_are_alike_however_many_were_in_flight(more: dict[str, object]) -> None:
    found = compared(load(concurrency=3, **more), load(concurrency=7, **more))
    assert len(found) == 4
    assert {d.load for d in found} == {"2 req/s" if "rate_req_s" in more else "replay"}
