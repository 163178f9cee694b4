"""The worlds with physics: a box that serves with speculation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autotune import load_space
from autotune.core.pareto import Point
from autotune.core.trial import FailureKind, Flags, FlagValue
from autotune.engine.simulated.physics import Deployment, Speculation, SteadyState
from autotune.space import SearchSpace
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from benchmarks.search.box_model import BoxModel
from benchmarks.search.extras import PARAMETERS, TODAY, Extras, extras_of
from benchmarks.search.families import FAMILIES
from benchmarks.search.jitter import Box, Noise, box_of, rng_of
from benchmarks.search.record import Death, Launch, Seen, failed_record, measured_record
from benchmarks.search.surface import surface_of
from benchmarks.search.world import LIKELY, SERVING, Candidates, point_of

MIXED = "mixed-flags"
"""The world with ordinary flags beside the four; each box of it is of another family."""

Array = npt.NDArray[np.float64]


class _Started(NamedTuple):
    """What starts with today's extra flags, row by row."""

    is_tree: npt.NDArray[np.bool_]
    free_gb: Array
    latency_s: Array
    throughput_tok_s: Array


@dataclass(eq=False)
class SpeculativeWorld:
    """A box that serves with speculation, searched over the four flags and maybe others."""

    name: str
    seed: int
    model: BoxModel
    space: SearchSpace
    noise: Noise
    extras: Extras | None = None

    @property
    def box(self) -> Box:
        """The machine, its draft and its load."""
        return self.model.box

    @cached_property
    def baseline(self) -> dict[str, FlagValue]:
        """The family's, at the nearest fraction that lives here; else a plain chain that lives."""
        others = dict(TODAY) if self.extras is not None else {}
        wanted = self.box.family.base_fraction
        fractions = sorted(
            self.space.parameters[MEMORY].values(), key=lambda value: abs(float(value) - wanted)
        )
        for tree in (self.box.family.base, Speculation(3, 1, 4), Speculation(1, 1, 2)):
            given = {STEPS: tree.steps, TOPK: tree.topk, DRAFT: tree.draft_tokens}
            for fraction in fractions:
                flags = self.space.canonical({**given, **others, MEMORY: fraction})
                if point_of(self, flags):
                    return flags
        raise ValueError(f"nothing lives in {self.name}, seed {self.seed}")

    @cached_property
    def candidates(self) -> Candidates:
        """Every configuration of the four flags, with every combination of the others."""
        started = self._started()
        if self.extras is None:
            alive = self._lives(started.free_gb)
            return Candidates(started.latency_s[alive], started.throughput_tok_s[alive])
        latency, throughput = [], []
        for others in self.extras.configurations():
            alive = self._lives(started.free_gb - self.extras.taken_gb(others))
            factors = []
            for is_loaded in (False, True):
                chain, tree = (self.extras.slowdown(others, topk, is_loaded) for topk in (1, 2))
                factors.append(np.where(started.is_tree[alive], tree, chain))
            latency.append(started.latency_s[alive] * factors[0])
            throughput.append(started.throughput_tok_s[alive] / factors[1])
        return Candidates(np.concatenate(latency), np.concatenate(throughput))

    def risk(self, flags: Flags) -> tuple[float, Point | None]:
        """1 for what cannot start."""
        deployment = self.model.deployed(flags)
        free_gb = self._free_gb(flags, deployment)
        if self.model.death(deployment, free_gb):
            return 1.0, None
        return self.model.p_dies_loaded(free_gb), self._point(self._states(flags, deployment))

    def launch(self, flags: Flags, number: int) -> dict[str, Any]:
        """The record of this trial."""
        rng = rng_of("launch", self.name, self.seed, number)
        deployment = self.model.deployed(flags)
        free_gb = self._free_gb(flags, deployment) + float(rng.normal(0, 0.03))
        told = Launch(number, dict(flags), self.box, deployment, free_gb)
        crashes, dies = rng.random(2)
        death = self.model.death(deployment, free_gb)
        if death is None and crashes < self.noise.crash:
            death = Death(FailureKind.CRASHED, "capture", "CUDA error: illegal memory access", "")
        if death is not None:
            return failed_record(told, death, None, rng)
        accept = self.model.accept(deployment.speculation)
        states = self._states(flags, deployment)
        seen = Seen(states, accept, self.box.family.load.output_tok)
        if dies < self.model.p_dies_loaded(free_gb):
            text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB."
            death = Death(FailureKind.RUNTIME_OOM, "serving", text, "lower mem_fraction_static")
            return failed_record(told, death, seen, rng)
        return measured_record(told, seen, self.noise, rng)

    def _started(self) -> _Started:
        rows = []
        for flags in load_space("speculative").configurations():
            deployment = self.model.deployed(flags)
            free_gb = self.model.free_gb(deployment)
            if self.model.death(deployment, max(0.0, free_gb)) is None:
                states = {c: self.model.state(deployment, c) for c in (1, *SERVING)}
                rows.append((deployment.speculation.topk, free_gb, *self._point(states)))
        table = np.array(rows, dtype=np.float64).reshape(-1, 4)
        return _Started(table[:, 0] > 1, table[:, 1], table[:, 2], table[:, 3])

    def _lives(self, free_gb: Array) -> npt.NDArray[np.bool_]:
        least = self.box.margin_gb
        while least > 0 and self.model.p_dies_loaded(least) <= LIKELY:
            least -= 0.002
        return free_gb > least

    def _free_gb(self, flags: Flags, deployment: Deployment) -> float:
        taken_gb = 0.0 if self.extras is None else self.extras.taken_gb(flags)
        return self.model.free_gb(deployment) - taken_gb

    def _states(self, flags: Flags, deployment: Deployment) -> Mapping[int, SteadyState]:
        states = {c: self.model.state(deployment, c) for c in (1, *SERVING)}
        if self.extras is None:
            return states
        topk = deployment.speculation.topk
        return {
            c: _slowed(state, self.extras.slowdown(flags, topk, c > 1))
            for c, state in states.items()
        }

    def _point(self, states: Mapping[int, SteadyState]) -> Point:
        logs = [math.log(states[c].output_tok_s) for c in SERVING]
        n_ref = self.box.family.load.output_tok
        latency_s = states[1].ttft_s + n_ref / states[1].decode_tok_s
        return latency_s, math.exp(sum(logs) / len(logs))


def _slowed(state: SteadyState, factor: float) -> SteadyState:
    return replace(
        state,
        ttft_s=state.ttft_s * factor,
        decode_tok_s=state.decode_tok_s / factor,
        output_tok_s=state.output_tok_s / factor,
    )


def speculative_world(family: str, seed: int, is_stressed: bool = False) -> SpeculativeWorld:
    """The box of this family with this number; stressed: with a surface and twice the noise."""
    box = box_of(FAMILIES[family], seed)
    if not is_stressed:
        return SpeculativeWorld(family, seed, BoxModel(box, None), _four_flags(), box.noise)
    usual = box.noise
    noise = replace(
        usual, launch=2 * usual.launch, single=2 * usual.single, serving=2 * usual.serving
    )
    model = BoxModel(box, surface_of(family, seed))
    return SpeculativeWorld(f"stress:{family}", seed, model, _four_flags(), noise)


def mixed_world(seed: int) -> SpeculativeWorld:
    """A box of one family after the other, with ordinary flags besides."""
    four, family = _four_flags(), list(FAMILIES.values())[seed % len(FAMILIES)]
    space = SearchSpace(MIXED, "speculation and others", {**four.parameters, **PARAMETERS})
    box = box_of(family, seed)
    return SpeculativeWorld(MIXED, seed, BoxModel(box, None), space, box.noise, extras_of(seed))


def _four_flags() -> SearchSpace:
    return load_space("speculative")
