from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from autotune.core.objective import objective_named
from autotune.core.ranking import flag_key
from autotune.core.trial import Bound, FailureKind, Flags
from autotune.search import SpeculativeSampler, recommend
from autotune.space import SearchSpace, load_space
from autotune.space.parameter import DecimalRange
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from tests.search.histories import (
    SPACES,
    TREE,
    add_measured,
    at_random,
    failed_record,
    measured_record,
    new_study,
    tell_failed,
    tell_measured,
    values_of,
)

AGENTIC = objective_named("agentic")
SMALL = SearchSpace("small", "", {**TREE, MEMORY: DecimalRange(0.6, 0.95, 0.05)})


def study_on(space: SearchSpace, seed: int = 0) -> tuple[optuna.Study, SpeculativeSampler]:
    sampler = SpeculativeSampler(space, AGENTIC, seed=seed)
    return new_study(sampler), sampler


def measured_study(space: SearchSpace, n: int = 4) -> tuple[optuna.Study, SpeculativeSampler]:
    study, sampler = study_on(space)
    for i in range(n):
        add_measured(study, space, at_random(space, i))
    return study, sampler


def proposal(study: optuna.Study, sampler: SpeculativeSampler) -> Flags:
    return sampler.propose(study, len(study.trials))


@pytest.mark.parametrize("name", ["speculative", "steps-only", "ordinary"])
def test_a_plain_optuna_study_can_be_driven_with_it(name: str) -> None:
    space = SPACES[name]
    study, _ = study_on(space)
    for _ in range(5):
        trial = study.ask()
        flags = space.suggest(trial)
        assert space.contains(flags)
        assert set(trial.params) == set(space.parameters)
        tell_measured(study, trial, flags)
    choice = recommend(study, space, AGENTIC)
    assert choice.trial is not None and choice.n_launches == 5
    assert flag_key(choice.flags) in {flag_key(space.canonical(t.params)) for t in study.trials}


def test_an_enqueued_trial_keeps_its_values() -> None:
    study, _ = study_on(SMALL)
    wanted = {STEPS: 2, TOPK: 4, DRAFT: 9, MEMORY: 0.7}
    study.enqueue_trial(wanted)
    assert SMALL.suggest(study.ask()) == wanted


def test_what_is_proposed_does_not_depend_on_asking_before() -> None:
    study, sampler = measured_study(SMALL)
    first = proposal(study, sampler)
    assert proposal(study, sampler) == first
    assert proposal(study, SpeculativeSampler(SMALL, AGENTIC, seed=0)) == first
    assert SMALL.suggest(study.ask()) == first, "Optuna is given the same"


def test_another_study_in_the_same_process_changes_nothing() -> None:
    study, sampler = measured_study(SMALL)
    first = proposal(study, sampler)
    other, other_sampler = study_on(SMALL, seed=5)
    for i in range(7, 12):
        add_measured(other, SMALL, at_random(SMALL, i))
    proposal(other, other_sampler)
    assert proposal(study, SpeculativeSampler(SMALL, AGENTIC, seed=0)) == first


IN_ANOTHER_PROCESS = """
import optuna
from tests.search.test_speculative import SMALL, measured_study, proposal
optuna.logging.set_verbosity(optuna.logging.ERROR)
print(sorted(proposal(*measured_study(SMALL)).items()))
"""


def test_another_process_proposes_the_same() -> None:
    here = sorted(proposal(*measured_study(SMALL)).items())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IN_ANOTHER_PROCESS],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == str(here)


def test_a_study_resumed_from_its_journal_proposes_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.log")

    def opened(load: bool) -> optuna.Study:
        storage = JournalStorage(JournalFileBackend(path))
        sampler = SpeculativeSampler(SMALL, AGENTIC, seed=0)
        if load:
            return optuna.load_study(study_name="s", storage=storage, sampler=sampler)
        return optuna.create_study(
            study_name="s", storage=storage, sampler=sampler, directions=["minimize", "maximize"]
        )

    study = opened(load=False)
    for i in range(3):
        add_measured(study, SMALL, at_random(SMALL, i))
    trial = study.ask()
    tell_failed(study, trial, SMALL.suggest(trial), FailureKind.RUNTIME_OOM)
    sampler = SpeculativeSampler(SMALL, AGENTIC, seed=0)
    expected = proposal(study, sampler)
    resumed = opened(load=True)
    assert proposal(resumed, sampler) == expected
    in_memory, _ = study_on(SMALL)
    for frozen in study.trials:
        in_memory.add_trial(frozen)
    assert proposal(in_memory, sampler) == expected


@pytest.mark.parametrize("n_measured", [0, 1, 3])
def test_workers_are_given_different_configurations_while_any_is_left(n_measured: int) -> None:
    space = SPACES["steps-only"]
    study, _ = study_on(space)
    for i in range(n_measured):
        flags = {STEPS: i + 1}
        add_measured(study, space, flags)
    running = [space.suggest(study.ask())[STEPS] for _ in range(space.size - n_measured)]
    assert len(set(running)) == len(running)


def test_a_running_trial_is_not_proposed_again_in_a_large_space() -> None:
    study, _ = measured_study(SMALL, 3)
    running = [flag_key(SMALL.suggest(study.ask())) for _ in range(6)]
    assert len(set(running)) == 6


def test_a_space_that_was_launched_to_the_last_goes_on_with_second_launches() -> None:
    space = SPACES["steps-only"]
    study, _ = study_on(space)
    for _ in range(2 * space.size + 3):
        trial = study.ask()
        flags = space.suggest(trial)
        assert space.contains(flags)
        tell_measured(study, trial, flags)
    assert {trial.params[STEPS] for trial in study.trials} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    "kind",
    [
        FailureKind.GRAPH_CAPTURE_OOM, FailureKind.RUNTIME_OOM, FailureKind.KV_DOES_NOT_FIT,
        FailureKind.REJECTED_COMBINATION, FailureKind.CRASHED, FailureKind.HANG,
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_measured", [0, 2])
def test_what_failed_is_not_proposed_again(kind: FailureKind, n_measured: int) -> None:
    study, _ = measured_study(SMALL, n_measured)
    failed = set()
    for _ in range(5):
        trial = study.ask()
        flags = SMALL.suggest(trial)
        assert flag_key(flags) not in failed
        failed.add(flag_key(flags))
        tell_failed(study, trial, flags, kind)


def test_an_accident_says_nothing_against_the_flags() -> None:
    space = SPACES["single"]
    study, sampler = study_on(space)
    for kind in (FailureKind.INTERRUPTED, FailureKind.GPU_BUSY, FailureKind.PORT_IN_USE):
        trial = study.ask()
        tell_failed(study, trial, space.suggest(trial), kind)
    assert space.contains(proposal(study, sampler))


@pytest.mark.parametrize("n_measured", [0, 2])
def test_after_running_out_of_memory_less_is_risked(n_measured: int) -> None:
    study, sampler = study_on(SMALL)
    for i in range(n_measured):
        add_measured(study, SMALL, {STEPS: i + 1, TOPK: 1, DRAFT: i + 2, MEMORY: 0.75})
    died = {STEPS: 5, TOPK: 4, DRAFT: 16, MEMORY: 0.85}
    study.enqueue_trial(died)
    trial = study.ask()
    tell_failed(study, trial, SMALL.suggest(trial), FailureKind.GRAPH_CAPTURE_OOM)
    for _ in range(3):
        flags = proposal(study, sampler)
        risk = float(flags[MEMORY]) >= 0.85 and float(flags[DRAFT]) >= 16
        assert not risk, flags
        trial = study.ask()
        SMALL.suggest(trial)


def test_a_bound_that_the_server_told_is_kept() -> None:
    study, sampler = study_on(SMALL)
    add_measured(study, SMALL, {STEPS: 2, TOPK: 1, DRAFT: 3, MEMORY: 0.9})
    study.enqueue_trial({STEPS: 3, TOPK: 1, DRAFT: 4, MEMORY: 0.6})
    trial = study.ask()
    told = Bound(MEMORY, "at_least", 0.78)
    tell_failed(study, trial, SMALL.suggest(trial), FailureKind.KV_DOES_NOT_FIT, told)
    for _ in range(4):
        assert float(proposal(study, sampler)[MEMORY]) >= 0.75
        trial = study.ask()
        tell_measured(study, trial, SMALL.suggest(trial))


@pytest.mark.parametrize("name", ["speculative", "steps-only", "ordinary", "mixed"])
@pytest.mark.parametrize("kind", [FailureKind.RUNTIME_OOM, FailureKind.CRASHED])
def test_where_all_failed_there_is_a_proposal_and_nothing_to_recommend(
    name: str, kind: FailureKind
) -> None:
    space = SPACES[name]
    study, sampler = study_on(space)
    for i in range(8):
        trial = study.ask()
        flags = space.suggest(trial)
        tell_failed(study, trial, flags, kind)
        assert i >= space.size or len(study.trials) == i + 1
    assert space.contains(proposal(study, sampler))
    choice = recommend(study, space, AGENTIC)
    assert (choice.flags, choice.trial, choice.stop) == ({}, None, False)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1e-300, 1e300, float("inf")])
def test_values_that_never_change_are_no_reason_to_fail(value: float) -> None:
    study, sampler = study_on(SMALL)
    for i in range(6):
        trial = study.ask()
        SMALL.suggest(trial)
        study.tell(trial, [value, value])
        assert SMALL.contains(proposal(study, sampler)), i
        recommend(study, SMALL, AGENTIC)


def test_a_value_that_is_no_number_fails_its_trial_only() -> None:
    study, sampler = measured_study(SMALL, 2)
    trial = study.ask()
    SMALL.suggest(trial)
    study.tell(trial, state=TrialState.FAIL)
    assert SMALL.contains(proposal(study, sampler))
    assert recommend(study, SMALL, AGENTIC).n_launches == 2


def test_values_alone_teach_where_there_is_no_record() -> None:
    study, sampler = study_on(SMALL)
    for i in range(5):
        trial = study.ask()
        study.tell(trial, values_of(SMALL.suggest(trial)))
        assert recommend(study, SMALL, AGENTIC).n_launches == i + 1
    assert SMALL.contains(proposal(study, sampler))


def test_a_record_teaches_before_its_trial_is_told() -> None:
    study, _ = study_on(SMALL)
    trial = study.ask()
    flags = SMALL.suggest(trial)
    trial.set_user_attr("record", measured_record(trial.number, flags))
    assert recommend(study, SMALL, AGENTIC).flags == flags


def test_what_breaks_a_constraint_is_not_recommended_where_another_keeps_it() -> None:
    study, _ = study_on(SMALL)
    kept = {STEPS: 1, TOPK: 1, DRAFT: 2, MEMORY: 0.8}
    add_measured(study, SMALL, kept)
    for steps in (3, 4):
        study.enqueue_trial({STEPS: steps, TOPK: 1, DRAFT: steps + 1, MEMORY: 0.8})
        trial = study.ask()
        flags = SMALL.suggest(trial)
        record = measured_record(trial.number, flags, feasible=False)
        for each in record["objectives"]["latency_s"]:
            record["objectives"]["latency_s"][each] /= 2
        trial.set_user_attr("record", record)
        study.tell(trial, [v["value"] for v in record["objectives"].values()])
    assert recommend(study, SMALL, AGENTIC).flags == kept


def test_a_space_of_one_configuration_is_proposed_over_and_over() -> None:
    space = SPACES["single"]
    study, _ = study_on(space)
    for _ in range(4):
        trial = study.ask()
        flags = space.suggest(trial)
        assert flags == {STEPS: 3, TOPK: 1, DRAFT: 4}
        tell_measured(study, trial, flags)
    assert recommend(study, space, AGENTIC).stop


def test_one_direction_is_enough_where_records_are_there() -> None:
    sampler = SpeculativeSampler(SMALL, AGENTIC, seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for i in range(4):
        trial = study.ask()
        flags = SMALL.suggest(trial)
        if i == 2:
            record = failed_record(trial.number, flags, FailureKind.RUNTIME_OOM)
            trial.set_user_attr("record", record)
            trial.report(1.0, 0)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            trial.set_user_attr("record", measured_record(trial.number, flags))
            study.tell(trial, 1.0)
    assert recommend(study, SMALL, AGENTIC).n_launches == 3


def test_the_shipped_space_starts_where_sglang_itself_would() -> None:
    space = load_space("speculative")
    flags = proposal(*study_on(space))
    assert (flags[STEPS], flags[TOPK], flags[DRAFT]) == (3, 1, 4)
