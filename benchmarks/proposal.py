"""CPU time of one proposal of the default sampler, after few and after many trials.

CPU time of this process, not of a clock: what else runs on the machine changes it little. Each
proposal is asked of a study made up in memory, where every tenth launch died; medians are told.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.trial import TrialState, create_trial

from autotune.core.objective import objective_named
from autotune.core.trial import FlagValue
from autotune.search import SpeculativeSampler, recommend
from autotune.space import SearchSpace, load_space
from autotune.space.parameter import Choice, DecimalRange, IntegerRange, Parameter, Switch
from benchmarks.output import Result, as_command


class _Case(NamedTuple):
    title: str
    space: SearchSpace
    n_trials: int
    bar_s: float


def _twenty() -> SearchSpace:
    """The four flags of speculation and sixteen ordinary ones, a few of each kind."""
    shipped = load_space("speculative")
    parameters: dict[str, Parameter] = dict(shipped.parameters)
    kinds: tuple[Parameter, ...] = (
        IntegerRange(1, 16),
        DecimalRange(0.3, 1.5, 0.1),
        Choice(("a", "b", "c")),
        Switch(),
    )
    for i in range(16):
        parameters[f"flag_{i}"] = kinds[i % len(kinds)]
    return SearchSpace("twenty", "twenty flags", parameters)


def _cases() -> tuple[_Case, ...]:
    shipped, twenty = load_space("speculative"), _twenty()
    return (
        _Case("4 flags, 10 trials", shipped, 10, 0.3),
        _Case("4 flags, 100 trials", shipped, 100, 0.3),
        _Case("20 flags, 100 trials", twenty, 100, 0.3),
        _Case("4 flags, 2,000 trials", shipped, 2000, 5.0),
        _Case("20 flags, 2,000 trials", twenty, 2000, 5.0),
    )


def run(quick: bool) -> Result:
    """Asks once before, for what a process computes only once."""
    rows, missed, values = [], [], {}
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for case in _cases()[:3] if quick else _cases():
        first, proposals, recommendations = _measure(case, 3 if quick else 5)
        proposal = median(proposals)
        rows.append([case.title, *(f"{s:.2f}" for s in (first, proposal, median(recommendations)))])
        values[case.title] = {
            "first_s": first, "proposal_s": proposals, "recommendation_s": recommendations,
        }  # fmt: skip
        if proposal > case.bar_s:
            missed.append(f"{case.title}: {proposal:.2f} s, more than {case.bar_s:g} s")
    return Result(
        title="CPU time of a proposal (s)",
        columns=["study", "first in a process", "proposal", "recommendation"],
        rows=rows,
        missed=missed,
        values={"proposal": values},
    )


def _measure(case: _Case, n_repeats: int) -> tuple[float, list[float], list[float]]:
    study, objective = _study(case), objective_named("agentic")
    sampler = SpeculativeSampler(case.space, objective, seed=0)
    started = time.process_time()
    sampler.propose(study, case.n_trials)
    first = time.process_time() - started
    proposals, recommendations = [], []
    for i in range(n_repeats):
        started = time.process_time()
        sampler.propose(study, case.n_trials + i)
        proposals.append(time.process_time() - started)
        started = time.process_time()
        recommend(study, case.space, objective, seed=i)
        recommendations.append(time.process_time() - started)
    return first, proposals, recommendations


def _study(case: _Case) -> optuna.Study:
    rng = np.random.default_rng(0)
    study = optuna.create_study(directions=["minimize", "maximize"])
    values = {name: parameter.values() for name, parameter in case.space.parameters.items()}
    for number in range(case.n_trials):
        point = {n: each[int(rng.integers(len(each)))] for n, each in values.items()}
        flags = case.space.nearest_legal(point)
        failed = number % 10 == 9
        record = _record(flags, rng, failed)
        study.add_trial(
            create_trial(
                state=TrialState.FAIL if failed else TrialState.COMPLETE,
                values=None if failed else [o["value"] for o in record["objectives"].values()],
                params={name: flags[name] for name in case.space.parameters},
                distributions=case.space.distributions(),
                user_attrs={"record": record},
            )
        )
    return study


def _record(
    flags: Mapping[str, FlagValue], rng: np.random.Generator, failed: bool
) -> dict[str, Any]:
    if failed:
        failure = {"kind": "graph_capture_oom", "stage": "capture", "evidence": "", "remedy": ""}
        return {"status": "failed", "flags": dict(flags), "failure": failure}
    steps, fraction = int(flags["speculative_num_steps"]), float(flags["mem_fraction_static"])
    luck = np.exp(rng.normal(0, 0.02, 3))
    latency, throughput = 1.0 + 0.05 * (steps - 4) ** 2, 1500.0 + 200 * fraction - 40 * steps
    each = [throughput * 0.8 * luck[1], throughput * 1.25 * luck[2]]
    phases: list[dict[str, Any]] = [{"role": "latency", "concurrency": 1, "accept_length": 2.5}]
    for concurrency, tok_s in zip((16, 32), each, strict=True):
        phases.append(
            {"role": "serving", "concurrency": concurrency, "output_tok_s": _interval(tok_s)}
        )
    return {
        "status": "complete",
        "flags": dict(flags),
        "effective": {
            "max_running_requests": 48,
            "max_total_num_tokens": int(1e6 * (fraction - 0.5)),
            "available_gpu_mem_gb": 80 * (1 - fraction) - 3,
        },
        "phases": phases,
        "objectives": {
            "latency_s": _interval(latency * luck[0]),
            "throughput_tok_s": _interval(float(np.sqrt(each[0] * each[1]))),
        },
        "machine": {"gpu_memory_gb": 80.0},
    }


def _interval(value: float) -> dict[str, float]:
    return {"value": float(value), "low": float(value * 0.98), "high": float(value * 1.02)}


command = as_command(run, "Measure the CPU time that the default sampler takes for a proposal.")

if __name__ == "__main__":
    command()
