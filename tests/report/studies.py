"""Studies of made-up records, as a reader sees them, with every part that a report may show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import optuna

from autotune.core.objective import DIRECTIONS, LATENCY, PRESETS, THROUGHPUT
from autotune.core.trial import Failure, FailureKind, Phase, TrialRecord
from autotune.engine.sglang.command import LaunchCommand
from autotune.report.subject import Subject
from autotune.study.config import RunConfig
from autotune.study.reading import StudyView

from ..core.samples import chain, exactly, phase
from ..stored import frozen, stored

COMMAND = (
    "python -m sglang.launch_server --model-path acme/model --tp 4 "
    "--speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 --mem-fraction-static 0.85"
).split()
PERCENTILES = {
    metric: {"p50": 0.1, "p90": 0.2, "p95": 0.25, "p99": 0.4}
    for metric in ("ttft_s", "tpot_s", "turn_latency_s")
}


def at_load(concurrency: int, steps: int, tok_s: float, turn_s: float) -> Phase:
    whole = phase(
        "latency" if concurrency == 1 else "serving", concurrency, turn_s=turn_s, tok_s=tok_s,
        accept_length=1 + 2.4 * (1 - math.exp(-steps / 3)), percentiles=PERCENTILES,
    )  # fmt: skip
    decode = exactly(tok_s / concurrency, 0.02)
    return msgspec.structs.replace(whole, decode_tok_s=decode, output_tok_s=exactly(tok_s, 0.02))


def launch(
    number: int, *, serving: Sequence[int] = (16,), feasible: bool = True, half: float = 0.01
) -> TrialRecord:
    """A measured trial: each number has flags of its own; deeper drafts are quick and serve less.

    The first one is the baseline.
    """
    steps, fraction = 3 + number % 5, round(0.85 - 0.01 * (number // 5 % 20), 2)
    wobble = 1 + 0.02 * math.sin(number)
    latency = (1.6 - 0.12 * steps) * wobble
    served = {c: 900 * (c / 16) ** 0.4 * (1.15 - 0.05 * steps * math.log(c, 16)) for c in serving}
    throughput = math.exp(sum(math.log(v) for v in served.values()) / len(served)) / wobble
    flags = {**chain(steps, fraction), "chunked_prefill_size": 2048 + number // 100}
    return TrialRecord(
        number=number,
        status="complete" if feasible else "infeasible",
        flags=flags,
        effective={"max_running_requests": 34 - 4 * steps, "model_path": "acme/model"},
        phases=[
            at_load(1, steps, 200.0 / latency, latency),
            *(at_load(c, steps, value, 2 * latency) for c, value in served.items()),
        ],
        objectives={
            LATENCY: exactly(latency, half), THROUGHPUT: exactly(throughput, half),
        },
        constraints={"ttft_p95_s<=0.5": -0.1 if feasible else 0.4},
        timings={"launch_s": 60.0, "measure_s": 40.0, "stop_s": 2.0},
        machine={"gpu": "Some GPU", "n_gpus": 2},
        versions={"sglang": "0.5.23", "autotune": "0.1.0"},
        role="search" if number else "baseline",
    )  # fmt: skip


def dead(number: int, evidence: str = "torch.OutOfMemoryError: CUDA out of memory") -> TrialRecord:
    return TrialRecord(
        number=number,
        status="failed",
        flags={**chain(3 + number % 5, 0.9), "chunked_prefill_size": 2048},
        failure=Failure(FailureKind.RUNTIME_OOM, "serving", evidence, "lower the fraction"),
        timings={"launch_s": 30.0, "measure_s": 0.0, "stop_s": 2.0},
        role="search" if number else "baseline",
    )


def mixed(n: int, serving: Sequence[int] = (16,)) -> list[TrialRecord]:
    """Every seventh failed, every fifth outside a constraint."""
    return [
        dead(i) if i % 7 == 6 else launch(i, serving=serving, feasible=i % 5 != 4) for i in range(n)
    ]


def view_of(
    records: Sequence[TrialRecord], *, name: str = "made-up", simulated: bool = False
) -> StudyView:
    config = replace(RunConfig(), command=tuple(COMMAND))
    config = replace(config, engine="simulated" if simulated else "sglang")
    return StudyView(
        name=name,
        directory=Path("studies") / name,
        config=config,
        objective=PRESETS["agentic"],
        command=LaunchCommand.parse(COMMAND),
        records=tuple(records),
    )


def subject_of(view: StudyView) -> Subject:
    """What the report is made of: the study, and the same in a storage for its model."""
    study = optuna.create_study(directions=DIRECTIONS)
    study.add_trials([frozen(record) for record in view.records])
    return Subject(view, study)


def store(records: Sequence[TrialRecord], directory: Path, name: str = "made-up") -> optuna.Study:
    """The study on disk, in ``directory/studies``, for commands that read one."""
    config = replace(RunConfig(), command=tuple(COMMAND), study=name, engine="sglang")
    return stored(directory / "studies", records, config)[1]
