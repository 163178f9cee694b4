"""Studies side by side: every box with all its samplers is one task of a process pool."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

from autotune.core.objective import PRESETS
from benchmarks.search.ordinary import OrdinaryWorld
from benchmarks.search.play import Run, play
from benchmarks.search.speculative import MIXED, mixed_world, speculative_world
from benchmarks.search.world import World

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Task(NamedTuple):
    """All samplers on one box."""

    world: str
    seed: int
    samplers: tuple[str, ...]
    objective: str
    n_trials: int


def play_all(task: Task) -> list[Run]:
    """The runs of a task."""
    world = world_named(task.world, task.seed)
    objective = PRESETS[task.objective]
    return [play(world, sampler, objective, task.n_trials) for sampler in task.samplers]


def world_named(name: str, seed: int) -> World:
    """A world by its name and number."""
    if name == OrdinaryWorld.name:
        return OrdinaryWorld(seed)
    if name == MIXED:
        return mixed_world(seed)
    return speculative_world(name.removeprefix("stress:"), seed, name.startswith("stress:"))


def run_all(tasks: list[Task], n_jobs: int) -> Iterator[list[Run]]:
    """In processes of one thread each, in whatever order they end."""
    if n_jobs == 1:
        yield from map(play_all, tasks)
        return
    context = multiprocessing.get_context("spawn")
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ |= dict.fromkeys(_ONE_THREAD, "1")  # read where numpy is imported: in the children
    try:
        with ProcessPoolExecutor(n_jobs, mp_context=context) as pool:
            for done in as_completed([pool.submit(play_all, task) for task in tasks]):
                yield done.result()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
