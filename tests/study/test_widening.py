"""The best at the end of the steps: the study goes on beyond, and stays so when it is resumed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from autotune.core.trial import Flags
from autotune.events import SpaceWidened
from autotune.search.edge import kept_ranges
from autotune.space import load_space
from autotune.study.config import check_same, resolve
from tests.search.test_edge import EASY, HARD, Box

from .fakes import Bench, Model, asked

STEPS = "speculative_num_steps"


def speed_of(box: Box) -> Model:
    def model(flags: Flags, number: int) -> tuple[float, float]:
        return box.values(int(flags[STEPS]))

    return model


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def widened(bench: Bench) -> list[SpaceWidened]:
    return [event for event in bench.events if isinstance(event, SpaceWidened)]


@pytest.mark.parametrize("sampler", ["speculative", "random"])
def test_the_study_goes_on_where_the_model_expects_more(bench: Bench, sampler: str) -> None:
    tuner = bench.tuner(speed_of(EASY), widens=True, trials=9, sampler=sampler)
    tuner.run()
    assert max(asked(tuner)) > 5
    told = widened(bench)
    assert told and told[0].text.startswith("steps widened to 1 to ")
    assert told[0].ranges[STEPS][1] > 5
    study = bench.store.open()
    assert kept_ranges(study)[STEPS] == told[-1].ranges[STEPS]
    assert tuner.choice is not None and tuner.choice.trial is not None
    best = next(r for r in bench.records() if r.number == tuner.choice.trial)
    assert int(best.flags[STEPS]) > 5


def test_it_goes_on_there_when_it_is_resumed(bench: Bench) -> None:
    first = bench.tuner(speed_of(EASY), widens=True, trials=6)
    first.run()
    bench.space = bench.space.reaching(kept_ranges(bench.store.open()))
    assert bench.space == first.space != load_space("steps-only")
    n_told = len(widened(bench))
    second = bench.tuner(speed_of(EASY), trials=8)
    second.run()
    assert len(bench.records()) == 8 and len(widened(bench)) == n_told
    assert all(bench.space.contains(record.flags) for record in bench.records())


def test_an_optimum_inside_leaves_the_space_alone(bench: Bench) -> None:
    tuner = bench.tuner(speed_of(HARD), widens=True)
    tuner.run()
    assert max(asked(tuner)) == 5 and not widened(bench)
    assert kept_ranges(bench.store.open()) == {}


def test_without_widening_the_end_is_only_told(bench: Bench) -> None:
    tuner = bench.tuner(speed_of(EASY))
    tuner.run()
    assert max(asked(tuner)) == 5 and not widened(bench)
    kept = bench.store.choice(bench.store.open())
    assert kept is not None
    (edge,) = kept.edges
    assert edge.text().startswith("the best steps, 5, are the most that were searched; the model ")


def test_it_is_a_setting_that_may_change() -> None:
    default = resolve({"study": "s"}, None).config
    assert default.widen
    check_same(dataclasses.replace(default, widen=False), default, "s")
