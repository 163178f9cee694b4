from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.objective import PRESETS, Objective
from autotune.core.ranking import Ranking, rank, simplicity
from autotune.core.trial import FailureKind, Interval, TrialRecord

from .samples import chain, crashed, exactly, measured

AGENTIC = PRESETS["agentic"]


def ranked(*records: TrialRecord) -> Ranking:
    return rank(records, AGENTIC)


def test_the_best_score_comes_first_and_the_baseline_scores_zero() -> None:
    standings = ranked(
        measured(0, 3, 1.0, 1000.0, baseline=True),
        measured(1, 4, 0.8, 980.0),
        measured(2, 5, 1.2, 700.0),
    )
    assert [s.trial for s in standings.standings] == [1, 0, 2]
    assert standings.baseline is not None and standings.baseline.score == 0.0
    assert standings.best is not None and standings.best.trial == 1
    assert standings.best.gain_vs_baseline_pct == pytest.approx(
        100 * (math.exp(0.7 * math.log(1 / 0.8) + 0.3 * math.log(0.98)) - 1)
    )


def test_launches_of_one_configuration_are_pooled_on_the_log_scale() -> None:
    pooled = ranked(measured(0, 3, 1.0, 1000.0), measured(4, 3, 1.21, 1000.0)).standings
    assert len(pooled) == 1
    assert pooled[0].trials == (0, 4) and pooled[0].trial == 0
    assert pooled[0].latency_s.value == pytest.approx(1.1)
    assert pooled[0].latency_s.low < 1.0 < 1.21 < pooled[0].latency_s.high


def test_launches_that_agree_are_not_surer_than_their_own_intervals_allow() -> None:
    one = measured(0, 3, 1.0, 1000.0, half=0.02)
    pooled = ranked(one, measured(1, 3, 1.0, 1000.0, half=0.02)).standings[0].latency_s
    assert pooled.half_width_frac == pytest.approx(0.02 / math.sqrt(2), rel=0.01)


def test_flags_in_another_order_are_the_same_configuration() -> None:
    turned = TrialRecord(
        number=1,
        status="complete",
        flags=dict(reversed(chain(3).items())),
        objectives={"latency_s": exactly(1.0), "throughput_tok_s": exactly(900.0)},
    )
    assert len(ranked(measured(0, 3, 1.0, 1000.0), turned).standings) == 1


def test_a_tie_goes_to_the_simpler_flags() -> None:
    close = ranked(
        measured(0, 3, 1.0, 1000.0, baseline=True),
        measured(1, 5, 0.8000, 1000.0),
        measured(2, 4, 0.8010, 1000.0),
    )
    assert close.standings[0].trial == 1
    assert close.best is not None and close.best.trial == 2


def test_a_clear_win_is_no_tie() -> None:
    clear = ranked(measured(0, 3, 1.0, 1000.0), measured(1, 6, 0.9, 1000.0))
    assert clear.best is not None and clear.best.trial == 1


def test_simpler_means_fewer_steps_then_narrower_then_fewer_tokens_then_less_memory() -> None:
    tree = chain(2) | {"speculative_eagle_topk": 2, "speculative_num_draft_tokens": 4}
    order = [chain(2, 0.8), chain(2, 0.9), tree, chain(3, 0.8)]
    assert sorted(order, key=simplicity) == order


def test_failed_trials_are_counted_and_never_ranked() -> None:
    standings = ranked(
        measured(0, 3, 1.0, 1000.0, baseline=True),
        crashed(1, 7),
        crashed(2, 8),
        crashed(3, 9, FailureKind.GRAPH_CAPTURE_OOM),
        measured(4, 4, 0.5, 2000.0, feasible=False),
    )
    assert {s.trial for s in standings.standings} == {0, 4}
    assert standings.counts == {
        "complete": 1,
        "failed": 3,
        "infeasible": 1,
        "pruned": 0,
        "by_kind": {"graph_capture_oom": 1, "runtime_oom": 2},
    }


def test_a_crash_never_carries_a_number() -> None:
    lying = TrialRecord(
        number=1,
        status="failed",
        flags=chain(4),
        objectives={"latency_s": exactly(0.1), "throughput_tok_s": exactly(9e9)},
        failure=crashed(1, 4).failure,
    )
    assert [s.trial for s in ranked(measured(0, 3, 1.0, 1000.0), lying).standings] == [0]


def test_an_infeasible_winner_is_neither_best_nor_on_the_front() -> None:
    standings = ranked(
        measured(0, 3, 1.0, 1000.0, baseline=True), measured(1, 4, 0.5, 2000.0, feasible=False)
    )
    assert standings.best is not None and standings.best.trial == 0
    assert [s.trial for s in standings.front] == [0]


def test_one_infeasible_launch_makes_the_configuration_infeasible() -> None:
    pooled = ranked(measured(0, 3, 1.0, 1000.0), measured(1, 3, 1.0, 1000.0, feasible=False))
    assert pooled.feasible == () and pooled.best is None and pooled.knee is None


def test_an_empty_study_ranks_to_nothing() -> None:
    nothing = ranked(crashed(0, 3))
    assert nothing.to_dict("s") == {
        "study": "s",
        "objective": {"name": "agentic", "weights": {"latency": 0.7, "throughput": 0.3}},
        "baseline": None,
        "best": None,
        "knee": None,
        "front": [],
        "ties": [],
        "perhaps": [],
        "hypervolume_frac": None,
        "weight_ranges": [],
        "n_trials": {
            "complete": 0,
            "failed": 1,
            "infeasible": 0,
            "pruned": 0,
            "by_kind": {"runtime_oom": 1},
        },
    }


value = st.floats(0.1, 10.0)


@given(st.lists(st.tuples(value, value), min_size=1, max_size=12))
def test_best_and_knee_are_measured_and_the_front_rises(pairs: list[tuple[float, float]]) -> None:
    records = [measured(n, n + 1, *pair) for n, pair in enumerate(pairs)]
    standings = rank(records, AGENTIC)
    assert len(standings.standings) == len(records)
    assert standings.knee in standings.front
    assert standings.best is not None
    assert standings.best.score >= standings.standings[0].score - 0.005
    for left, right in itertools.pairwise(standings.front):
        assert left.point[0] < right.point[0] and left.point[1] < right.point[1]


def test_the_document_of_a_standing_is_plain() -> None:
    standing = ranked(measured(7, 3, 1.0, 1000.0, half=0.0)).standings[0]
    assert standing.to_dict() == {
        "trial": 7,
        "trials": [7],
        "flags": chain(3),
        "latency_s": {"value": 1.0, "low": 1.0, "high": 1.0},
        "throughput_tok_s": {"value": 1000.0, "low": 1000.0, "high": 1000.0},
        "score": 0.0,
        "gain_vs_baseline_pct": 0.0,
        "constraints": {},
    }
    assert Interval(0.0, 0.0, 0.0).half_width_frac == 0.0


def test_other_weights_score_the_same_measurements_as_ranking_them_anew() -> None:
    records = [
        measured(0, 3, 1.0, 1000.0, baseline=True), measured(1, 4, 0.8, 950.0),
        measured(2, 2, 1.2, 1200.0), measured(3, 5, 0.7, 600.0, feasible=False),
    ]  # fmt: skip
    other = Objective("other", 0.1)
    assert rank(records, PRESETS["agentic"], chosen=0).under(other) == rank(records, other)


def test_each_weight_belongs_to_the_winner_of_its_range() -> None:
    records = [measured(0, 3, 1.0, 1000.0, baseline=True), measured(1, 4, 0.8, 900.0)]
    ranges = rank(records, PRESETS["agentic"]).weight_ranges()
    assert [s.trial for s, _, _ in ranges] == [0, 1]
    at = ranges[0][2]
    assert at == pytest.approx(math.log(10 / 9) / math.log(10 / 8 * 10 / 9))


def test_what_only_noise_keeps_off_the_front_is_named() -> None:
    ranking = ranked(
        measured(0, 3, 1.0, 1000.0, baseline=True), measured(1, 4, 1.003, 998.0),
        measured(2, 5, 1.3, 700.0),
    )  # fmt: skip
    assert [s.trial for s in ranking.front] == [0]
    assert [s.trial for s in ranking.perhaps] == [1]


def test_the_hypervolume_begins_at_the_baseline() -> None:
    ranking = ranked(measured(0, 3, 1.0, 1000.0, baseline=True), measured(1, 4, 0.8, 1100.0))
    assert ranking.hypervolume_frac == pytest.approx(0.2 * 0.1)
    assert ranked(measured(0, 3, 1.0, 1000.0, baseline=True)).hypervolume_frac == 0.0
