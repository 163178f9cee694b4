"""A few launches of two configurations: is the interval honest, and is luck called a gain?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.repeats import SMALLEST_GAIN, LaunchNoise, Verdict, difference, verdict_on
from autotune.core.trial import Interval

WITHIN_SD = 0.01
N_STUDIES = 4000

scores = st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=6)


def studies(
    n: int, gap: float, between_sd: float | None, seed: int = 0
) -> list[tuple[Interval, Verdict]]:
    """Confirm stages of two configurations that truly differ by ``gap``.

    ``between_sd`` None: each machine repeats differently well, half of them to better than 1.2 %.
    """
    rng = np.random.default_rng([seed, n])
    found = []
    for _ in range(N_STUDIES):
        sd = 0.012 * math.exp(0.7 * rng.standard_normal()) if between_sd is None else between_sd
        groups = rng.normal([[gap], [0.0]], math.hypot(sd, WITHIN_SD), (2, n)).tolist()
        noise = LaunchNoise.of(groups, WITHIN_SD)
        told = difference(groups[0], groups[1], noise)
        found.append((told, verdict_on(told)))
    return found


def share(found: list[tuple[Interval, Verdict]], verdict: Verdict) -> float:
    return sum(v == verdict for _, v in found) / len(found)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("gap", [0.0, 0.05])
def test_the_interval_holds_the_truth_as_often_as_it_says(n: int, gap: float) -> None:
    found = studies(n, gap, None)
    assert sum(told.low <= gap <= told.high for told, _ in found) / len(found) >= 0.94


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_where_nothing_is_better_luck_is_seldom_called_a_gain(n: int) -> None:
    assert share(studies(n, 0.0, None), "better") <= 0.03
    assert share(studies(n, 0.0, 0.005), "better") <= 0.01
    assert share(studies(n, 0.0, 0.025), "better") <= 0.045, "a machine that repeats badly"


def test_a_real_gain_is_seen_and_more_launches_see_smaller_ones() -> None:
    assert share(studies(2, 0.12, None), "better") >= 0.95
    few, many = (share(studies(n, 0.05, None), "better") for n in (2, 5))
    assert many > few + 0.1 and many >= 0.85
    assert share(studies(2, 0.05, None), "worse") <= 0.01


def test_few_launches_are_inconclusive_and_many_of_the_same_are_a_tie() -> None:
    assert share(studies(2, 0.0, 0.01), "inconclusive") >= 0.9
    assert share(studies(16, 0.0, 0.01), "tie") >= 0.8


@given(scores, scores, st.floats(0, 0.1))
def test_a_difference_turns_round_with_its_sides(
    ours: list[float], theirs: list[float], within_sd: float
) -> None:
    noise = LaunchNoise.of([ours, theirs], within_sd)
    there, back = difference(ours, theirs, noise), difference(theirs, ours, noise)
    assert there.value == pytest.approx(-back.value)
    assert there.low == pytest.approx(-back.high)
    opposite = {"better": "worse", "worse": "better"}
    verdict = verdict_on(there)
    assert verdict_on(back) == opposite.get(verdict, verdict)
    assert verdict not in opposite or abs(there.value) >= SMALLEST_GAIN


@given(scores, scores)
def test_more_comparisons_at_once_ask_for_more_evidence(
    ours: list[float], theirs: list[float]
) -> None:
    noise = LaunchNoise.of([ours, theirs], 0.0)
    one, three = (difference(ours, theirs, noise, n) for n in (1, 3))
    assert three.low < one.low <= one.value == three.value <= one.high < three.high


def test_launches_that_differ_widen_the_interval() -> None:
    calm = LaunchNoise.of([[0.0, 0.001], [0.05, 0.051]], 0.01)
    wild = LaunchNoise.of([[0.0, 0.1], [0.05, 0.15]], 0.01)
    assert calm.sd < LaunchNoise.of([[0.0], [0.05]], 0.01).sd < wild.sd
    assert wild.degrees == calm.degrees == 5
