"""A world: a box, a space, and what a launch on it would report.

``truth`` is what no sampler sees. ``launch`` is what a study sees: the record of one trial, as
noisy and as silent as a real server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from autotune import load_space
from autotune.core.pareto import Point, hypervolume
from autotune.core.trial import Bound, FailureKind, Flags, FlagValue
from autotune.engine.simulated.acceptance import AcceptDistribution, accept_distribution
from autotune.engine.simulated.physics import Deployment, Speculation, SteadyState, steady_state
from autotune.space import SearchSpace
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from benchmarks.search.families import FAMILIES
from benchmarks.search.jitter import Box, Noise, box_of, rng_of
from benchmarks.search.record import Death, Launch, Seen, failed_record, measured_record
from benchmarks.search.surface import Surface, surface_of

SERVING = (16, 32)
_LIKELY = 0.05
"""A configuration that dies more often than this is no answer."""
_WORST_DEATH = 0.9
_NEED_GB = 0.064


class Candidates(NamedTuple):
    """The sound configurations of a world and their true values, row by row."""

    rows: Mapping[tuple[FlagValue, ...], int]
    latency_s: npt.NDArray[np.float64]
    throughput_tok_s: npt.NDArray[np.float64]


class World(Protocol):
    """What a study needs to know of a box, and what its judge does."""

    name: str
    seed: int
    space: SearchSpace

    @property
    def baseline(self) -> dict[str, FlagValue]:
        """Flags that its owner runs today: they live."""

    @property
    def candidates(self) -> Candidates:
        """Every configuration that lives."""

    def risk(self, flags: Flags) -> tuple[float, Point | None]:
        """How likely a configuration is to die for its flags, and what it is worth if not."""

    def launch(self, flags: Flags, number: int) -> dict[str, Any]:
        """The record of trial ``number``."""


def point_of(world: World, flags: Flags) -> Point | None:
    """True latency and throughput; None for a configuration that fails, or may well."""
    candidates = world.candidates
    row = candidates.rows.get(tuple(flags.get(name, "") for name in world.space.names))
    if row is None:
        return None
    return float(candidates.latency_s[row]), float(candidates.throughput_tok_s[row])


def best_score(world: World, latency_weight: float) -> float:
    """Score of the true optimum, on the scale of ``plain_score``."""
    _, latency_s, throughput_tok_s = world.candidates
    scores = -latency_weight * np.log(latency_s) + (1 - latency_weight) * np.log(throughput_tok_s)
    return float(scores.max())


def plain_score(point: Point, latency_weight: float) -> float:
    """The objective without a baseline, which only shifts it."""
    return -latency_weight * math.log(point[0]) + (1 - latency_weight) * math.log(point[1])


def reference_of(world: World) -> Point:
    """Half as good as the best in each goal: where the hypervolume begins."""
    _, latency_s, throughput_tok_s = world.candidates
    return 2.0 * float(latency_s.min()), 0.5 * float(throughput_tok_s.max())


def best_hypervolume(world: World) -> float:
    """Hypervolume of the true front."""
    _, latency_s, throughput_tok_s = world.candidates
    points = list(zip(latency_s.tolist(), throughput_tok_s.tolist(), strict=True))
    return hypervolume(points, reference_of(world))


@dataclass(eq=False)
class SpeculativeWorld:
    """A box that serves with speculation, searched over the four flags."""

    name: str
    seed: int
    box: Box
    space: SearchSpace
    surface: Surface | None
    noise: Noise

    def __post_init__(self) -> None:
        self._states: dict[tuple[Any, ...], SteadyState] = {}

    @cached_property
    def baseline(self) -> dict[str, FlagValue]:
        """The family's, at the nearest fraction that lives here; else any that lives."""
        base, wanted = self.box.family.base, self.box.family.base_fraction
        trees = [base, Speculation(3, 1, 4), Speculation(1, 1, 2)]
        steps, topk, draft, memory = (
            self.space.names.index(n) for n in (STEPS, TOPK, DRAFT, MEMORY)
        )
        for tree in trees:
            alive = [
                key
                for key in self.candidates.rows
                if (key[steps], key[topk], key[draft]) == (tree.steps, tree.topk, tree.draft_tokens)
            ]
            if alive:
                nearest = min(alive, key=lambda key: abs(float(key[memory]) - wanted))
                return dict(zip(self.space.names, nearest, strict=True))
        raise ValueError(f"nothing lives in {self.name}, seed {self.seed}")

    @cached_property
    def candidates(self) -> Candidates:
        """By enumeration: some 9,000 configurations, a quarter of a second."""
        index: dict[tuple[FlagValue, ...], int] = {}
        points: list[Point] = []
        for flags in self.space.configurations():
            deployment = self._deployed(flags)
            free_gb = self._free_gb(deployment)
            if self._death(deployment, free_gb) or self._p_dies_loaded(free_gb) > _LIKELY:
                continue
            index[tuple(flags.values())] = len(points)
            points.append(self._point(deployment))
        table = np.array(points, dtype=np.float64).reshape(-1, 2)
        return Candidates(index, table[:, 0], table[:, 1])

    def risk(self, flags: Flags) -> tuple[float, Point | None]:
        """1 for what cannot start."""
        deployment = self._deployed(flags)
        free_gb = self._free_gb(deployment)
        if self._death(deployment, free_gb):
            return 1.0, None
        return self._p_dies_loaded(free_gb), self._point(deployment)

    def launch(self, flags: Flags, number: int) -> dict[str, Any]:
        """The same trial number draws the same luck, whichever the sampler."""
        rng = rng_of("launch", self.name, self.seed, number)
        deployment = self._deployed(flags)
        free_gb = self._free_gb(deployment) + rng.normal(0, 0.03)
        death = self._death(deployment, free_gb)
        chance = rng.random(2)
        if death is None and chance[0] < self.noise.crash:
            death = Death(FailureKind.CRASHED, "capture", "CUDA error: illegal memory access", "")
        if death is None and chance[1] < self._p_dies_loaded(free_gb):
            text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB."
            death = Death(FailureKind.RUNTIME_OOM, "serving", text, "lower mem_fraction_static")
        told = Launch(number, dict(flags), self.box, deployment, free_gb)
        seen = None if self._dies_unmeasured(deployment, death) else self._seen(deployment)
        if death is not None:
            return failed_record(told, death, seen, rng)
        assert seen is not None
        return measured_record(told, seen, self.noise, rng)

    def _deployed(self, flags: Flags) -> Deployment:
        tree = Speculation(int(flags[STEPS]), int(flags[TOPK]), int(flags[DRAFT]))
        most = self.box.family.max_running
        return Deployment(self.box.family.machine, tree, float(flags[MEMORY]), most, most)

    # ---- what fits ----------------------------------------------------------------------------

    def _free_gb(self, deployment: Deployment) -> float:
        """After capture; the graphs' memory is not quite linear in their rows."""
        family, machine = self.box.family, self.box.family.machine
        rows = deployment.graph_max_batch * deployment.speculation.draft_tokens
        usual = 8 * deployment.graph_max_batch
        bent = math.pow(rows / usual, family.graph_power - 1.0) - 1.0
        return deployment.free_after_capture_gb - machine.graph_mb_per_row * rows / 1e3 * bent

    @staticmethod
    def _dies_unmeasured(deployment: Deployment, death: Death | None) -> bool:
        return death is not None and death.stage != "serving"

    def _p_dies_loaded(self, free_gb: float) -> float:
        missing = 1.0 - free_gb / self.box.margin_gb
        return _WORST_DEATH * math.pow(min(1.0, max(0.0, missing)), 1.5)

    def _death(self, deployment: Deployment, free_gb: float) -> Death | None:
        """What must fail at start."""
        machine, spec = self.box.family.machine, deployment.speculation
        if not 2 <= spec.draft_tokens <= spec.largest_tree:
            text = "RuntimeError: selected index k out of range"
            return Death(FailureKind.REJECTED_COMBINATION, "capture", text, "a smaller draft")
        load = self.box.family.load
        need_tok = load.context_tok + load.output_tok + deployment.reserved_tok
        if deployment.kv_pool_tok < need_tok or deployment.running_limit < 1:
            need_gb = machine.weights_gb + need_tok * machine.kv_kb_per_token / 1e6
            lowest = need_gb / machine.gpu_memory_gb
            text = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
            bound = Bound(MEMORY, "at_least", round(lowest + 0.0005, 3))
            knows = self.box.tells.bound and deployment.kv_pool_tok < need_tok
            remedy = "raise mem_fraction_static"
            kind = FailureKind.KV_DOES_NOT_FIT
            return Death(kind, "pool", text, remedy, bound if knows else None)
        if free_gb < 0:
            text = (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
                f"{1024 * (_NEED_GB - free_gb):.2f} MiB."
            )
            kind = FailureKind.GRAPH_CAPTURE_OOM
            return Death(kind, "capture", text, "lower mem_fraction_static")
        return None

    # ---- how fast it is -----------------------------------------------------------------------

    def _point(self, deployment: Deployment) -> Point:
        single = self._state(deployment, 1)
        logs = [math.log(self._state(deployment, c).output_tok_s) for c in SERVING]
        n_ref = self.box.family.load.output_tok
        latency_s = single.ttft_s + n_ref / single.decode_tok_s
        return latency_s, math.exp(sum(logs) / len(logs))

    def _seen(self, deployment: Deployment) -> Seen:
        states = {c: self._state(deployment, c) for c in (1, *SERVING)}
        accept = self._accept(deployment.speculation)
        return Seen(states, accept, self.box.family.load.output_tok)

    def _accept(self, spec: Speculation) -> AcceptDistribution:
        return accept_distribution(self.box.family.draft, spec.steps, spec.topk, spec.draft_tokens)

    def _state(self, deployment: Deployment, concurrency: int) -> SteadyState:
        load, spec = self.box.family.load, deployment.speculation
        by_memory = deployment.kv_pool_tok // max(1, load.context_tok + deployment.reserved_tok)
        n_running = min(concurrency, deployment.running_limit, by_memory)
        new_tok = self._prefilled_tok(deployment, concurrency)
        key = (spec, concurrency, n_running, new_tok)
        if key not in self._states:
            self._states[key] = steady_state(
                deployment,
                concurrency,
                # A cycle that takes f times as long is a cycle that yields an f-th of the tokens.
                self._accept(spec).mean / self._slowdown(spec, n_running),
                new_tok=new_tok,
                output_tok=load.output_tok,
                context_tok=load.context_tok,
            )
        return self._states[key]

    def _prefilled_tok(self, deployment: Deployment, concurrency: int) -> int:
        """New prompt tokens, and the cached ones that had to make room."""
        load = self.box.family.load
        kept = min(1.0, deployment.kv_pool_tok / (1.25 * concurrency * load.context_tok))
        lost_tok = load.eviction * (1 - kept) * (load.context_tok - load.new_tok)
        return load.new_tok + 32 * round(lost_tok / 32)

    def _slowdown(self, spec: Speculation, n_running: int) -> float:
        factor = 1.0
        tile = self.box.family.stairs
        if tile:
            rows = n_running * spec.draft_tokens
            # A tenth of a cycle is in kernels that pay for whole tiles.
            factor *= 0.9 + 0.1 * tile * math.ceil(rows / tile) / max(rows, tile / 4)
        if self.surface is not None:
            factor *= self.surface.slowdown(spec, n_running > 1)
        return factor


def speculative_world(family: str, seed: int, is_stressed: bool = False) -> SpeculativeWorld:
    """The box of this family with this number; stressed: with a surface and twice the noise."""
    box = box_of(FAMILIES[family], seed)
    noise = box.noise
    name = f"stress:{family}" if is_stressed else family
    if is_stressed:
        noise = Noise(
            2 * noise.launch, 2 * noise.single, 2 * noise.serving, noise.outlier, noise.crash
        )
    surface = surface_of(family, seed) if is_stressed else None
    return SpeculativeWorld(name, seed, box, load_space("speculative"), surface, noise)
