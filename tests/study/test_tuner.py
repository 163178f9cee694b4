from __future__ import annotations

import signal
from pathlib import Path

import optuna
import pytest
from msgspec import structs
from optuna.trial import TrialState

from autotune.core.ranking import flag_key
from autotune.core.trial import HOPELESS, RETRIED_ONCE, FailureKind, Flags
from autotune.errors import Interrupted, LaunchError
from autotune.events import StudyEnded, TrialEnded
from autotune.space import SearchSpace
from autotune.space.parameter import Choice, IntegerRange, Parameter
from autotune.space.rules import MEMORY, STEPS, TOPK
from autotune.study.budget import StopRule
from autotune.study.choice import Choice as Recommended

from .fakes import Bench, Model, Outcome, asked, chain, cut_off, roles, trade_off


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def failing_at(steps: int, kind: FailureKind = FailureKind.GRAPH_CAPTURE_OOM) -> Model:
    def model(flags: Flags, number: int) -> Outcome:
        return kind if flags["speculative_num_steps"] == steps else trade_off(flags, number)

    return model


def interrupted_at(number: int) -> Model:
    def model(flags: Flags, at: int) -> Outcome:
        return cut_off() if at == number else trade_off(flags, at)

    return model


def test_the_baseline_is_first_and_the_whole_space_follows(bench: Bench) -> None:
    tuner = bench.tuner()
    reason = tuner.run()
    assert asked(tuner)[0] == 2 and roles(tuner) == ["baseline"] + ["search"] * 4
    assert sorted(asked(tuner)) == [1, 2, 3, 4, 5]
    assert "every configuration" in reason
    assert isinstance(bench.events[-1], StudyEnded)


def test_a_failed_trial_is_data_and_the_study_goes_on(bench: Bench) -> None:
    tuner = bench.tuner(failing_at(5))
    tuner.run()
    assert set(asked(tuner)) == {1, 2, 3, 4, 5}
    failed = [r for r in bench.records() if r.status == "failed"]
    assert [r.flags["speculative_num_steps"] for r in failed] == [5]
    assert failed[0].objectives is None
    states = {t.number: t.state for t in bench.store.open().trials}
    assert states[failed[0].number] is TrialState.FAIL


@pytest.mark.parametrize("kind", sorted(RETRIED_ONCE))
def test_what_the_environment_has_broken_is_launched_once_more(
    bench: Bench, kind: FailureKind
) -> None:
    def model(flags: Flags, number: int) -> Outcome:
        return kind if number == 2 else trade_off(flags, number)

    tuner = bench.tuner(model)
    tuner.run()
    broken = bench.records()[2]
    assert asked(tuner)[3] == broken.flags["speculative_num_steps"], "at once, before others"
    assert sorted(set(asked(tuner))) == [1, 2, 3, 4, 5] and len(asked(tuner)) == 6


def test_what_breaks_twice_is_left_alone(bench: Bench) -> None:
    tuner = bench.tuner(failing_at(3, FailureKind.CRASHED))
    tuner.run()
    assert asked(tuner).count(3) == 2 and len(asked(tuner)) == 6


def test_a_baseline_that_the_environment_has_broken_is_launched_once_more(bench: Bench) -> None:
    def model(flags: Flags, number: int) -> Outcome:
        return FailureKind.GPU_BUSY if number == 0 else trade_off(flags, number)

    tuner = bench.tuner(model, trials=3)
    tuner.run()
    assert roles(tuner) == ["baseline", "baseline", "search"]


@pytest.mark.parametrize("kind", sorted(HOPELESS))
def test_what_no_flag_can_mend_ends_the_study(bench: Bench, kind: FailureKind) -> None:
    tuner = bench.tuner(failing_at(3, kind))
    with pytest.raises(LaunchError, match="nothing can work"):
        tuner.run()
    assert asked(tuner)[-1] == 3 and asked(tuner).count(3) == 1


def test_a_contender_that_keeps_failing_is_not_launched_for_ever(bench: Bench) -> None:
    def model(flags: Flags, number: int) -> Outcome:
        return FailureKind.RUNTIME_OOM if number > 4 else (1.0, 1000.0)

    tuner = bench.tuner(model, trials=99)
    tuner.run()
    assert max(asked(tuner).count(steps) for steps in range(1, 6)) <= 3


def test_contenders_are_launched_again_three_times_at_most(bench: Bench) -> None:
    """All within a percent: noise must not decide."""

    def model(flags: Flags, number: int) -> Outcome:
        return 1.0 + 0.001 * int(flags["speculative_num_steps"]), 1000.0

    tuner = bench.tuner(model, trials=50)
    tuner.run()
    assert len(asked(tuner)) == 15
    assert all(asked(tuner).count(steps) == 3 for steps in range(1, 6))
    assert roles(tuner).count("search") == 4 and roles(tuner).count("replicate") == 10


def test_a_clear_winner_is_not_launched_again(bench: Bench) -> None:
    tuner = bench.tuner(trials=50)
    tuner.run()
    assert "replicate" not in roles(tuner)


def test_a_study_that_ends_tells_of_what_it_never_launched(tmp_path: Path) -> None:
    searched: dict[str, Parameter] = {STEPS: IntegerRange(1, 3), MEMORY: Choice((0.01, 0.85))}
    space = SearchSpace("s", "", searched, fixed={TOPK: 1})

    def model(flags: Flags, number: int) -> Outcome:
        return FailureKind.KV_DOES_NOT_FIT if flags[MEMORY] == 0.01 else trade_off(flags, number)

    tuner = Bench(tmp_path, space, {**chain(2), MEMORY: 0.85}).tuner(
        model, trials=50, sampler="tpe"
    )
    reason = tuner.run()
    n_left = space.size - len({flag_key(record.flags) for record in tuner.records})
    assert n_left > 0
    assert reason.endswith(f"was launched, but for {n_left} that failed launches rule out")
    everything = Bench(tmp_path / "other").tuner(trials=50).run()
    assert everything.endswith("every configuration of the space was launched")


def test_a_baseline_that_fails_ends_the_study_and_is_tried_again(bench: Bench) -> None:
    with pytest.raises(LaunchError) as caught:
        bench.tuner(failing_at(2)).run()
    assert "graph_capture_oom" in caught.value.message
    assert "the line of the log" in caught.value.message
    assert "the remedy" in caught.value.hint
    tuner = bench.tuner(trials=3)
    tuner.run()
    assert asked(tuner)[0] == 2 and roles(tuner)[0] == "baseline"


def test_a_budget_of_one_that_a_failed_baseline_used_still_retries_the_baseline(
    bench: Bench,
) -> None:
    with pytest.raises(LaunchError):
        bench.tuner(failing_at(2), trials=1).run()
    tuner = bench.tuner(trials=1)
    tuner.run()
    assert roles(tuner) == ["baseline"]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_what_a_signal_cut_off_is_launched_first_by_the_next_run(bench: Bench, number: int) -> None:
    first = bench.tuner(interrupted_at(number))
    with pytest.raises(Interrupted):
        first.run()
    lost = bench.records()[-1]
    assert lost.failure is not None and lost.failure.kind is FailureKind.INTERRUPTED
    assert lost.failure.evidence == "signal 15"
    assert lost.flags == chain(asked(first)[-1])
    assert [t.state.name for t in bench.store.open().trials] == ["COMPLETE"] * number + ["FAIL"]
    second = bench.tuner()
    second.run()
    assert asked(second)[0] == asked(first)[-1]
    done = [r.flags["speculative_num_steps"] for r in bench.records() if r.objectives]
    assert sorted(done, key=str) == [1, 2, 3, 4, 5]


def test_an_interrupted_trial_uses_no_launch_of_the_budget(bench: Bench) -> None:
    with pytest.raises(Interrupted):
        bench.tuner(interrupted_at(1), trials=3).run()
    tuner = bench.tuner(trials=3)
    tuner.run()
    assert len([r for r in bench.records() if r.objectives]) == 3


def test_an_error_of_the_program_closes_the_trial_too(bench: Bench) -> None:
    def model(flags: Flags, number: int) -> Outcome:
        return RuntimeError("a bug") if number == 1 else trade_off(flags, number)

    with pytest.raises(RuntimeError):
        bench.tuner(model).run()
    trial = bench.store.open().trials[1]
    assert trial.state is TrialState.FAIL
    assert "a bug" in trial.user_attrs["record"]["failure"]["evidence"]


def test_a_trial_that_a_dead_tuner_left_running_is_closed_and_launched_again(
    bench: Bench,
) -> None:
    tuner = bench.tuner(trials=1)
    tuner.run()
    tuner.study.enqueue_trial({"speculative_num_steps": 4})
    trial = tuner.study.ask()
    trial.set_user_attr("flags", chain(4))
    second = bench.tuner(trials=3)
    second.run()
    assert asked(second)[0] == 4
    closed = bench.records()[1]
    assert closed.failure is not None and closed.failure.kind is FailureKind.INTERRUPTED
    assert bench.store.open().trials[1].state is TrialState.FAIL


def test_a_signal_between_trials_leaves_nothing_running_or_queued(bench: Bench) -> None:
    tuner = bench.tuner()
    with tuner.interrupts.active():
        suggest = tuner.study.ask

        def ask() -> optuna.trial.Trial:
            if len(asked(tuner)) == 2:
                signal.raise_signal(signal.SIGTERM)
            return suggest()

        tuner.study.ask = ask  # type: ignore[method-assign,assignment]
        with pytest.raises(Interrupted):
            tuner.run()
    states = [t.state for t in bench.store.open().trials]
    assert states == [TrialState.COMPLETE, TrialState.COMPLETE, TrialState.FAIL]
    second = bench.tuner()
    second.run()
    assert sorted(asked(tuner) + asked(second)) == [1, 2, 3, 4, 5]


def test_queued_trials_of_others_are_launched_after_the_baseline(bench: Bench) -> None:
    study = bench.tuner().study
    study.enqueue_trial({"speculative_num_steps": 4})
    study.enqueue_trial({"speculative_num_steps": 1})
    tuner = bench.tuner(trials=3)
    tuner.run()
    assert asked(tuner) == [2, 4, 1]
    assert roles(tuner) == ["baseline", "search", "search"]


def test_a_baseline_outside_the_space_is_launched_as_it_is(bench: Bench) -> None:
    bench.baseline = chain(7)
    tuner = bench.tuner(trials=2)
    tuner.run()
    assert asked(tuner)[0] == 7
    assert bench.store.open().trials[0].params == {}


def test_each_trial_says_how_it_went_and_what_is_best(bench: Bench) -> None:
    bench.tuner(failing_at(5)).run()
    ended = [e for e in bench.events if isinstance(e, TrialEnded)]
    assert [event.record for event in ended] == bench.records()
    assert ended[0].gain_pct == 0 and ended[0].best == 0
    for event in ended:
        assert (event.gain_pct is None) == (event.record.status == "failed")
    assert ended[-1].best_gain_pct == max(e.gain_pct for e in ended if e.gain_pct is not None)


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid", "sweep"])
def test_every_sampler_uses_up_a_small_space(bench: Bench, sampler: str) -> None:
    tuner = bench.tuner(sampler=sampler)
    tuner.run()
    assert sorted(asked(tuner)) == [1, 2, 3, 4, 5]


def test_the_model_ends_a_study_that_has_little_to_gain() -> None:
    rule, quiet = StopRule(by_model=True), "expected further gain 0.3 %, 92 % sure it is below 1 %"
    seen = Recommended(
        trial=4, latency_weight=0.7, n_launches=9, n_unchanged=2, why=quiet, stop=True
    )
    assert rule.why_stop(seen, 10.0, 30) == f"{quiet}: stopping after 9 of 30 trials"
    assert rule.why_stop(structs.replace(seen, stop=False), 10.0, 30) is None
    assert StopRule().why_stop(seen, 10.0, 30) is None, "told to use all launches"


def test_a_target_and_patience_end_a_study(tmp_path: Path) -> None:
    reached = Bench(tmp_path / "gain").tuner(stop_rule=StopRule(target_gain_pct=30.0))
    assert "reaches the target of 30 %" in reached.run()
    best = reached.ranking().best
    assert best is not None and best.gain_vs_baseline_pct >= 30
    assert len(asked(reached)) < 5

    def baseline_is_best(flags: Flags, number: int) -> Outcome:
        return 1.0 + abs(int(flags[STEPS]) - 2), 1000.0

    patient = Bench(tmp_path / "patience").tuner(baseline_is_best, stop_rule=StopRule(patience=2))
    assert "the last 2 launches have not changed" in patient.run()
    assert len(asked(patient)) == 3


def test_the_recommendation_is_the_best_for_readers_and_survives_a_restart(bench: Bench) -> None:
    tuner = bench.tuner()
    tuner.run()
    kept = bench.store.choice(bench.store.open())
    assert kept is not None and kept == tuner.choice
    assert kept.holds_for(bench.records(), bench.objective)
    best = tuner.ranking().best
    assert best is not None and kept.trial == best.trial
    assert not kept.holds_for(bench.records()[:-1], bench.objective)


def with_off(flags: Flags, number: int) -> Outcome:
    return (0.1, 9000.0) if STEPS not in flags else trade_off(flags, number)


def test_speculation_off_is_launched_once_and_is_no_candidate(bench: Bench) -> None:
    tuner = bench.tuner(with_off, reference={})
    tuner.run()
    assert asked(tuner)[:2] == [2, 0] and roles(tuner)[:2] == ["baseline", "reference"]
    assert set(asked(tuner)[2:]) >= {1, 3, 4, 5} and asked(tuner).count(0) == 1
    ranking = tuner.ranking()
    assert ranking.reference is not None and ranking.reference.trial == 1
    assert ranking.best is not None and STEPS in ranking.best.flags
    assert all(STEPS in standing.flags for standing in (*ranking.standings, *ranking.front))


@pytest.mark.parametrize("kind", [FailureKind.CRASHED, FailureKind.MODEL_MISSING])
def test_speculation_off_may_fail(bench: Bench, kind: FailureKind) -> None:
    def model(flags: Flags, number: int) -> Outcome:
        return kind if STEPS not in flags else trade_off(flags, number)

    tuner = bench.tuner(model, reference={})
    tuner.run()
    assert roles(tuner).count("reference") == 1 and len(asked(tuner)) == 6


def test_speculation_off_that_was_cut_off_is_launched_again(bench: Bench) -> None:
    with pytest.raises(Interrupted):
        bench.tuner(interrupted_at(1), reference={}).run()
    tuner = bench.tuner(with_off, trials=2, reference={})
    tuner.run()
    assert roles(tuner) == ["reference"]
