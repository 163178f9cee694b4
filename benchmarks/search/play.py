"""One study of one sampler on one world, judged after every launch."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from time import process_time

import msgspec
import optuna
from optuna.trial import TrialState

import autotune.search
from autotune.core.objective import DIRECTIONS, LATENCY, THROUGHPUT, Objective
from autotune.core.pareto import Point, hypervolume
from autotune.core.trial import Flags
from autotune.search import sampler_named
from benchmarks.search.samplers import BY_MODEL, observed
from benchmarks.search.world import (
    World,
    best_hypervolume,
    best_score,
    plain_score,
    point_of,
    reference_of,
)

GOOD = 0.02
"""Within 2 % of the best score (nats)."""
FAILS = 0.5
"""Regret of a recommendation that fails, and of none at all."""
_CLOSELY, _SOMETIMES = 15, 5
"""Launches after which a settled study is only judged at every fifth, to save time."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one study; entry n of a list is after n + 1 launches, baseline included.

    Attributes:
        regrets: of the true score of the recommendation, nats; late ones of a study that has come
            within 2 % and said that it is enough are those of the last look.
        failed: whether that launch failed.
        hypervolumes: of what was launched (true values), share of the true front's.
        minutes: of hardware that the launches so far would have taken.
        stop_at: launches after which the sampler first said that it is enough; None: it never did.
        cpu_s: that the sampler and its recommendation took.
    """

    world: str
    seed: int
    sampler: str
    regrets: list[float]
    failed: list[bool]
    hypervolumes: list[float]
    minutes: list[float]
    stop_at: int | None
    cpu_s: float

    @property
    def reached_at(self) -> float:
        """Launches until the recommendation is first within 2 %; infinite where it never is."""
        return next((n + 1.0 for n, r in enumerate(self.regrets) if r <= GOOD), math.inf)

    @property
    def stops_early(self) -> bool | None:
        """Whether it said enough with a recommendation that is not within 2 %."""
        return None if self.stop_at is None else self.regrets[self.stop_at - 1] > GOOD


@dataclass
class _Judge:
    """Knows the truth of a world."""

    world: World
    weight: float

    def __post_init__(self) -> None:
        self.best = best_score(self.world, self.weight)
        self.best_volume = best_hypervolume(self.world)
        self.reference = reference_of(self.world)
        self.points: list[Point] = []

    def regret(self, flags: Flags | None) -> float:
        """Of the true score, and for what may well die under load its share of a failure."""
        if not flags:
            return FAILS
        risk, point = self.world.risk(flags)
        if point is None:
            return FAILS
        lost = min(FAILS, max(0.0, self.best - plain_score(point, self.weight)))
        return lost if point_of(self.world, flags) else max(lost, GOOD) + risk * FAILS

    def launched(self, flags: Flags) -> float:
        """Share of the hypervolume so far."""
        point = point_of(self.world, flags)
        if point is not None:
            self.points.append(point)
        return hypervolume(self.points, self.reference) / self.best_volume


def play(world: World, sampler: str, objective: Objective, n_trials: int) -> Run:
    """Drives a sampler as any caller would: ask, suggest, launch, tell."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    judge = _Judge(world, objective.latency_weight)
    made = sampler_named(sampler, world.space, objective, seed=world.seed)
    study = optuna.create_study(directions=DIRECTIONS, sampler=made)
    study.enqueue_trial({name: world.baseline[name] for name in world.space.parameters})
    regrets, volumes, minutes = list[float](), list[float](), list[float]()
    failed: list[bool] = []
    stop_at, cpu_s = None, 0.0
    for n in range(1, n_trials + 1):
        began_s = process_time()
        trial = study.ask()
        flags = world.space.suggest(trial)
        cpu_s += process_time() - began_s
        record = world.launch(flags, trial.number)
        trial.set_user_attr("record", record)
        is_failed = record["failure"] is not None
        began_s = process_time()
        if is_failed:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, [record["objectives"][g]["value"] for g in (LATENCY, THROUGHPUT)])
        settled = stop_at is not None and min(regrets) <= GOOD and n > _CLOSELY
        if settled and n % _SOMETIMES and n < n_trials:
            regrets.append(regrets[-1])
        else:
            choice, stops = _recommended(study, world, sampler, objective)
            regrets.append(judge.regret(choice))
            stop_at = n if stops and stop_at is None else stop_at
        cpu_s += process_time() - began_s
        failed.append(is_failed)
        volumes.append(judge.launched(flags))
        minutes.append((minutes or [0.0])[-1] + sum(record["timings"].values()) / 60)
    return Run(
        world=world.name, seed=world.seed, sampler=sampler, regrets=regrets, failed=failed,
        hypervolumes=volumes, minutes=minutes, stop_at=stop_at, cpu_s=cpu_s,
    )  # fmt: skip


def _recommended(
    study: optuna.Study, world: World, sampler: str, objective: Objective
) -> tuple[Flags | None, bool]:
    """Flags, and whether it says that it is enough."""
    recommend = getattr(autotune.search, "recommend", None)
    if sampler not in BY_MODEL or recommend is None:
        return observed(study, world.space, objective), False
    choice = recommend(study, world.space, objective)
    return (None, False) if choice is None else (choice.flags, bool(choice.stop))
