"""Launches that ask for different flags and get the same server are measured once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from autotune.core.ranking import rank
from autotune.core.trial import FlagValue, TrialRecord
from autotune.study.twins import twin_of

from .fakes import Bench, chain, record_of

TREE: dict[str, FlagValue] = {
    "speculative_num_steps": 3, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8,
}  # fmt: skip
RAN: dict[str, Any] = {
    **chain(3), "max_running_requests": 24, "max_total_num_tokens": 100_000, "page_size": 64,
}  # fmt: skip


def measured(flags: dict[str, FlagValue], **effective: object) -> TrialRecord:
    record = record_of(3, flags, (1.0, 100.0))
    return TrialRecord(
        number=3, status="complete", flags=record.flags, objectives=record.objectives,
        effective={**RAN, **effective},
    )  # fmt: skip


def test_what_the_server_made_of_the_flags_counts() -> None:
    found = twin_of(TREE, RAN, {}, [measured(chain(3))])
    assert found is not None and found.number == 3
    assert twin_of(chain(3), RAN, {}, [measured(TREE)]) is not None, "the other way round too"


@pytest.mark.parametrize(
    "effective",
    [
        {"speculative_num_steps": 4, "speculative_num_draft_tokens": 5},
        {"max_running_requests": 23},
        {"max_total_num_tokens": 90_000},
        {"page_size": 1},
        {"attention_backend": "triton"},
        {"mem_fraction_static": 0.8},
    ],
)
def test_another_server_is_no_twin(effective: dict[str, object]) -> None:
    assert twin_of(TREE, {**RAN, **effective}, {}, [measured(chain(3))]) is None


def test_what_two_launches_of_the_same_flags_differ_by_is_no_difference() -> None:
    assert twin_of(TREE, {**RAN, "max_total_num_tokens": 100_900}, {}, [measured(chain(3))])
    backends = {"attention_backend": "dsa"}
    other = measured(chain(3), attention_backend="nsa")
    assert twin_of(TREE, {**RAN, **backends}, {}, [other])


def test_where_the_server_tells_nothing_what_was_asked_counts() -> None:
    silent = TrialRecord(
        number=3, status="complete", flags=chain(3), objectives=measured(chain(3)).objectives
    )
    assert twin_of(TREE, {}, {}, [silent]) is None
    assert twin_of({**chain(3), "mem_fraction_static": 0.8}, {}, {}, [silent]) is None


def test_the_same_flags_and_a_failed_launch_are_no_twin() -> None:
    failed = TrialRecord(number=3, status="failed", flags=chain(3), effective=RAN)
    assert twin_of(TREE, RAN, {}, [failed, measured(TREE)]) is None


def referring(bench: Bench, record: TrialRecord) -> TrialRecord:
    """Stored in a study as the tuner would."""
    study = bench.store.open()
    trial = study.ask()
    told = TrialRecord(
        number=trial.number, status=record.status, flags=dict(TREE), same_as=record.number
    )
    bench.store.tell(study, trial, told)
    return told


def test_a_reference_stands_in_the_storage_and_counts_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.tuner(trials=2).run()
    first, second = bench.records()
    told = referring(bench, second)
    assert bench.records()[2] == told and told.objectives is None and told.phases == []
    frozen = bench.store.open().trials[2]
    assert frozen.state is TrialState.COMPLETE
    assert second.objectives is not None
    assert frozen.values == [i.value for i in second.objectives.values()]
    assert frozen.user_attrs["same_as"] == second.number
    ranking = rank(bench.records(), bench.objective)
    assert sorted(s.trials for s in ranking.standings) == [(0,), (1,)]
    assert ranking.counts["complete"] == 3
    assert first.same_as is None


def test_a_trial_whose_flags_were_measured_is_compared_with_nothing(tmp_path: Path) -> None:
    """A replicate, a confirm run and a launch that somebody queued again want a measurement."""
    bench = Bench(tmp_path)
    tuner = bench.tuner(trials=3)
    tuner.run()
    searched = tuner.launcher.enqueued(chain(1), "search")
    again = tuner.launcher.enqueued(tuner.records[1].flags, "search")
    assert tuner._comparable(dataclasses.replace(searched, flags=TREE)) == tuner.records
    assert list(tuner._comparable(again)) == []
    assert list(tuner._comparable(dataclasses.replace(searched, role="replicate"))) == []
