"""The information documents of the simulated server, in SGLang 0.5.23's shapes."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from autotune.engine.simulated.arguments import ServerOptions
from autotune.engine.simulated.pump import Pump

VERSION = "0.5.23+simulated"
_OWN = frozenset({"scenario", "simulation_seed", "no_noise", "fail_from_steps"})
"""Arguments that SGLang does not have."""
_OLD = frozenset({"cuda_graph_max_bs", "enable_mamba_extra_buffer", "mamba_scheduler_strategy"})
"""Arguments that 0.5.23 takes and shows under other names."""


def model_info(options: ServerOptions) -> dict[str, Any]:
    return {
        "model_path": options.resolved["model_path"],
        "served_model_name": options.served_model_name,
        "tokenizer_path": options.resolved["tokenizer_path"] or options.resolved["model_path"],
        "is_generation": True,
        "architectures": [options.scenario.architecture],
    }


def models(options: ServerOptions) -> dict[str, Any]:
    name = options.served_model_name
    card = {
        "id": name, "object": "model", "created": int(time.time()), "owned_by": "sglang",
        "root": name, "max_model_len": options.scenario.machine.context_tok,
    }  # fmt: skip
    return {"object": "list", "data": [card]}


def server_info(options: ServerOptions, pump: Pump) -> dict[str, Any]:
    """Resolved arguments, limits and memory; ``simulation`` tells how time runs here."""
    deployment, scenario = options.deployment, options.scenario
    scheduler = pump.scheduler
    pool_tok = deployment.kv_pool_tok
    state: dict[str, Any] = {
        "last_gen_throughput": pump.last_gen_tok_s,
        "effective_max_running_requests_per_dp": deployment.running_limit,
        "memory_usage": {
            "weight": scenario.machine.weights_gb,
            "kvcache": round(deployment.kv_pool_gb, 3),
            "token_capacity": pool_tok,
            "startup_available": round(deployment.free_after_capture_gb, 3),
            "graph": {"prefill": 0.0, "decode": round(_graph_gb(options), 3)},
        },
    }
    if scheduler.n_cycles and deployment.speculation.is_on:
        state["avg_spec_accept_length"] = scheduler.n_accepted / scheduler.n_cycles
    given = options.resolved
    return {k: v for k, v in given.items() if k not in _OWN | _OLD} | {
        "cuda_graph_config": {"decode": _decode_graphs(options)},
        "mamba_radix_cache_strategy": given["mamba_radix_cache_strategy"]
        or given["mamba_scheduler_strategy"],
        "max_total_num_tokens": pool_tok,
        "max_req_input_len": min(pool_tok, scenario.machine.context_tok) - 6,
        "version": VERSION,
        "internal_states": [state],
        "simulation": {
            "scenario": scenario.name,
            "speed": options.speed,
            "gpu": scenario.machine.gpu,
            "n_gpus": scenario.machine.n_gpus,
            "gpu_memory_gb": scenario.machine.gpu_memory_gb,
            "available_gpu_mem_gb": round(deployment.free_after_capture_gb, 3),
            **asdict(options.defects),
        },
    }


def loads(options: ServerOptions, pump: Pump) -> dict[str, Any]:
    """The core part of ``/v1/loads`` (SGLang 0.5.23, entrypoints/v1_loads.py)."""
    scheduler = pump.scheduler
    capacity = max(1, scheduler.cache.capacity_tok)
    rank = {
        "dp_rank": 0,
        "num_running_reqs": len(scheduler.running),
        "num_waiting_reqs": len(scheduler.queue),
        "num_used_tokens": scheduler.cache.busy_tok,
        "max_total_num_tokens": scheduler.cache.capacity_tok,
        "max_running_requests": options.deployment.running_limit,
        "token_usage": scheduler.cache.busy_tok / capacity,
        "gen_throughput": pump.last_gen_tok_s,
    }
    return {"version": VERSION, "loads": [rank]}


def metrics(options: ServerOptions, pump: Pump) -> str:
    """Prometheus text with the gauges a tuner reads."""
    scheduler = pump.scheduler
    capacity = max(1, scheduler.cache.capacity_tok)
    accept = scheduler.n_accepted / scheduler.n_cycles if scheduler.n_cycles else 0.0
    gauges = {
        "num_running_reqs": len(scheduler.running),
        "num_queue_reqs": len(scheduler.queue),
        "num_used_tokens": scheduler.cache.busy_tok,
        "token_usage": scheduler.cache.busy_tok / capacity,
        "max_total_num_tokens": scheduler.cache.capacity_tok,
        "gen_throughput": pump.last_gen_tok_s,
        "spec_accept_length": accept,
        "num_retracted_requests_total": scheduler.n_retractions,
    }
    name = options.served_model_name.replace("\\", r"\\").replace('"', r"\"")
    label = f'{{model_name="{name}"}}'
    lines = []
    for gauge, value in gauges.items():
        kind = "counter" if gauge.endswith("_total") else "gauge"
        lines += [f"# TYPE sglang:{gauge} {kind}", f"sglang:{gauge}{label} {value}"]
    return "\n".join(lines) + "\n"


def _decode_graphs(options: ServerOptions) -> dict[str, Any]:
    """As ``model_executor/cuda_graph_config.py`` of 0.5.23 resolves them."""
    if options.resolved["disable_cuda_graph"]:
        return {"backend": "disabled", "max_bs": None, "bs": []}
    largest = options.deployment.graph_max_batch
    small, large = range(1, min(16, largest) + 1), range(18, largest + 1, 2)
    return {"backend": "full", "max_bs": largest, "bs": sorted({*small, *large, largest})}


def _graph_gb(options: ServerOptions) -> float:
    deployment = options.deployment
    rows = deployment.graph_max_batch * deployment.speculation.draft_tokens
    return options.scenario.machine.graph_mb_per_row * rows / 1e3
