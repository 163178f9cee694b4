"""The adaptive stage: what it launches, what it keeps, and that it stays out of the search."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.core.adaptive import Tier
from autotune.core.trial import FailureKind
from autotune.engine.sglang.versions import version
from autotune.errors import Interrupted
from autotune.search.observation import observations
from autotune.study.adapt import FILE, AdaptStage
from autotune.study.suggestion import Suggestion

from .fakes import Bench, Model, cut_off, trade_off

TIERS = (Tier(1, 5), Tier(9, 2))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    found.tuner().run()
    return found


def stage(
    bench: Bench, model: Model = trade_off, *, n: int = 1, release: str = "0.5.23"
) -> AdaptStage:
    """Of a new process that goes on with a study whose search is over."""
    tuner = bench.tuner(model)
    tuner.resume()
    best = tuner.ranking().best
    assert best is not None
    suggestion = Suggestion(best, best.flags, tiers=TIERS)
    return AdaptStage(suggestion, tuner.launcher, tuner.evaluator, version(release), n)


def test_one_launch_with_the_table_in_a_file(bench: Bench) -> None:
    made = stage(bench)
    made.run()
    path = bench.store.directory / FILE
    assert json.loads(path.read_text()) == {
        "1": {"candidate_steps": [5]}, "9": {"candidate_steps": [2]},
    }  # fmt: skip
    (launch,) = bench.store.adaptive_launches(bench.store.open())
    assert launch.plan == made.suggestion.plan and launch.record.role == "adaptive"
    assert launch.record.flags["speculative_adaptive_config"] == str(path.resolve())
    assert launch.record.flags["speculative_num_steps"] == 2


def test_launches_made_before_count(bench: Bench) -> None:
    stage(bench).run()
    stage(bench).run()
    assert len(bench.store.adaptive_launches(bench.store.open())) == 1
    stage(bench, n=3).run()
    assert len(bench.store.adaptive_launches(bench.store.open())) == 3


def test_the_search_neither_learns_from_it_nor_ranks_it(bench: Bench) -> None:
    def tuned() -> tuple[list[int], int, object]:
        tuner = bench.tuner()
        tuner.resume()
        study = bench.store.open()
        numbers = [record.number for record in bench.store.records(study)]
        return numbers, len(observations(study, bench.space)), tuner.ranking().to_dict("s")

    before = tuned()
    stage(bench, lambda flags, number: (0.001, 1e6)).run()
    assert tuned() == before


def test_a_launch_that_fails_is_kept_and_made_again_by_the_next_run(bench: Bench) -> None:
    stage(bench, lambda flags, number: FailureKind.GRAPH_CAPTURE_OOM).run()
    stage(bench).run()
    made = bench.store.adaptive_launches(bench.store.open())
    assert [a.record.status for a in made] == ["failed", "complete"]


def test_an_interrupted_launch_is_closed_and_made_again(bench: Bench) -> None:
    with pytest.raises(Interrupted):
        stage(bench, lambda flags, number: cut_off()).run()
    stage(bench).run()
    made = bench.store.adaptive_launches(bench.store.open())
    assert [a.record.is_interrupted for a in made] == [True, False]
    assert not [t for t in bench.store.open().trials if not t.state.is_finished()]


def test_another_table_is_launched_for_itself(bench: Bench) -> None:
    stage(bench).run()
    other = stage(bench)
    other.suggestion = replace(other.suggestion, tiers=(Tier(1, 4), Tier(9, 2)))
    other.run()
    plans = [a.plan.tiers for a in bench.store.adaptive_launches(bench.store.open())]
    assert plans == [TIERS, (Tier(1, 4), Tier(9, 2))]
