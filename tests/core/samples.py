"""Records with made-up but plausible values."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.core.trial import (
    Failure,
    FailureKind,
    FlagValue,
    Interval,
    Phase,
    Role,
    TrialRecord,
)


def exactly(value: float, half: float = 0.0) -> Interval:
    return Interval(value, value * (1 - half), value * (1 + half))


def phase(
    role: Role = "latency",
    concurrency: int = 1,
    *,
    turn_s: float = 1.0,
    tok_s: float = 100.0,
    n_requests: int = 24,
    n_failed: int = 0,
    accept_length: float | None = 3.1,
    percentiles: Mapping[str, dict[str, float]] | None = None,
) -> Phase:
    return Phase(
        role=role,
        concurrency=concurrency,
        n_requests=n_requests,
        n_failed=n_failed,
        duration_s=9.0,
        ttft_s=exactly(0.1),
        tpot_s=exactly(0.004),
        e2e_s=exactly(1.1),
        turn_latency_s=exactly(turn_s),
        decode_tok_s=exactly(250.0),
        output_tok_s=exactly(tok_s),
        accept_length=accept_length,
        in_flight_mean=float(concurrency),
        percentiles=dict(percentiles or {}),
    )


def chain(steps: int, fraction: float = 0.85) -> dict[str, FlagValue]:
    return {
        "speculative_num_steps": steps,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": steps + 1,
        "mem_fraction_static": fraction,
    }


def measured(
    number: int,
    steps: int,
    latency: float,
    throughput: float,
    *,
    half: float = 0.01,
    fraction: float = 0.85,
    feasible: bool = True,
    baseline: bool = False,
) -> TrialRecord:
    return TrialRecord(
        number=number,
        status="complete" if feasible else "infeasible",
        flags=chain(steps, fraction),
        phases=[phase(), phase("serving", 16, tok_s=throughput)],
        objectives={
            "latency_s": exactly(latency, half),
            "throughput_tok_s": exactly(throughput, half),
        },
        role="baseline" if baseline else "search",
    )


def crashed(number: int, steps: int, kind: FailureKind = FailureKind.RUNTIME_OOM) -> TrialRecord:
    return TrialRecord(
        number=number,
        status="failed",
        flags=chain(steps),
        failure=Failure(kind, "serving", "CUDA out of memory", "lower the fraction"),
    )
