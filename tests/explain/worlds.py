"""Studies whose records come from the simulated server's closed form, stored as real ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import optuna
from msgspec import structs

from autotune.core.objective import LATENCY, THROUGHPUT, objective_values, parse_slo, violations
from autotune.core.trial import (
    Caveat,
    Failure,
    FailureKind,
    Flags,
    Interval,
    Phase,
    TrialRecord,
    TrialRole,
)
from autotune.engine.simulated.engine import bundled_command
from autotune.engine.simulated.physics import Speculation, steady_state
from autotune.engine.simulated.scenarios import SCENARIOS
from autotune.engine.simulated.virtual import deploy
from autotune.measure.validity import caveats
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from autotune.study.config import RunConfig
from autotune.study.evaluate import limits_of
from autotune.study.reading import StudyView, open_study

from ..core.samples import exactly
from ..stored import stored as kept_study

SWEEP = "qwen3.5-122b-sweep"
N_REF = 216
CONTEXT_TOK, OUTPUT_TOK = 900, 216


def chain(steps: int, fraction: float = 0.85) -> dict[str, int | float]:
    return {STEPS: steps, TOPK: 1, DRAFT: steps + 1, MEMORY: fraction}


def launched(
    number: int,
    flags: Flags,
    *,
    serving: Sequence[int] = (16, 32),
    scenario: str = SWEEP,
    role: TrialRole = "search",
    off_by: float = 1.0,
    slo: Sequence[str] = (),
    half: float = 0.01,
    warnings: Sequence[Caveat] = (),
) -> TrialRecord:
    """What a launch of the scenario would record; all speeds are ``off_by`` times the truth."""
    steps, topk, draft = (int(flags.get(name, 0)) for name in (STEPS, TOPK, DRAFT))
    deployment, accept = deploy(
        SCENARIOS[scenario],
        Speculation(steps, max(1, topk), max(1, draft)),
        mem_fraction=float(flags.get(MEMORY, 0.85)),
    )
    phases = []
    for concurrency in (1, *serving):
        steady = steady_state(
            deployment, concurrency, accept.mean, new_tok=300, output_tok=OUTPUT_TOK,
            context_tok=CONTEXT_TOK,
        )  # fmt: skip
        waiting = max(0.0, concurrency - deployment.running_limit)
        phases.append(
            _phase(
                concurrency, 1 / (steady.decode_tok_s * off_by), steady.output_tok_s * off_by,
                accept.mean if steps else None, waiting, half,
            )
        )  # fmt: skip
    effective = {
        "max_running_requests": deployment.running_limit,
        "max_total_num_tokens": deployment.kv_pool_tok,
        "available_gpu_mem_gb": round(deployment.free_after_capture_gb, 2),
        **flags,
    }
    constraints = dict(violations([parse_slo(text) for text in slo], phases))
    return TrialRecord(
        number=number,
        status="infeasible" if any(v > 0 for v in constraints.values()) else "complete",
        flags=dict(flags),
        effective=effective,
        phases=phases,
        objectives=objective_values(phases),
        constraints=constraints,
        warnings=[*caveats(phases, limits_of(effective)), *warnings],
        timings={"launch_s": 75.0, "measure_s": 150.0, "stop_s": 3.0, "wall_s": 12.0},
        machine={"gpu": "simulated", "n_gpus": 4, "gpu_memory_gb": 96.0, "simulated": True},
        versions={"sglang": "0.5.23+simulated", "autotune": "0"},
        role=role,
    )


def _phase(
    concurrency: int, tpot_s: float, tok_s: float, accept: float | None, waiting: float, half: float
) -> Phase:
    ttft_s = 0.08 + 0.2 * waiting
    turn = exactly(ttft_s + tpot_s * N_REF, half)
    return Phase(
        role="latency" if concurrency == 1 else "serving",
        concurrency=concurrency,
        n_requests=48,
        n_failed=0,
        duration_s=40.0,
        ttft_s=exactly(ttft_s, half),
        tpot_s=exactly(tpot_s, half),
        e2e_s=turn,
        turn_latency_s=turn,
        decode_tok_s=exactly(1 / tpot_s, half),
        output_tok_s=exactly(tok_s, half),
        accept_length=accept,
        accept_length_interval=exactly(accept, half) if accept else None,
        in_flight_mean=float(concurrency),
        waiting_mean=waiting,
        n_sent=60,
        loop_frac=0.0,
        temperature=0.6,
    )


def crashed(
    number: int, flags: Flags, kind: FailureKind = FailureKind.GRAPH_CAPTURE_OOM
) -> TrialRecord:
    return TrialRecord(
        number=number,
        status="failed",
        flags=dict(flags),
        failure=Failure(kind, "capture", "CUDA out of memory", "lower the fraction"),
        timings={"launch_s": 48.0},
    )


def repeated(record: TrialRecord, number: int, factor: float) -> TrialRecord:
    """Another launch of the same flags, slower by the factor."""
    assert record.objectives is not None

    def slower(value: Interval) -> Interval:
        return Interval(value.value * factor, value.low * factor, value.high * factor)

    changed = {
        LATENCY: slower(record.objectives[LATENCY]), THROUGHPUT: record.objectives[THROUGHPUT]
    }  # fmt: skip
    return structs.replace(record, number=number, objectives=changed, role="replicate")


def stored(
    root: Path,
    records: Iterable[TrialRecord],
    *,
    name: str = "s",
    space: str = "speculative",
    serving: tuple[int, ...] = (16, 32),
) -> tuple[StudyView, optuna.Study]:
    """The records as a study in its folder, opened for reading."""
    config = RunConfig(
        study=name, engine="simulated", scenario=SWEEP, space=space,
        serving_concurrency=serving, command=bundled_command(SWEEP).argv,
    )  # fmt: skip
    kept_study(root, records, config)
    return open_study(name, root=root)
