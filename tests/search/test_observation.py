from __future__ import annotations

import copy
import math
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState, create_trial

from autotune.core.trial import Bound, FailureKind
from autotune.search.observation import ENVIRONMENT, Observation, observations
from autotune.space import load_space
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from tests.search.histories import ABSURD, PLACES, damaged, failed_record, measured_record

SPACE = load_space("speculative")
FLAGS = {STEPS: 3, TOPK: 1, DRAFT: 4, MEMORY: 0.85}


def observed(
    record: object,
    state: TrialState = TrialState.FAIL,
    values: list[float] | None = None,
    params: bool = True,
) -> Observation | None:
    study = optuna.create_study(directions=["minimize", "maximize"])
    study.add_trial(
        create_trial(
            state=state,
            values=values,
            params=dict(FLAGS) if params else {},
            distributions=SPACE.distributions() if params else {},
            user_attrs={} if record is None else {"record": record},
        )
    )
    found = observations(study, SPACE)
    return found[0] if found else None


def test_a_whole_record_is_read() -> None:
    found = observed(measured_record(0, FLAGS), TrialState.COMPLETE, [1.0, 2.0], params=False)
    assert found is not None and found.outcome == "measured" and found.is_feasible
    assert found.flags == FLAGS
    assert [s.concurrency for s in found.served] == [16, 32]
    assert found.latency and found.throughput and found.accept_length and found.ttft
    assert found.accept_length.log == pytest.approx(math.log(2.0 * 3.1 * 3.1) / 3)
    assert (found.running_limit, found.weights_gb, found.gpu_gb) == (48, 40, 80)
    assert found.minutes == pytest.approx(153 / 60)


def test_values_alone_are_enough() -> None:
    found = observed(None, TrialState.COMPLETE, [2.0, 900.0])
    assert found is not None and found.latency and found.throughput
    assert found.latency.log == pytest.approx(math.log(2))
    assert found.flags == FLAGS and found.served == ()


def test_a_running_trial_is_pending_and_a_waiting_one_says_nothing_yet() -> None:
    running = observed(None, TrialState.RUNNING)
    assert running is not None and running.outcome == "pending"
    assert observed(None, TrialState.WAITING, params=False) is None


@pytest.mark.parametrize("kind", FailureKind)
def test_a_failure_speaks_against_the_flags_unless_it_is_an_accident(kind: FailureKind) -> None:
    bound = Bound(MEMORY, "at_least", 0.8)
    found = observed(failed_record(0, FLAGS, kind, bound))
    if kind is FailureKind.INTERRUPTED:
        assert found is None
        return
    assert found is not None and found.outcome == "failed" and found.latency is None
    assert found.failure is not None and found.failure.kind is kind
    assert found.failure.bound == bound
    assert found.is_accident == (kind in ENVIRONMENT)


def test_a_nameless_or_unknown_failure_is_a_crash() -> None:
    for record in (None, {"status": "failed"}, {"failure": {"kind": "of the future"}}):
        found = observed(record)
        assert found is not None and found.failure is not None
        assert found.failure.kind is FailureKind.CRASHED


def test_an_infeasible_launch_is_measured_but_not_feasible() -> None:
    found = observed(measured_record(0, FLAGS, feasible=False), TrialState.COMPLETE, [1.0, 2.0])
    assert found is not None and found.outcome == "measured" and not found.is_feasible
    assert found.violations == {"ttft_p95_s<=0.5": 0.2}


KEYS = [k for k in measured_record(0, FLAGS) if k not in ("objectives",)]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_may_be_missing(key: str) -> None:
    record = measured_record(0, FLAGS)
    del record[key]
    found = observed(record, TrialState.COMPLETE, [1.0, 2.0])
    assert found is not None and found.outcome == "measured" and found.flags == FLAGS


def test_every_key_within_a_phase_may_be_missing() -> None:
    whole = measured_record(0, FLAGS)
    for i, phase in enumerate(whole["phases"]):
        for key in phase:
            record: dict[str, Any] = copy.deepcopy(whole)
            del record["phases"][i][key]
            found = observed(record, TrialState.COMPLETE, [1.0, 2.0])
            assert found is not None and found.outcome == "measured"


def numbers_of(found: Observation) -> list[float]:
    measured = [found.latency, found.throughput, found.ttft, found.accept_length]
    measured += [s.throughput for s in found.served]
    numbers = [n for m in measured if m is not None for n in (m.log, m.sd)]
    plain = (
        found.running_limit, found.kv_tokens, found.free_gb, found.weights_gb, found.gpu_gb,
        found.minutes, *found.violations.values(), *(s.n_running for s in found.served),
    )  # fmt: skip
    flags = [v for v in found.flags.values() if isinstance(v, int | float)]
    return [*numbers, *(n for n in plain if n is not None), *flags]


@pytest.mark.parametrize("value", ABSURD, ids=lambda value: repr(value)[:24])
def test_an_absurd_value_is_simply_not_known(value: object) -> None:
    for place in PLACES:
        for record in (
            measured_record(0, FLAGS),
            failed_record(0, FLAGS, FailureKind.CRASHED, Bound(MEMORY, "at_least", 0.8)),
        ):
            broken = damaged(record, [(place, value)])
            found = observed(broken, TrialState.COMPLETE, [1.0, 2.0])
            if found is not None:
                assert all(math.isfinite(n) and abs(n) < 1e13 for n in numbers_of(found)), place


def test_what_ran_is_read_where_the_command_left_it_open() -> None:
    record = measured_record(0, {STEPS: 3, TOPK: 1, DRAFT: 4})
    record["effective"][MEMORY] = 0.83
    found = observed(record, TrialState.COMPLETE, [1.0, 2.0], params=False)
    assert found is not None and found.flags[MEMORY] == 0.83


def test_a_trial_that_waits_for_a_worker_is_taken() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"])
    study.enqueue_trial(FLAGS)
    (waiting,) = observations(study, SPACE)
    assert waiting.outcome == "pending"
    assert waiting.flags == FLAGS


def test_values_on_record_count_though_the_worker_died_before_it_told_them() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"])
    trial = study.ask(SPACE.distributions())
    trial.set_user_attr("record", measured_record(trial.number, FLAGS))
    study.tell(trial, state=TrialState.FAIL)
    (told,) = observations(study, SPACE)
    assert (told.outcome, told.flags) == ("measured", FLAGS)
