"""The worlds that samplers are tried on tell the truth to the judge, and noise to the study."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

from autotune.core.objective import LATENCY, PRESETS, THROUGHPUT
from autotune.core.trial import Flags, FlagValue, record_from
from autotune.search import SAMPLERS
from benchmarks.search.families import FAMILIES, OWN, SHIPPED
from benchmarks.search.play import FAILS, GOOD, Run, play
from benchmarks.search.tables import by_world, overview, percentile, plain, set_of, worlds_of
from benchmarks.search.tasks import world_named
from benchmarks.search.world import World, best_hypervolume, best_score, plain_score, point_of

WORLDS = ("qwen3.5-122b-agentic", "stress:pressed-32b-48gb", "mixed-flags", "ordinary-flags")
WEIGHT = 0.7


def any_flags(world: World, n: int) -> list[dict[str, FlagValue]]:
    rng = np.random.default_rng(n)
    ranges = {name: p.values() for name, p in world.space.parameters.items()}
    drawn = ({k: v[rng.integers(len(v))] for k, v in ranges.items()} for _ in range(n))
    return [world.space.nearest_legal(flags) for flags in drawn]


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest) -> World:
    return world_named(request.param, 3)


def test_the_baseline_is_legal_and_lives(world: World) -> None:
    assert world.space.contains(world.baseline)
    assert point_of(world, world.baseline) is not None


def test_nothing_is_better_than_what_the_enumeration_finds(world: World) -> None:
    points = [p for p in (point_of(world, flags) for flags in any_flags(world, 200)) if p]
    assert points
    best = best_score(world, WEIGHT)
    assert max(plain_score(p, WEIGHT) for p in points) <= best + 1e-9
    latency_s, throughput_tok_s = world.candidates
    assert min(p[0] for p in points) >= latency_s.min() * (1 - 1e-9)
    assert max(p[1] for p in points) <= throughput_tok_s.max() * (1 + 1e-9)
    assert best_hypervolume(world) > 0


def test_every_launch_is_a_record_and_the_same_number_has_the_same_luck(world: World) -> None:
    for number, flags in enumerate(any_flags(world, 60)):
        told = world.launch(flags, number)
        assert told == world.launch(flags, number)
        record = record_from(told)
        assert record is not None and record.number == number and record.flags == flags
        assert (record.objectives is None) == (record.status == "failed")
        assert (record.failure is not None) == (record.status == "failed")
        assert "role" not in told  # only the tuner itself knows what a trial is for


def test_launches_stray_as_far_as_they_say_they_may(world: World) -> None:
    flags: Flags = world.baseline
    point = point_of(world, flags)
    assert point is not None
    errors: dict[str, list[float]] = {LATENCY: [], THROUGHPUT: []}
    for number in range(80):
        record = record_from(world.launch(flags, number))
        if record is not None and record.objectives:
            for name, truth in zip(errors, point, strict=True):
                errors[name].append(math.log(record.objectives[name].value / truth))
    for found in errors.values():
        assert len(found) > 60
        assert abs(statistics.median(found)) < 0.015
        assert 0.004 < statistics.stdev(found) < 0.12


def test_no_two_boxes_are_the_same() -> None:
    bests = {best_score(world_named("edit-7b", seed), WEIGHT) for seed in range(3)}
    assert len(bests) == 3


def test_half_the_families_are_not_in_the_product() -> None:
    assert len(OWN) >= 7 and not set(OWN) & set(SHIPPED)
    assert set(worlds_of("stress")) == {f"stress:{name}" for name in FAMILIES}
    assert [set_of(name) for name in WORLDS] == ["scenarios", "stress", "mixed", "ordinary"]


@pytest.mark.parametrize("sampler", ["tpe", "random", "sweep"])
def test_a_study_is_judged_after_every_launch(world: World, sampler: str) -> None:
    run = play(world, sampler, PRESETS["agentic"], 6)
    assert len(run.regrets) == len(run.failed) == len(run.hypervolumes) == 6
    assert not run.failed[0] and 0 <= run.regrets[0] <= FAILS
    assert run.hypervolumes == sorted(run.hypervolumes) and run.hypervolumes[-1] <= 1 + 1e-9
    assert run.minutes == sorted(run.minutes) and run.minutes[0] > 1
    assert sampler in SAMPLERS


def test_tables_count_what_never_arrives() -> None:
    runs = [
        Run(
            world="edit-7b", seed=seed, sampler="tpe", regrets=[0.1, last], failed=[False, True],
            hypervolumes=[0.5, 0.6], minutes=[3.0, 5.0], stop_at=2, cpu_s=0.1,
        )
        for seed, last in enumerate((GOOD / 2, 0.1, 0.1))
    ]  # fmt: skip
    assert [run.reached_at for run in runs] == [2, math.inf, math.inf]
    assert [run.stops_early for run in runs] == [False, True, True]
    assert percentile([2.0, math.inf, math.inf], 50) == math.inf
    assert percentile([1.0, 2.0, 3.0, 4.0], 50) == 2
    assert ">/>" in plain(overview(runs)) and "edit-7b" in plain(by_world(runs))
