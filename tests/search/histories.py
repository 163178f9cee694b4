"""Studies as they may be: every state of a trial, every failure, and records that make no sense."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import optuna
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from autotune.core.trial import Bound, Failure, FailureKind, Flags, FlagValue, TrialRecord
from autotune.space import SearchSpace, load_space
from autotune.space.parameter import Choice, DecimalRange, IntegerRange, Parameter, Switch
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from tests.core.samples import exactly, phase

TREE: Mapping[str, Parameter] = {
    STEPS: IntegerRange(1, 5),
    TOPK: Choice((1, 2, 4)),
    DRAFT: IntegerRange(2, 16),
}
ORDINARY: Mapping[str, Parameter] = {
    "chunked_prefill_size": Choice((1024, 4096, 16384)),
    "schedule_conservativeness": DecimalRange(0.3, 1.5, 0.4),
    "cuda_graph_max_bs": IntegerRange(8, 64, 28),
    "attention_backend": Choice(("fa3", "flashinfer", "triton")),
    "schedule_policy": Choice(("fcfs", "lpm")),
    "num_continuous_decode_steps": IntegerRange(1, 3),
    "page_size": Choice((1, 64)),
    "enable_mixed_chunk": Switch(),
}


def _space(name: str, parameters: Mapping[str, Parameter]) -> SearchSpace:
    return SearchSpace(name, name, parameters)


SPACES: Mapping[str, SearchSpace] = {
    "speculative": load_space("speculative"),
    "steps-only": load_space("steps-only"),
    "no fraction": _space("no-fraction", TREE),
    "fraction only": _space("fraction-only", {MEMORY: DecimalRange(0.6, 0.9, 0.05)}),
    "ordinary": _space("ordinary", ORDINARY),
    "mixed": _space(
        "mixed",
        {
            **TREE,
            MEMORY: DecimalRange(0.7, 0.9, 0.1),
            "attention_backend": ORDINARY["attention_backend"],
            "enable_mixed_chunk": Switch(),
            "schedule_conservativeness": ORDINARY["schedule_conservativeness"],
        },
    ),
    "single": SearchSpace("single", "", {STEPS: IntegerRange(3, 3)}, {TOPK: 1}),
    "large": _space("large", {**TREE, MEMORY: DecimalRange(0.6, 0.95, 0.01), **ORDINARY}),
}

Outcome = Literal["measured", "no record", "infeasible", "failed", "pruned", "garbage", "running"]
OUTCOMES: tuple[Outcome, ...] = (
    "measured", "measured", "measured", "no record", "infeasible", "failed", "failed", "pruned",
    "garbage", "garbage", "running",
)  # fmt: skip


class Event(NamedTuple):
    """One trial: where its flags come from, how it ends, and the chance that fills in the rest."""

    origin: Literal["sampler", "anywhere", "enqueued", "waiting", "foreign", "outside"]
    outcome: Outcome
    kind: FailureKind
    bound: Bound | None
    seed: int
    damage: tuple[tuple[str, Any], ...]


# ---- records that make no sense -------------------------------------------------------------

ABSURD: tuple[Any, ...] = (
    None, True, "", "x", "nan", "7", float("nan"), float("inf"), -float("inf"), -1, 0, -0.5, 1,
    1e-320, 1e-30, 1e30, 1e308, 10**20, 10**400, [], {}, [1, 2], {"value": float("nan")},
    {"value": 1.0, "low": 2.0, "high": 0.5}, {"value": 1.0, "low": 1e-300, "high": 1e300},
    {"value": 10**400}, [None, {"role": "latency"}, {"role": "serving", "concurrency": 10**30}],
    {STEPS: float("nan")}, {STEPS: "many", TOPK: None}, {MEMORY: float("inf")}, {"x": 1},
    {STEPS: 10**30, TOPK: 10**30, DRAFT: 10**30, MEMORY: 1e300},
    {STEPS: 0, TOPK: 0, DRAFT: 0, MEMORY: 0}, {STEPS: -3, TOPK: -1, DRAFT: -1, MEMORY: -1.0},
    {"kind": "unheard_of", "bound": {"flag": MEMORY, "side": "at_least", "value": "x"}},
    {"kind": 3, "bound": {"flag": MEMORY, "side": "at_most", "value": 1e308}},
)  # fmt: skip
PLACES = (
    "", "status", "flags", f"flags/{STEPS}", f"flags/{TOPK}", f"flags/{DRAFT}", f"flags/{MEMORY}",
    "effective", "effective/max_running_requests", "effective/max_total_num_tokens",
    "effective/weights_gb", "effective/available_gpu_mem_gb", f"effective/{MEMORY}",
    f"effective/{STEPS}", "phases", "phases/0", "phases/0/ttft_s", "phases/0/accept_length",
    "phases/1/concurrency", "phases/1/output_tok_s", "phases/1/role", "phases/1/in_flight_mean",
    "phases/1/waiting_mean", "objectives", "objectives/latency_s", "objectives/throughput_tok_s",
    "objectives/latency_s/value", "objectives/throughput_tok_s/low", "constraints", "failure",
    "failure/kind", "failure/bound", "timings", "timings/launch_s", "machine",
    "machine/gpu_memory_gb", "role", "schema", "number",
)  # fmt: skip


def damaged(record: dict[str, Any], damage: Sequence[tuple[str, Any]]) -> Any:  # noqa: ANN401
    """The record with some of its places overwritten, as far as they are there."""
    whole: dict[str, Any] = {"record": copy.deepcopy(record)}
    for place, value in damage:
        *path, last = ["record", *(part for part in place.split("/") if part)]
        at: Any = whole
        for part in path:
            if isinstance(at, list):
                at = at[int(part)] if part.isdigit() and int(part) < len(at) else None
            else:
                at = at.get(part) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at[last] = copy.deepcopy(value)
        elif isinstance(at, list) and last.isdigit() and int(last) < len(at):
            at[int(last)] = copy.deepcopy(value)
    return whole["record"]


BOUNDS = st.none() | st.builds(
    Bound,
    st.sampled_from([MEMORY, "max_running_requests", ""]),
    st.sampled_from(["at_least", "at_most"]),
    st.sampled_from([0.75, 0.83, 0.9, 0.0, -1.0, 5.0, 1e9]),
)
EVENTS = st.builds(
    Event,
    st.sampled_from(
        ["sampler", "sampler", "anywhere", "anywhere", "enqueued", "waiting", "foreign", "outside"]
    ),
    st.sampled_from(OUTCOMES),
    st.sampled_from(FailureKind),
    BOUNDS,
    st.integers(0, 10**6),
    st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from(ABSURD)), max_size=3).map(tuple),
)


# ---- plausible records ----------------------------------------------------------------------


def at_random(space: SearchSpace, seed: int) -> dict[str, FlagValue]:
    """A legal configuration."""
    rng = np.random.default_rng(seed)
    values = {name: parameter.values() for name, parameter in space.parameters.items()}
    return space.nearest_legal({n: v[int(rng.integers(len(v)))] for n, v in values.items()})


def values_of(flags: Flags) -> tuple[float, float]:
    """A smooth trade-off that any flags have."""
    numbers = [float(v) for v in flags.values() if isinstance(v, int | float)]
    x = sum(np.tanh(v / 10) for v in numbers) / max(1, len(numbers))
    return float(1.0 + (x - 0.4) ** 2), float(1500.0 - 300.0 * x)


def measured_record(number: int, flags: Flags, *, feasible: bool = True) -> dict[str, Any]:
    latency, throughput = values_of(flags)
    draft, fraction = flags.get(DRAFT, 1), flags.get(MEMORY, 0.85)
    left_gb = 80.0 * (1 - float(fraction)) - 3.0 - 0.1 * float(draft)
    record = TrialRecord(
        number=number,
        status="complete" if feasible else "infeasible",
        flags=dict(flags),
        effective={
            "max_running_requests": 48,
            "max_total_num_tokens": 10_000 + int(1e6 * max(0.0, float(fraction) - 0.5)),
            "weights_gb": 40.0,
            "available_gpu_mem_gb": left_gb,
        },
        phases=[
            phase("latency", 1, turn_s=latency, accept_length=2.0 if STEPS in flags else None),
            phase("serving", 16, tok_s=0.8 * throughput),
            phase("serving", 32, tok_s=1.25 * throughput),
        ],
        objectives={
            "latency_s": exactly(latency, 0.01),
            "throughput_tok_s": exactly(throughput, 0.02),
        },
        constraints={} if feasible else {"ttft_p95_s<=0.5": 0.2},
        timings={"launch_s": 60.0, "measure_s": 90.0, "stop_s": 3.0},
        machine={"gpu": "a GPU", "n_gpus": 1, "gpu_memory_gb": 80.0},
    )
    return record.to_dict()


def failed_record(
    number: int, flags: Flags, kind: FailureKind, bound: Bound | None = None
) -> dict[str, Any]:
    return TrialRecord(
        number=number,
        status="failed",
        flags=dict(flags),
        effective={"weights_gb": 40.0},
        failure=Failure(kind, "capture", "evidence", "remedy", bound),
        timings={"launch_s": 40.0},
        machine={"gpu_memory_gb": 80.0},
    ).to_dict()


# ---- playing them ---------------------------------------------------------------------------


def new_study(sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    return optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)


def tell_measured(study: optuna.Study, trial: optuna.Trial, flags: Flags) -> None:
    trial.set_user_attr("record", measured_record(trial.number, flags))
    study.tell(trial, values_of(flags))


def tell_failed(
    study: optuna.Study,
    trial: optuna.Trial,
    flags: Flags,
    kind: FailureKind,
    bound: Bound | None = None,
) -> None:
    trial.set_user_attr("record", failed_record(trial.number, flags, kind, bound))
    study.tell(trial, state=TrialState.FAIL)


def add_measured(study: optuna.Study, space: SearchSpace, flags: Flags) -> None:
    """A launch of chosen flags, told at once."""
    study.enqueue_trial({name: flags[name] for name in space.parameters})
    trial = study.ask()
    tell_measured(study, trial, space.suggest(trial))


def play(study: optuna.Study, space: SearchSpace, history: Sequence[Event]) -> None:
    """Asks and tells; what is asked is not always told in the order of asking."""
    open_trials: list[tuple[Event, optuna.Trial, dict[str, FlagValue]]] = []
    for event in history:
        if event.origin == "foreign":
            _add_foreign(study, event.seed)
            continue
        if event.origin in ("anywhere", "enqueued", "waiting"):
            flags = at_random(space, event.seed)
            study.enqueue_trial({name: flags[name] for name in space.parameters})
            if event.origin == "waiting":
                continue
        if event.origin == "outside":
            study.enqueue_trial(_outside(space, event.seed))
        trial = study.ask()
        with warnings.catch_warnings():
            # Optuna's own, where an enqueued value is out of range.
            warnings.simplefilter("ignore", UserWarning)
            flags = space.suggest(trial)
        open_trials.append((event, trial, flags))
        if event.seed % 3:
            _tell(study, *open_trials.pop(event.seed % len(open_trials)))
    for open_trial in open_trials:
        _tell(study, *open_trial)


def _tell(
    study: optuna.Study, event: Event, trial: optuna.Trial, flags: dict[str, FlagValue]
) -> None:
    match event.outcome:
        case "measured":
            tell_measured(study, trial, flags)
        case "no record":
            study.tell(trial, values_of(flags))
        case "infeasible":
            trial.set_user_attr("record", measured_record(trial.number, flags, feasible=False))
            study.tell(trial, values_of(flags))
        case "failed":
            tell_failed(study, trial, flags, event.kind, event.bound)
        case "pruned":
            trial.set_user_attr("record", failed_record(trial.number, flags, event.kind))
            trial.report(1.0, 1) if len(study.directions) == 1 else None
            study.tell(trial, state=TrialState.PRUNED)
        case "garbage":
            whole = event.seed % 2 == 0
            good = (
                measured_record(trial.number, flags)
                if whole
                else failed_record(trial.number, flags, event.kind, event.bound)
            )
            trial.set_user_attr("record", damaged(good, event.damage))
            if event.seed % 5 == 0:
                study.tell(trial, state=TrialState.FAIL)
            elif event.seed % 5 < 4:
                study.tell(trial, [event.seed % 7 - 1.0, 10.0 ** (event.seed % 600 - 300)])
        case "running":
            pass


def _outside(space: SearchSpace, seed: int) -> dict[str, Any]:
    """Values beyond the ranges; Optuna itself refuses choices that are none."""
    flags: dict[str, Any] = dict(at_random(space, seed))
    found = {name: flags[name] for name in space.parameters}
    for name, parameter in space.parameters.items():
        if isinstance(parameter, IntegerRange):
            found[name] = parameter.high + 1 + seed % 40
        elif isinstance(parameter, DecimalRange):
            found[name] = round(parameter.high + 0.003, 4)
    return found


def _add_foreign(study: optuna.Study, seed: int) -> None:
    """A trial of something else, with values that may be anything that Optuna takes."""
    params: tuple[dict[str, Any], ...] = (
        {}, {"x": 1.5}, {STEPS: 3.0, "x": 1.0}, {MEMORY: 0.7}, {STEPS: "auto"}, {STEPS: None},
        {STEPS: 4.0, TOPK: 1.0, DRAFT: 5.0, MEMORY: 0.8}, {"attention_backend": "unheard"},
    )  # fmt: skip
    chosen = params[seed % len(params)]
    values = ([1.0, 2.0], [float("inf"), 5.0], [1e308, 1e-308], [0.0, 0.0], [-1.0, -float("inf")])
    study.add_trial(
        optuna.trial.create_trial(
            values=values[seed % len(values)],
            params=chosen,
            distributions={
                name: FloatDistribution(0, 100)
                if isinstance(value, float)
                else CategoricalDistribution([value, "other"])
                for name, value in chosen.items()
            },
            user_attrs={} if seed % 3 else {"record": ABSURD[seed % len(ABSURD)]},
        )
    )
