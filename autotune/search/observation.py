"""What one trial of a study teaches, read from whatever it carries.

A study may hold trials of this tool, of an older schema, of another tool or of a notebook. Nothing
here raises: a key that is missing or absurd is simply not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeGuard

from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.trial import AFTERWARDS, Bound, Failure, FailureKind, Flags, FlagValue
from autotune.errors import SpaceError
from autotune.space import SearchSpace
from autotune.space.rules import TREE_FLAGS

MIN_LOG_SD = 0.01
"""No measurement of a server is better than 1 %: launches of the same flags differ by more."""
_UNKNOWN_LOG_SD = 0.02
_MAX_LOG_SD = 0.5
_ABSURD = 1e12
"""No flag, time, rate or amount of a server is so large, or positive and as small as its inverse.
"""

ENVIRONMENT = frozenset(
    {
        FailureKind.INTERRUPTED, FailureKind.GPU_BUSY, FailureKind.PORT_IN_USE, FailureKind.NCCL,
        FailureKind.MODEL_MISSING, FailureKind.CLIENT_SATURATED, FailureKind.TOO_NOISY,
    }
)  # fmt: skip
"""Failures that say nothing about the flags, which are not launched again all the same."""


class Measured(NamedTuple):
    """A positive value on the log scale, with the standard deviation of its logarithm."""

    log: float
    sd: float


class Served(NamedTuple):
    """Aggregate throughput (tok/s) at one concurrency, and the batch that ran, where told."""

    concurrency: int
    throughput: Measured
    n_running: float | None


@dataclass(frozen=True, slots=True)
class Observation:
    """One trial.

    Attributes:
        number: of the Optuna trial.
        flags: canonical where the space knows them; flags outside its ranges stay as they are.
        outcome: ``measured`` carries both values; ``failed`` died for its flags; ``pending`` runs;
            ``pruned`` lived, and was left after its latency, if that much.
        served: one entry for each serving concurrency.
        ttft: time to the first token at C=1, seconds.
        accept_length: tokens per verify pass.
        running_limit: requests that may decode at once.
        kv_tokens: tokens in the KV pool.
        free_gb, weights_gb, gpu_gb: GB per GPU; free: after graph capture.
        failure: of a failed one, as far as it is readable.
        minutes: that the launch took, of the engine's own time.
        is_reference: it is not of the space (speculation off): to learn from, not to choose.
        violations: constraint to how far it is off; at most 0: kept.
        is_feasible: no constraint is violated.
    """

    number: int
    flags: dict[str, FlagValue]
    outcome: Literal["measured", "failed", "pending", "pruned"]
    latency: Measured | None = None
    throughput: Measured | None = None
    served: tuple[Served, ...] = ()
    ttft: Measured | None = None
    accept_length: Measured | None = None
    running_limit: float | None = None
    kv_tokens: float | None = None
    free_gb: float | None = None
    weights_gb: float | None = None
    gpu_gb: float | None = None
    failure: Failure | None = None
    minutes: float | None = None
    is_reference: bool = False
    violations: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_accident(self) -> bool:
        """It died, and not for its flags."""
        return self.failure is not None and self.failure.kind in ENVIRONMENT

    @property
    def is_feasible(self) -> bool:
        return self.outcome == "measured" and all(v <= 0 for v in self.violations.values())


def observations(study: Study, space: SearchSpace, but: int | None = None) -> list[Observation]:
    """Every trial of the study that teaches something, except number ``but``."""
    trials = study.get_trials(deepcopy=False)
    found = (observe(trial, space) for trial in trials if trial.number != but)
    return [observation for observation in found if observation is not None]


def observe(trial: FrozenTrial, space: SearchSpace) -> Observation | None:
    """What one trial teaches; None: nothing."""
    record = trial.user_attrs.get("record")
    record = record if isinstance(record, Mapping) else {}
    flags = None if _is_afterwards(trial, record) else _flags(trial, record, space)
    if flags is None:
        return None
    if not record and not trial.state.is_finished():
        return Observation(trial.number, flags, "pending")
    effective, machine = _mapping(record, "effective"), _mapping(record, "machine")
    failure = _failure(record, trial)
    latency, throughput = _values(record, trial)
    phases = [phase for phase in _sequence(record, "phases") if isinstance(phase, Mapping)]
    single = next((phase for phase in phases if phase.get("role") == "latency"), {})
    is_pruned = failure is None and _is_pruned(record, trial)
    if is_pruned:
        latency, throughput = _measured(single.get("turn_latency_s")), None
    elif failure is None and (latency is None or throughput is None):
        return None
    if failure is not None and failure.kind is FailureKind.INTERRUPTED:
        return None
    return Observation(
        trial.number,
        flags,
        "failed" if failure else "pruned" if is_pruned else "measured",
        latency=None if failure else latency,
        throughput=None if failure else throughput,
        served=() if failure else tuple(_served(phases)),
        ttft=_measured(single.get("ttft_s")),
        accept_length=_accept_length(phases),
        running_limit=_positive(effective.get("max_running_requests")),
        kv_tokens=_positive(effective.get("max_total_num_tokens")),
        free_gb=_finite(effective.get("available_gpu_mem_gb")),
        weights_gb=_positive(effective.get("weights_gb")),
        gpu_gb=_positive(machine.get("gpu_memory_gb")),
        failure=failure,
        minutes=_minutes(_mapping(record, "timings")),
        is_reference=_is_reference(record),
        violations=_violations(record, trial),
    )


def _flags(
    trial: FrozenTrial, record: Mapping[str, Any], space: SearchSpace
) -> dict[str, FlagValue] | None:
    """The flags that ran; those of the tree that the command left open, as the server chose."""
    asked = record.get("flags")
    given: Flags = asked if isinstance(asked, Mapping) and asked else trial.params
    # Trials that wait for a worker, and those of other tools, have no parameters yet.
    for elsewhere in (trial.user_attrs.get("flags"), trial.system_attrs.get("fixed_params")):
        if not given and isinstance(elsewhere, Mapping):
            given = elsewhere
    effective = _mapping(record, "effective")
    known = {
        name: value
        for name, value in given.items()
        if name in space.names and _is_flag_value(value)
    }
    for name in space.names:
        value = effective.get(name)
        if name not in known and _is_flag_value(value):
            known[name] = value
    try:
        return space.canonical(known) if known or _is_reference(record) else None
    except (SpaceError, ValueError, TypeError):
        return None


def _is_reference(record: Mapping[str, Any]) -> bool:
    return record.get("role") == "reference"


def _is_afterwards(trial: FrozenTrial, record: Mapping[str, Any]) -> bool:
    """To judge the search, not to learn from: that would spoil both."""
    roles = (record.get("role"), trial.user_attrs.get("role"))
    return any(isinstance(role, str) and role in AFTERWARDS for role in roles)


def _is_pruned(record: Mapping[str, Any], trial: FrozenTrial) -> bool:
    return record.get("status") == "pruned" or trial.state == TrialState.PRUNED


def _failure(record: Mapping[str, Any], trial: FrozenTrial) -> Failure | None:
    """The failure told, or a nameless one where a trial failed and does not say why."""
    told = record.get("failure")
    if isinstance(told, Mapping):
        try:
            kind = FailureKind(str(told.get("kind")))
        except ValueError:
            kind = FailureKind.CRASHED
        return Failure(kind, str(told.get("stage", "")), "", "", _bound(told.get("bound")))
    # A worker that died between its record and its answer leaves FAIL beside good values.
    is_unanswered = trial.state == TrialState.FAIL and not _mapping(record, "objectives")
    if record.get("status") == "failed" or is_unanswered:
        return Failure(FailureKind.CRASHED, "", "", "")
    return None


def _bound(raw: object) -> Bound | None:
    if not isinstance(raw, Mapping):
        return None
    value, side = _finite(raw.get("value")), raw.get("side")
    if value is None or side not in ("at_least", "at_most"):
        return None
    return Bound(str(raw.get("flag")), side, value)


def _values(
    record: Mapping[str, Any], trial: FrozenTrial
) -> tuple[Measured | None, Measured | None]:
    objectives = _mapping(record, "objectives")
    latency, throughput = (_measured(objectives.get(name)) for name in (LATENCY, THROUGHPUT))
    values = trial.values if trial.state == TrialState.COMPLETE else None
    if values is not None and len(values) == 2:
        latency = latency or _measured(values[0])
        throughput = throughput or _measured(values[1])
    return latency, throughput


def _served(phases: Iterable[Mapping[str, Any]]) -> Iterable[Served]:
    for phase in phases:
        concurrency = _positive(phase.get("concurrency"))
        throughput = _measured(phase.get("output_tok_s"))
        if phase.get("role") != "serving" or concurrency is None or throughput is None:
            continue
        flying, waiting = _positive(phase.get("in_flight_mean")), _finite(phase.get("waiting_mean"))
        known = flying is not None and waiting is not None
        running = max(1.0, (flying or 0.0) - (waiting or 0.0)) if known else None
        yield Served(round(concurrency), throughput, running)


def _accept_length(phases: Iterable[Mapping[str, Any]]) -> Measured | None:
    """Mean over the phases, on the log scale."""
    logs = [math.log(v) for p in phases if (v := _positive(p.get("accept_length"))) and v >= 1]
    return Measured(sum(logs) / len(logs), 0.02) if logs else None


def _violations(record: Mapping[str, Any], trial: FrozenTrial) -> dict[str, float]:
    told = _mapping(record, "constraints")
    found = {str(k): v for k, raw in told.items() if (v := _finite(raw)) is not None}
    if not found and record.get("status") == "infeasible":
        return {"infeasible": 1.0}
    return found


def _minutes(timings: Mapping[str, Any]) -> float | None:
    parts = [_finite(timings.get(name)) for name in ("launch_s", "measure_s", "stop_s")]
    known = [part for part in parts if part is not None]
    return sum(known) / 60 if known else None


def _measured(raw: object) -> Measured | None:
    """A number, or a mapping of value, low and high (95 %)."""
    whole = raw if isinstance(raw, Mapping) else {"value": raw}
    value = _positive(whole.get("value"))
    if value is None:
        return None
    low, high = _positive(whole.get("low")), _positive(whole.get("high"))
    if low is None or high is None or not low < high:
        return Measured(math.log(value), _UNKNOWN_LOG_SD)
    return Measured(math.log(value), min(math.log(high / low) / 3.92, _MAX_LOG_SD))


def _mapping(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = record.get(key)
    return value if isinstance(value, Mapping) else {}


def _sequence(record: Mapping[str, Any], key: str) -> Iterable[Any]:
    value = record.get(key)
    return value if isinstance(value, list | tuple) else ()


def _finite(raw: object) -> float | None:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    return float(raw) if -_ABSURD < raw < _ABSURD else None


def _positive(raw: object) -> float | None:
    value = _finite(raw)
    return value if value is not None and value > 1.0 / _ABSURD else None


def _is_flag_value(raw: object) -> TypeGuard[FlagValue]:
    return isinstance(raw, bool | str) or _finite(raw) is not None


def has_tree(flags: Flags) -> bool:
    """Whether steps, topk and draft tokens are all given as numbers."""
    for name in TREE_FLAGS:  # a loop: asked of ten thousands of configurations
        value = flags.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
    return True
