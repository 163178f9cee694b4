"""A hopeless launch is left after its first phase: it costs less, and the winner stays the same."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from optuna.trial import TrialState

from autotune.cli.table import TrialTable
from autotune.core.ranking import rank
from autotune.core.trial import Flags, TrialRecord
from autotune.engine.simulated.engine import SimulatedEngine, bundled_command
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO
from autotune.errors import UsageError
from autotune.events import ignore
from autotune.export.choice import choose
from autotune.measure.plan import PhasePlan
from autotune.study import words
from autotune.study.config import RunConfig, check_same, resolve
from autotune.study.evaluate import Evaluator
from autotune.study.reading import StudyView
from autotune.workload import workload_named

from .fakes import Bench, asked, chain, roles

STEPS = "speculative_num_steps"
VALUES: Mapping[int, tuple[float, float]] = {
    1: (1.3, 1300.0), 2: (1.0, 1500.0), 3: (0.9, 1450.0), 4: (2.4, 500.0), 5: (2.6, 400.0),
}  # fmt: skip


def model(flags: Flags, number: int) -> tuple[float, float]:
    return VALUES[int(flags[STEPS])]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def pruned(records: list[TrialRecord]) -> list[TrialRecord]:
    return [record for record in records if record.status == "pruned"]


def viewed(bench: Bench) -> StudyView:
    return StudyView(
        name="s",
        directory=bench.root,
        config=RunConfig(),
        objective=bench.objective,
        command=bundled_command(DEFAULT_SCENARIO),
        records=tuple(bench.records()),
    )


def test_a_hopeless_launch_is_left_and_the_winner_stays(tmp_path: Path) -> None:
    whole, short = Bench(tmp_path / "whole"), Bench(tmp_path / "short")
    whole.tuner(model).run()
    tuner = short.tuner(model, prunes=True)
    tuner.run()
    left = pruned(short.records())
    assert left and not pruned(whole.records())
    assert {r.flags[STEPS] for r in left} <= {4, 5}
    steps = asked(tuner)
    assert all(steps.count(int(r.flags[STEPS])) == 1 for r in left), "and none is launched again"
    spent = [sum(r.timings["wall_s"] for r in b.records()) for b in (whole, short)]
    assert spent[1] < spent[0]
    best = [rank(b.records(), b.objective).best for b in (whole, short)]
    assert best[0] is not None and best[1] is not None
    assert best[0].flags == best[1].flags == chain(3)


def test_its_record_keeps_the_first_phase_and_carries_no_value(bench: Bench) -> None:
    bench.tuner(model, prunes=True).run()
    record = pruned(bench.records())[0]
    assert record.failure is None and record.objectives is None
    assert [phase.load for phase in record.phases] == ["C=1"]
    trial = bench.store.open().trials[record.number]
    assert trial.state is TrialState.PRUNED and trial.user_attrs["pruned"] == record.pruned
    ranking = rank(bench.records(), bench.objective)
    assert ranking.counts["pruned"] == len(pruned(bench.records()))
    assert ranking.counts["failed"] == 0
    with pytest.raises(UsageError, match="carries no values: pruned after C=1"):
        choose(viewed(bench), trial=record.number)
    row = TrialTable(list(record.flags), 1, (16, 32)).row(record, None)
    assert "pruned after C=1: 2." in row and "likely to become the best" in row
    assert words.pruned(record) in row


def test_only_what_the_search_proposes_for_the_first_time_is_left(bench: Bench) -> None:
    """The baseline and the reference are as slow here as what is left later."""

    def slow_base(flags: Flags, number: int) -> tuple[float, float]:
        steps = int(flags.get(STEPS, 5))
        return VALUES[5] if steps == 2 else VALUES[steps]

    tuner = bench.tuner(slow_base, prunes=True, reference={"mem_fraction_static": 0.85})
    tuner.run()
    assert roles(tuner)[:2] == ["baseline", "reference"]
    assert all(r.status == "complete" for r in bench.records() if r.role != "search")


def test_what_the_user_queued_is_measured(bench: Bench) -> None:
    bench.tuner(model, trials=4).run()
    n_before = len(bench.records())
    slow = next(n for n in (4, 5) if n not in [r.flags[STEPS] for r in bench.records()])
    study = bench.store.open()
    study.enqueue_trial({STEPS: slow})
    bench.tuner(model, trials=n_before + 1, prunes=True).run()
    assert bench.records()[-1].status == "complete"


def test_a_real_launch_is_left_after_its_first_phase(tmp_path: Path) -> None:
    own = ("--startup-speed", "2000", "--no-noise", "--speed", "20")
    asked_with: list[TrialRecord] = []

    def prune(record: TrialRecord) -> str:
        asked_with.append(record)
        return "no hope"

    evaluator = Evaluator(
        engine=SimulatedEngine(
            bundled_command(DEFAULT_SCENARIO).with_words(own), seed=0, ready_timeout_s=30.0
        ),
        workload=workload_named("agentic-short"),
        plans=[PhasePlan("latency", 1, 4, 0), PhasePlan("serving", 4, 8, 1000)],
        slos=[],
        searched=[],
        listener=ignore,
    )
    record = evaluator.evaluate({}, number=1, directory=tmp_path, role="search", prune=prune)
    assert (record.status, record.pruned) == ("pruned", "no hope")
    assert record.objectives is None and record.failure is None and not record.constraints
    assert [phase.load for phase in record.phases] == ["C=1"]
    assert record.timings["measure_s"] > 0 and record.timings["stop_s"] > 0
    assert asked_with[0].effective["max_running_requests"] and len(asked_with) == 1


def test_it_is_a_setting_that_may_change(tmp_path: Path) -> None:
    default = resolve({"study": "s"}, None)
    assert default.config.prune
    given = resolve({"study": "s", "prune": False}, None)
    assert not given.config.prune and given.origins["prune"] == "command line"
    check_same(given.config, default.config, "s")
