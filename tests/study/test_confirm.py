"""The confirm stage: what it launches, what it makes of it, and that it loses nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from optuna.trial import TrialState

from autotune.core.objective import PRESETS
from autotune.core.ranking import rank
from autotune.core.trial import FailureKind, Flags, Interval, TrialRecord
from autotune.errors import Interrupted, LaunchError
from autotune.events import ConfirmStarted, Event, TrialEnded
from autotune.search.observation import observations
from autotune.space.rules import STEPS
from autotune.study.confirm import ConfirmPlan, ConfirmStage, judged
from autotune.study.confirmation import Confirmation, ConfirmLaunch, Finalist, Place
from autotune.study.tuner import Tuner
from autotune.study.verdict import confirmed

from .fakes import Bench, FakeEvaluator, Model, Outcome, asked, chain, cut_off, record_of, trade_off

AGENTIC = PRESETS["agentic"]
N_SEARCH = 5
"""Launches of the search on the five configurations of these tests; number 5 is the first fresh."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def searched(bench: Bench) -> Tuner:
    """A study whose search is over: steps 5 is the best, steps 2 the baseline."""
    tuner = bench.tuner()
    tuner.run()
    assert len(tuner.records) == N_SEARCH
    return tuner


def stage_of(
    bench: Bench, model: Model = trade_off, *, n_each: int = 2, n_finalists: int = 1
) -> tuple[ConfirmStage, Tuner]:
    """A stage of a new process that goes on with a study."""
    tuner = bench.tuner(model)
    tuner.resume()
    plan = ConfirmPlan.of(tuner.ranking(), n_each, n_finalists)
    assert plan is not None
    stage = ConfirmStage(
        plan, tuner.launcher, tuner.evaluator, bench.objective, bench.baseline, tuner.records
    )
    return stage, tuner


def failing(*numbers: int, kind: FailureKind) -> Model:
    def model(flags: Flags, number: int) -> Outcome:
        return kind if number in numbers else trade_off(flags, number)

    return model


def test_winner_and_baseline_are_launched_in_turns_and_compared(bench: Bench) -> None:
    searched(bench)
    stage, tuner = stage_of(bench)
    found = stage.run()
    assert asked(tuner) == [2, 5, 5, 2], "every second round in the opposite order"
    winner = found.finalists[0]
    assert winner.gain is not None and winner.verdict == found.verdict == "better"
    assert winner.gain.value == pytest.approx(2.5**0.7 * 2.5**0.3 - 1)
    assert winner.launches == (6, 7) and found.baseline.launches == (5, 8)
    assert found.use == found.winner and found.is_confirmed and found.n_left == 0
    assert [e.n_launches for e in bench.events if isinstance(e, ConfirmStarted)] == [4]
    told = confirmed(found, AGENTIC)
    assert told.title == "Better" and "confirmed on 2 fresh launches" in told.text


def test_whoever_is_told_of_a_launch_finds_what_it_showed(bench: Bench) -> None:
    """As the note on the study does, which would stay at the last launch but one."""
    searched(bench)
    stage, _ = stage_of(bench)
    left: list[int] = []

    def look(event: Event) -> None:
        if isinstance(event, TrialEnded):
            found = bench.store.confirmation(bench.store.open())
            assert found is not None
            left.append(found.n_left)

    stage.launcher.listener = look
    stage.run()
    assert left == [3, 2, 1, 0]


def test_fresh_launches_are_no_members_of_the_search(bench: Bench) -> None:
    before = searched(bench)
    choice = before.choice
    stage_of(bench)[0].run()
    study = bench.store.open()
    assert [t.state for t in study.trials] == [TrialState.COMPLETE] * (N_SEARCH + 4)
    assert all(t.params == {} for t in study.trials[N_SEARCH:])
    assert [t.user_attrs["record"]["role"] for t in study.trials[N_SEARCH:]] == ["confirm"] * 4
    assert bench.records() == before.records
    seen = observations(study, bench.space)
    assert [o.number for o in seen] == list(range(N_SEARCH))
    assert choice is not None and choice.holds_for(bench.records(), bench.objective)
    again = bench.tuner()
    assert "every configuration" in again.run() and asked(again) == []


def test_what_was_confirmed_is_not_launched_again_and_more_rounds_add_to_it(bench: Bench) -> None:
    searched(bench)
    first = stage_of(bench)[0].run()
    stage, tuner = stage_of(bench)
    assert stage.run() == first and asked(tuner) == []
    stage, tuner = stage_of(bench, n_each=3)
    more = stage.run()
    assert asked(tuner) == [2, 5] and len(more.finalists[0].launches) == 3


@pytest.mark.parametrize("number", [5, 6, 8])
def test_a_signal_keeps_what_was_measured_and_the_next_run_goes_on(
    bench: Bench, number: int
) -> None:
    searched(bench)

    def model(flags: Flags, at: int) -> Outcome:
        return cut_off() if at == number else trade_off(flags, at)

    with pytest.raises(Interrupted):
        stage_of(bench, model)[0].run()
    assert len(bench.store.confirm_launches(bench.store.open())) == number - N_SEARCH + 1
    assert len(bench.records()) == N_SEARCH
    kept = bench.store.confirmation(bench.store.open())
    assert (kept is None) == (number == 5)
    if kept is not None:
        assert kept.n_left == 4 - (number - N_SEARCH) and kept.verdict == "inconclusive"
    stage, tuner = stage_of(bench)
    assert stage.run().verdict == "better"
    assert asked(tuner) == [2, 5, 5, 2][number - N_SEARCH :]


def test_a_launch_that_a_dead_tuner_left_running_is_no_launch_of_the_search(bench: Bench) -> None:
    searched(bench)
    stage, tuner = stage_of(bench)
    place = {"winner": stage.plan.winner.trial, "configuration": 0, "round": 0}
    tuner.launcher.enqueued(chain(2), "confirm", marks={"confirm": place})
    stage, tuner = stage_of(bench)
    assert asked(bench.tuner()) == [] and len(bench.records()) == N_SEARCH
    stage.run()
    assert asked(tuner) == [2, 5, 5, 2]


def test_a_failed_launch_is_a_doubt_and_the_result_of_the_search_stands(bench: Bench) -> None:
    searched(bench)
    stage, tuner = stage_of(bench, failing(7, kind=FailureKind.RUNTIME_OOM))
    found = stage.run()
    assert asked(tuner) == [2, 5, 5, 2], "no second try: it died for its flags"
    assert found.verdict == "inconclusive" and not found.is_confirmed
    assert found.use == found.winner and found.n_left == 0
    assert found.finalists[0].doubts == ("trial 7 failed: the line of the log",)
    assert "trial 7 failed" in confirmed(found, AGENTIC).text


def test_an_accident_is_launched_once_more(bench: Bench) -> None:
    searched(bench)
    stage, tuner = stage_of(bench, failing(6, kind=FailureKind.GPU_BUSY))
    found = stage.run()
    assert asked(tuner) == [2, 5, 5, 5, 2]
    assert found.verdict == "better" and found.finalists[0].doubts == ()
    always = Bench(bench.root / "always")
    searched(always)
    stage, tuner = stage_of(always, failing(*range(5, 20), kind=FailureKind.NCCL))
    found = stage.run()
    assert asked(tuner) == [2, 2, 5, 5, 5, 5, 2, 2]
    assert found.finalists[0].gain is None and found.verdict == "inconclusive"
    assert confirmed(found, AGENTIC).title == "Unsure"


@pytest.mark.parametrize("kind", [FailureKind.MODEL_MISSING, FailureKind.DRAFT_MISMATCH])
def test_what_no_launch_can_mend_ends_the_stage(bench: Bench, kind: FailureKind) -> None:
    searched(bench)
    stage, tuner = stage_of(bench, failing(5, kind=kind))
    assert stage.run().verdict == "inconclusive" and asked(tuner) == [2]


def test_a_command_that_is_gone_ends_the_stage_and_not_the_study(bench: Bench) -> None:
    searched(bench)

    def model(flags: Flags, number: int) -> Outcome:
        return LaunchError("the launch command does not exist")

    found = stage_of(bench, model)[0].run()
    assert found.n_left == 4 and found.use == found.winner
    assert "still to come" in confirmed(found, AGENTIC).text or found.finalists[0].gain is None


def test_nothing_is_confirmed_where_nothing_beats_the_baseline(tmp_path: Path) -> None:
    bench = Bench(tmp_path, baseline=chain(5))
    tuner = bench.tuner()
    tuner.run()
    assert ConfirmPlan.of(tuner.ranking(), 2, 1) is None
    better = Bench(tmp_path / "better")
    assert ConfirmPlan.of(searched(better).ranking(), 0, 1) is None


def test_runners_up_are_confirmed_on_request(bench: Bench) -> None:
    searched(bench)
    stage, tuner = stage_of(bench, n_finalists=3)
    found = stage.run()
    assert asked(tuner) == [2, 5, 4, 3, 3, 4, 5, 2]
    assert [f.verdict for f in found.finalists] == ["better"] * 3
    assert found.use == found.winner


# ---- the verdict --------------------------------------------------------------------------------


def verdict_with(
    values: Callable[[int], tuple[float, float]],
    *,
    n_each: int = 8,
    steps: tuple[int, ...] = (2, 4),
    mend: Callable[[TrialRecord], TrialRecord] = lambda record: record,
) -> Confirmation:
    """Of fresh launches that yield these values; the search saw steps 2 as the baseline."""
    first, *others = steps
    records = [record_of(0, chain(first), (1.0, 1000.0), "baseline")]
    records += [record_of(i, chain(s), (0.9, 1010.0)) for i, s in enumerate(others, start=1)]
    plan = ConfirmPlan.of(rank(records, AGENTIC, chosen=1), n_each, len(others))
    assert plan is not None
    launches, number = [], len(records)
    for at in range(n_each):
        for trial, each in enumerate(steps):
            record = mend(record_of(number, chain(each), values(each), "confirm"))
            launches.append(ConfirmLaunch(Place(plan.winner.trial, trial, at), record))
            number += 1
    return judged(plan, launches, AGENTIC, records)


def test_a_tie_goes_to_the_simpler_flags() -> None:
    tied = verdict_with(lambda steps: (1.0, 1000.0))
    assert tied.verdict == "tie" and tied.use == tied.baseline.trial and tied.is_confirmed
    assert "yours are simpler: keep them" in confirmed(tied, AGENTIC).text
    simpler = verdict_with(lambda steps: (1.0, 1000.0), steps=(4, 2))
    assert simpler.verdict == "tie" and simpler.use == 1
    assert "these are the simpler ones" in confirmed(simpler, AGENTIC).text


def test_of_finalists_that_tie_the_simpler_is_used() -> None:
    found = verdict_with(
        lambda steps: (1.0, 1000.0) if steps == 2 else (0.8, 1000.0), steps=(2, 5, 3)
    )
    assert found.winner == 1 and found.use == 2 and found.verdict == "better"
    assert "no better than these simpler flags" in confirmed(found, AGENTIC).text


def test_what_is_worse_on_fresh_launches_is_not_used() -> None:
    found = verdict_with(lambda steps: (1.0, 1000.0) if steps == 2 else (1.2, 1000.0))
    assert found.verdict == "worse" and found.use == found.baseline.trial
    assert confirmed(found, AGENTIC).title == "Worse"


def test_a_gain_inside_the_noise_of_two_launches_is_inconclusive() -> None:
    found = verdict_with(lambda steps: (1.0 - 0.02 * (steps == 4), 1000.0), n_each=2)
    assert found.verdict == "inconclusive" and found.use == found.winner
    assert not found.is_confirmed
    told = confirmed(found, AGENTIC)
    assert told.title == "Unsure" and "autotune confirm --launches 4 goes on" in told.text


def test_a_constraint_that_fresh_prompts_break_is_a_doubt() -> None:
    def missing(record: TrialRecord) -> TrialRecord:
        if record.flags[STEPS] != 4:
            return record
        return structs.replace(record, status="infeasible", constraints={"ttft_p95_s<=0.5": 0.12})

    found = verdict_with(lambda steps: (1.0 - 0.3 * (steps == 4), 1000.0), n_each=1, mend=missing)
    assert found.verdict == "inconclusive"
    assert "misses ttft_p95_s<=0.5 by 12%" in confirmed(found, AGENTIC).text


def test_a_stage_half_done_says_nothing_yet() -> None:
    records = [
        record_of(0, chain(2), (1.0, 1000.0), "baseline"),
        record_of(1, chain(4), (0.5, 1000.0)),
    ]
    plan = ConfirmPlan.of(rank(records, AGENTIC), 2, 1)
    assert plan is not None
    launches = [
        ConfirmLaunch(
            Place(1, trial, 0), record_of(2 + trial, records[trial].flags, values, "confirm")
        )
        for trial, values in enumerate(((1.0, 1000.0), (0.5, 1000.0)))
    ]
    found = judged(plan, launches, AGENTIC, records)
    assert found.n_left == 2 and found.verdict == "inconclusive" and not found.is_confirmed
    assert "2 fresh launches are still to come" in confirmed(found, AGENTIC).text


@given(st.integers(0, 2**20), st.integers(1, 4), st.floats(0.9, 1.1))
def test_any_values_give_a_verdict_that_agrees_with_its_interval(
    seed: int, n_each: int, truth: float
) -> None:
    rng = np.random.default_rng(seed)

    def values(steps: int) -> tuple[float, float]:
        factor = (truth if steps == 4 else 1.0) * math.exp(0.02 * rng.standard_normal())
        return 1.0 / factor, 1000.0 * factor

    found = verdict_with(values, n_each=n_each)
    gain = found.finalists[0].gain
    assert gain is not None and gain.low <= gain.value <= gain.high
    assert (found.verdict == "better") <= (gain.low > 0)
    assert (found.verdict == "worse") <= (gain.high < 0)
    assert found.use in (0, 1) and confirmed(found, AGENTIC).text


def test_where_the_truth_is_a_tie_luck_is_seldom_confirmed() -> None:
    rng = np.random.default_rng(7)

    def values(steps: int) -> tuple[float, float]:
        return tuple(np.exp(rng.normal([0.0, 7.0], 0.015)).tolist())

    verdicts = [verdict_with(values, n_each=2).verdict for _ in range(400)]
    assert verdicts.count("better") <= 12


def test_the_stage_measures_with_the_evaluator_it_is_given(bench: Bench) -> None:
    searched(bench)
    stage, tuner = stage_of(bench)
    stage.run()
    assert isinstance(tuner.evaluator, FakeEvaluator)
    assert {role for _, role in tuner.evaluator.asked} == {"confirm"}


@given(st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3).map(sorted))
def test_a_gain_and_its_error_leave_zero_out_where_the_interval_does(ends: list[float]) -> None:
    low, value, high = ends
    found = Finalist(trial=1, gain=Interval(value, low, high))
    if low > 0 or high < 0:
        assert abs(found.gain_pct) > found.error_pct - 1e-9
    elif low < 0 < high and value:
        assert abs(found.gain_pct) <= found.error_pct + 1e-9
