"""What a study is told of a launch: a trial record (schema 1) with noise and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.core.objective import objective_values
from autotune.core.trial import (
    Bound,
    Failure,
    FailureKind,
    FlagValue,
    Interval,
    Phase,
    TrialRecord,
)
from autotune.engine.simulated.acceptance import AcceptDistribution
from autotune.engine.simulated.physics import Deployment, SteadyState
from benchmarks.search.jitter import Box, Noise

_N_SINGLE = 24
_ROUNDS = 4
"""Requests of a serving phase, per concurrent one."""
_CAPTURE_DIES_AT = 0.6
_STOP_S = 4.0
_PASSES = 1_500
"""Verify passes behind an accept histogram."""


@dataclass(frozen=True, slots=True)
class Death:
    """Why a launch ends without values."""

    kind: FailureKind
    stage: str
    evidence: str
    remedy: str
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """What was launched, and how much memory it left."""

    number: int
    flags: dict[str, FlagValue]
    box: Box
    deployment: Deployment
    free_gb: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What a perfect measurement would see, by concurrency."""

    states: Mapping[int, SteadyState]
    accept: AcceptDistribution
    n_ref: int

    @property
    def measure_s(self) -> float:
        """Seconds that the phases take."""
        return sum(
            (_N_SINGLE if c == 1 else _ROUNDS) * (state.ttft_s + self.n_ref / state.decode_tok_s)
            for c, state in self.states.items()
        )


def failed_record(
    launch: Launch, death: Death, seen: Seen | None, rng: np.random.Generator
) -> dict[str, Any]:
    """Of a launch that died; a death under load comes half way through the measurement."""
    timings = _timings(launch, death.stage, rng)
    if seen is not None:
        timings["measure_s"] = 0.5 * seen.measure_s
    failure = Failure(death.kind, death.stage, death.evidence, death.remedy, death.bound)
    record = TrialRecord(
        number=launch.number,
        status="failed",
        flags=launch.flags,
        effective=_effective(launch, death.stage),
        failure=failure,
        timings=timings,
        machine=_machine(launch),
    )
    return as_told(record)


def measured_record(
    launch: Launch, seen: Seen, noise: Noise, rng: np.random.Generator
) -> dict[str, Any]:
    """Of a launch that lived."""
    luck = math.exp(rng.normal(0, noise.launch))
    if rng.random() < noise.outlier:
        luck *= 1.0 - rng.uniform(0.08, 0.35)
    phases = [
        _phase(
            launch,
            seen,
            concurrency,
            luck,
            noise.single if concurrency == 1 else noise.serving,
            rng,
        )
        for concurrency in seen.states
    ]
    record = TrialRecord(
        number=launch.number,
        status="complete",
        flags=launch.flags,
        effective=_effective(launch, "ready"),
        phases=phases,
        objectives=objective_values(phases),
        timings=_timings(launch, "ready", rng) | {"measure_s": seen.measure_s},
        machine=_machine(launch),
    )
    return as_told(record)


def as_told(record: TrialRecord) -> dict[str, Any]:
    """Plain values, without what only the tuner itself writes."""
    plain = record.to_dict()
    del plain["role"]
    return plain


def interval(value: float, sd: float) -> Interval:
    """95 % of a value with this relative standard deviation."""
    return Interval(value, value * math.exp(-1.96 * sd), value * math.exp(1.96 * sd))


def _phase(
    launch: Launch, seen: Seen, concurrency: int, luck: float, sd: float, rng: np.random.Generator
) -> Phase:
    state = seen.states[concurrency]
    speed = luck * math.exp(rng.normal(0, sd))
    # A measurement knows its own noise roughly, and nothing of how launches differ.
    told_sd = sd * float(rng.uniform(0.7, 1.3))
    ttft_s = state.ttft_s / luck * math.exp(rng.normal(0, 2 * sd))
    decode_tok_s = state.decode_tok_s * speed
    tpot_s = 1.0 / decode_tok_s
    turn_s = (state.ttft_s + seen.n_ref / state.decode_tok_s) / speed
    mean = 1.0 + (seen.accept.mean - 1.0) * math.exp(rng.normal(0, 0.012))
    waiting = max(0.0, concurrency - state.n_running)
    tells = launch.box.tells
    return Phase(
        role="latency" if concurrency == 1 else "serving",
        concurrency=concurrency,
        n_requests=_N_SINGLE if concurrency == 1 else _ROUNDS * concurrency,
        n_failed=0,
        duration_s=turn_s * (_N_SINGLE if concurrency == 1 else _ROUNDS),
        ttft_s=interval(ttft_s, 2 * told_sd),
        tpot_s=interval(tpot_s, told_sd),
        e2e_s=interval(turn_s, 8 * told_sd),
        turn_latency_s=interval(turn_s, told_sd),
        decode_tok_s=interval(decode_tok_s, told_sd),
        output_tok_s=interval(state.output_tok_s * speed, told_sd),
        accept_length=mean,
        accept_histogram=_histogram(seen.accept, rng) if tells.histogram else (),
        in_flight_mean=concurrency * float(rng.uniform(0.985, 1.0)),
        waiting_mean=waiting * float(rng.uniform(0.9, 1.05)) if tells.waiting else None,
    )


def _histogram(accept: AcceptDistribution, rng: np.random.Generator) -> tuple[float, ...]:
    shares = np.clip(np.diff(accept.cumulative, prepend=0.0), 0.0, 1.0)
    drawn = rng.multinomial(_PASSES, shares / shares.sum()) / _PASSES
    return tuple(drawn.tolist())


def _effective(launch: Launch, stage: str) -> dict[str, Any]:
    """What the server said before it was ready, or died at this stage."""
    deployment, machine = launch.deployment, launch.box.family.machine
    told: dict[str, Any] = {
        "mem_fraction_static": deployment.mem_fraction,
        "weights_gb": round(machine.weights_gb, 2),
        "context_len": machine.context_tok,
        "cuda_graph_max_bs": deployment.graph_max_batch,
        "tp_size": machine.n_gpus,
        "attention_backend": "fa3",
        "speculative_algorithm": "EAGLE",
    }
    if stage != "pool":
        told["max_total_num_tokens"] = deployment.kv_pool_tok
        told["kv_cache_gb"] = round(deployment.kv_pool_gb, 2)
    if stage in ("serving", "ready"):
        told["max_running_requests"] = deployment.running_limit
        if launch.box.tells.free_memory:
            told["available_gpu_mem_gb"] = round(launch.free_gb, 2)
    return told


def _machine(launch: Launch) -> dict[str, Any]:
    machine = launch.box.family.machine
    return {
        "gpu": machine.gpu,
        "n_gpus": machine.n_gpus,
        "gpu_memory_gb": round(machine.gpu_memory_gb, 2),
    }


def _timings(launch: Launch, stage: str, rng: np.random.Generator) -> dict[str, float]:
    """Seconds on hardware until this stage; an early death costs less than a late one."""
    weights_s, pool_s, capture_s, warm_s = launch.box.family.launch_s
    spent_s = weights_s + pool_s
    if stage == "capture":
        spent_s += _CAPTURE_DIES_AT * capture_s
    elif stage != "pool":
        spent_s += capture_s + warm_s
    return {
        "launch_s": spent_s * math.exp(rng.normal(0, 0.05)),
        "measure_s": 0.0,
        "stop_s": _STOP_S,
    }
