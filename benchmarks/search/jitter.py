"""One box of a family: every constant moved at random, so that no two surfaces are the same."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace

import numpy as np

from autotune.engine.simulated.acceptance import DraftQuality
from autotune.engine.simulated.physics import Machine, StateCapacity
from benchmarks.search.families import Family, Load

_LOG_SD = 0.17
"""Between boxes of a family, of a speed, a size or a fixed time."""
_FREE = (
    "bandwidth_tb_s", "compute_tflops", "dense_params_b", "expert_params_b", "draft_params_b",
    "kv_kb_per_token", "verify_fixed_ms", "draft_fixed_ms", "overhead_ms", "tree_penalty_ms",
    "prefill_fixed_ms", "activations_gb", "graph_mb_per_row",
)  # fmt: skip
_HIGHEST_WEIGHTS_FRAC = 0.84
_PLACES, _PARTS = (-1.8, -0.8, 0.0, 0.8, 1.8), (0.1, 0.24, 0.32, 0.24, 0.1)
"""A bell in five parts: standard deviations from its middle, and shares."""


@dataclass(frozen=True, slots=True)
class Noise:
    """How far a launch strays: relative standard deviations and probabilities.

    Attributes:
        launch: of everything a launch measures.
        single: of C=1 besides.
        serving: of each serving concurrency besides.
        outlier: probability of a launch that is 8 to 35 % slower.
        crash: probability of a death for no reason.
    """

    launch: float = 0.01
    single: float = 0.015
    serving: float = 0.025
    outlier: float = 0.01
    crash: float = 0.01


@dataclass(frozen=True, slots=True)
class Tells:
    """What the server of this box says beyond the usual, as versions differ in it."""

    bound: bool
    histogram: bool
    waiting: bool
    free_memory: bool


@dataclass(frozen=True, slots=True)
class Box:
    """A family with constants of its own.

    Attributes:
        texts: shares of the texts that this box serves, with the draft's quality on each.
        margin_gb: free memory below which a loaded server may run out of it.
    """

    family: Family
    texts: tuple[tuple[float, DraftQuality], ...]
    noise: Noise
    tells: Tells
    margin_gb: float


def rng_of(*words: str | int) -> np.random.Generator:
    """A generator that depends on nothing but these words."""
    return np.random.default_rng([zlib.crc32(str(word).encode()) for word in words])


def box_of(family: Family, seed: int) -> Box:
    """The box of this family with this number."""
    rng = rng_of("box", family.name, seed)
    moved = replace(
        family,
        machine=_machine(family.machine, rng),
        draft=_draft(family.draft, rng),
        load=_load(family.load, rng),
        graph_power=family.graph_power + rng.normal(0, 0.05),
    )
    noise = Noise(*(value * _factor(rng, 0.25) for value in (0.01, 0.015, 0.025, 0.01, 0.01)))
    told = rng.random(4) < (0.5, 0.5, 0.7, 0.92)
    tells, margin_gb = Tells(*(bool(t) for t in told)), 0.45 * _factor(rng, 0.3)
    return Box(moved, _texts(moved), noise, tells, margin_gb)


def _texts(family: Family) -> tuple[tuple[float, DraftQuality], ...]:
    """Each kind of text of the mixture; spread: as five, with siblings better where the first
    choice is worse, as an unsure draft has the right token among its next guesses.
    """
    if not family.spread:
        return ((1.0, family.draft),)
    texts = []
    for share, q in family.draft.mixture:
        for place, part in zip(_PLACES, _PARTS, strict=True):
            moved = 1 / (1 + math.exp(-math.log(q / (1 - q)) - family.spread * place))
            rho = min(0.75, family.draft.rho * (1.6 - 0.9 * moved))
            texts.append((share * part, replace(family.draft, mixture=((1.0, moved),), rho=rho)))
    return tuple(texts)


def _factor(rng: np.random.Generator, log_sd: float = _LOG_SD) -> float:
    return math.exp(log_sd * float(np.clip(rng.normal(), -2.5, 2.5)))


def _machine(machine: Machine, rng: np.random.Generator) -> Machine:
    moved = {name: getattr(machine, name) * _factor(rng) for name in _FREE}
    weights_gb = machine.weights_gb * _factor(rng, 0.06)
    return replace(
        machine,
        **moved,
        weights_gb=min(weights_gb, _HIGHEST_WEIGHTS_FRAC * machine.gpu_memory_gb),
        # A driver, a context and other processes take their part of the card.
        gpu_memory_gb=machine.gpu_memory_gb * (1 - 0.03 * rng.random()),
        touch_power=float(np.clip(machine.touch_power + rng.normal(0, 0.04), 0.5, 0.98)),
        state=None if machine.state is None else _state(machine.state, rng),
    )


def _state(state: StateCapacity, rng: np.random.Generator) -> StateCapacity:
    return replace(
        state,
        at_zero=state.at_zero * _factor(rng, 0.12),
        per_draft=state.per_draft * _factor(rng),
        power=state.power + rng.normal(0, 0.06),
        per_gb=state.per_gb * _factor(rng),
        tail=state.tail * _factor(rng),
        move_ms=state.move_ms * _factor(rng, 0.25),
        move_power=state.move_power + rng.normal(0, 0.08),
    )


def _draft(draft: DraftQuality, rng: np.random.Generator) -> DraftQuality:
    shares = [share * _factor(rng) for share, _ in draft.mixture]
    qs = [float(np.clip(q + rng.normal(0, 0.05), 0.15, 0.988)) for _, q in draft.mixture]
    mixture = tuple((share / sum(shares), q) for share, q in zip(shares, qs, strict=True))
    return DraftQuality(
        mixture,
        decay=draft.decay * _factor(rng, 0.3),
        depth_power=draft.depth_power * _factor(rng, 0.06),
        rho=float(np.clip(draft.rho + rng.normal(0, 0.06), 0.05, 0.7)),
    )


def _load(load: Load, rng: np.random.Generator) -> Load:
    new, output, context = (
        round(value * _factor(rng, 0.2))
        for value in (load.new_tok, load.output_tok, load.context_tok)
    )
    return replace(load, new_tok=new, output_tok=output, context_tok=max(context, new + output))
