"""Studies of made-up records in real storages, as ``optimize`` leaves them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import optuna
from optuna.samplers import RandomSampler

from autotune.core.trial import Failure, FailureKind, Interval, Phase, TrialRecord
from autotune.space import load_space
from autotune.study.config import RunConfig, to_yaml
from autotune.study.store import StudyStore

from ..core.samples import exactly, measured, phase

COMMAND = (
    "python", "-m", "sglang.launch_server", "--model-path", "M",
    "--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
    "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4",
    "--mem-fraction-static", "0.85",
)  # fmt: skip
SLO = "ttft_p95_s<=0.5"


def made(
    root: Path, n: int = 12, *, storage: str | None = None, name: str = "s", infeasible: bool = True
) -> StudyStore:
    """A study of n trials: every sixth fails, the quickest lie outside the constraint."""
    store = StudyStore(name, storage=storage, root=root / "studies")
    study = store.create(RandomSampler(seed=0))
    config = RunConfig(study=name, engine="sglang", storage=storage, slo=(SLO,), command=COMMAND)
    store.directory.mkdir(parents=True, exist_ok=True)
    (store.directory / "study.yaml").write_text(to_yaml(config), encoding="utf-8")
    space = load_space("speculative")
    for number in range(n):
        add(store, study, space, number, infeasible=infeasible)
    return store


def add(
    store: StudyStore, study: optuna.Study, space: object = None, number: int = 0, *,
    infeasible: bool = True,
) -> None:  # fmt: skip
    """One more trial with its folder, as an evaluator leaves it."""
    searched = space or load_space("speculative")
    trial = study.ask()
    flags = searched.suggest(trial)  # type: ignore[attr-defined]
    record = record_for(trial.number, flags, infeasible=infeasible)
    directory = store.trial_directory(trial.number)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "server.log").write_text(f"fired up, trial {trial.number}\n")
    (directory / "launch.sh").write_text("#!/bin/sh\nexec true\n")
    trial.set_user_attr("flags", flags)
    store.tell(study, trial, record)


def record_for(number: int, flags: dict[str, object], *, infeasible: bool = True) -> TrialRecord:
    if number % 6 == 5:
        return msgspec.structs.replace(
            measured(number, 1, 1.0, 1.0), flags=flags, status="failed", objectives=None, phases=[],
            failure=Failure(FailureKind.GRAPH_CAPTURE_OOM, "capture",
                            "CUDA out of memory | tried <b>2 GiB</b> `x`", "lower the fraction"),
        )  # fmt: skip
    # A curved front with a scatter behind it; the best at each goal alternate.
    place = (number * 7 % 11) / 10
    behind = 1 + (number * 5 % 13) / 40
    latency = 0.7123456789 * (1 + place) * behind
    throughput = 1500.123456789 * (0.5 + place**0.5) / behind
    outside = infeasible and number % 4 == 2
    if outside:  # it would be on the front
        latency, throughput = latency * 0.5, throughput * 1.5
    base = measured(number, 3, latency, throughput, feasible=not outside, baseline=number == 0)
    phases: list[Phase] = [
        phase(turn_s=latency, accept_length=2.5 + place),
        phase("serving", 16, tok_s=throughput, accept_length=2.4 + place),
    ]
    return msgspec.structs.replace(
        base,
        flags=flags,
        phases=phases,
        objectives={
            "latency_s": Interval(latency, latency * 0.98, latency * 1.02),
            "throughput_tok_s": exactly(throughput, 0.02),
        },
        constraints={SLO: 0.25 if outside else -0.5},
        effective={"max_running_requests": 8 + number % 9, "max_total_num_tokens": 400_000},
        timings={"launch_s": 60.0, "measure_s": 45.0, "stop_s": 2.0},
        versions={"sglang": "0.5.23"},
        machine={"n_gpus": 4, "gpu": "NVIDIA H100"},
    )
