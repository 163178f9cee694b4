"""Which settings of a run cannot work, alone or together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autotune.core.objective import OF_LIMITS, PRESETS, objective_named, parse_slo
from autotune.errors import ConfigError

if TYPE_CHECKING:
    from autotune.study.config import RunConfig

SIMULATED_HERE = "the simulated server runs on this machine only: leave --on out"
ENGINES = ("sglang", "simulated")


def check_config(config: RunConfig) -> None:
    """Refuses what cannot work.

    Raises:
        ConfigError: a value, or two values together, are impossible.
    """
    if config.engine not in ENGINES:
        raise ConfigError(f"engine {config.engine!r} is not one of: {', '.join(ENGINES)}")
    if config.engine == "sglang" and not config.command:
        raise ConfigError(
            "the sglang engine needs a launch command",
            hint="put it last: autotune optimize ... -- python -m sglang.launch_server ...",
        )
    if config.scenario is not None and config.engine != "simulated":
        raise ConfigError("a scenario belongs to the simulated engine: add --engine simulated")
    if config.runs_on is not None and config.engine == "simulated":
        raise ConfigError(SIMULATED_HERE)
    if config.trials < 1:
        raise ConfigError(f"trials is {config.trials}, and a study needs at least one")
    if config.seed < 0:
        raise ConfigError(f"seed is {config.seed}, and it cannot be negative")
    if config.gpu_hours is not None and not 0 < config.gpu_hours < math.inf:
        raise ConfigError(f"gpu_hours is {config.gpu_hours:g}, and it must be a number above 0")
    _check_stop(config)
    _check_confirm(config)
    if config.latency_concurrency < 1:
        raise ConfigError(
            f"latency concurrency is {config.latency_concurrency}, and a study needs at least 1"
        )
    if min(config.serving_concurrency) <= config.latency_concurrency:
        raise ConfigError(
            f"serving concurrency {min(config.serving_concurrency)} must be above the latency "
            f"concurrency {config.latency_concurrency}"
        )
    if config.objective in PRESETS or not config.objective.endswith((".yaml", ".yml")):
        objective_named(config.objective)
    loads = (config.latency_concurrency, *config.serving_concurrency)
    for slo in map(parse_slo, config.slo):
        if slo.metric in OF_LIMITS:
            raise ConfigError(
                f"SLO {slo.text!r}: a search measures no {slo.metric}",
                hint="limit what a request may take itself: 'ttft_p95_s<=0.5', 'tpot_p95_s<=0.02'",
            )
        if slo.concurrency is not None and slo.concurrency not in loads:
            measured = " and ".join(f"C={load}" for load in loads)
            raise ConfigError(
                f"SLO {slo.text!r}: C={slo.concurrency} is not measured, only {measured}"
            )


def _check_stop(config: RunConfig) -> None:
    if config.target_gain is not None and not 0 < config.target_gain < math.inf:
        raise ConfigError(f"target_gain is {config.target_gain:g} %, and it must be above 0")
    if config.patience is not None and config.patience < 1:
        raise ConfigError(f"patience is {config.patience}, and it must be at least 1")
    if config.exhaust and (config.target_gain is not None or config.patience is not None):
        raise ConfigError("exhaust uses all launches: leave target_gain and patience out")


def _check_confirm(config: RunConfig) -> None:
    if config.confirm < 0:
        raise ConfigError(f"confirm is {config.confirm}, and it cannot be negative; 0 is none")
    if config.finalists < 1:
        raise ConfigError(f"finalists is {config.finalists}, and it must be at least 1")
