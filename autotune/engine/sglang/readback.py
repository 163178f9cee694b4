"""Effective settings: what a server really runs with, from its log and from ``/server_info``.

Flags are requests. SGLang changes some by itself and lowers others to what memory allows, so two
trials with equal flags and different effective limits are not the same experiment. Only the keys
named here are copied: resolved arguments may hold API keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import httpx

from autotune.engine.sglang.versions import INFO_PATHS, SPELLINGS, in_force

_PATHS = in_force(INFO_PATHS, None).value
"""The old name comes last; it still answers in 0.5.23, with a warning."""

_COPIED = (
    "mem_fraction_static", "attention_backend", "prefill_attention_backend",
    "decode_attention_backend", "page_size", "kv_cache_dtype", "quantization",
    "speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk",
    "speculative_num_draft_tokens", "speculative_draft_model_path",
    "speculative_draft_model_quantization", "speculative_attention_mode", "speculative_adaptive",
    "chunked_prefill_size", "max_prefill_tokens", "cuda_graph_max_bs", "schedule_policy",
    "schedule_conservativeness", "disable_overlap_schedule", "disable_radix_cache",
    "disable_cuda_graph", "tp_size", "dp_size", "pp_size", "ep_size", "enable_dp_attention",
    "moe_runner_backend", "model_path", "served_model_name", "dtype", "device", "random_seed",
    "mamba_radix_cache_strategy", "max_mamba_cache_size", "attn_dp_size",
    "speculative_draft_attention_backend", "linear_attn_backend", "revision",
    "speculative_draft_model_revision",
)  # fmt: skip

_DISABLED = "disabled"
_CHOSEN_BACKEND = re.compile(r"Attention backend not .*\bUse (\w+) backend by default")
"""server_args.py:350 @0.4.6.post5 to arg_groups/overrides.py:1137 @0.5.23."""

_LIMITS = re.compile(r"max_total_num_tokens=\d+.*\bmax_running_requests=\d+")
_PAIR = re.compile(r"\b([a-z_]+)=(-?\d+(?:\.\d+)?)")
_FROM_LOG = {
    "max_total_num_tokens": "max_total_num_tokens",
    "chunked_prefill_size": "chunked_prefill_size",
    "max_prefill_tokens": "max_prefill_tokens",
    "max_running_requests": "max_running_requests",
    "context_len": "context_len",
    "available_gpu_mem": "available_gpu_mem_gb",
    # SGLang on a CPU says so in place of the GPU's.
    "available_cpu_mem": "available_gpu_mem_gb",
}


def effective_settings(info: Mapping[str, Any] | None, log: str) -> dict[str, Any]:
    """Settings in force, by the names of the record; what nobody tells is left out.

    ``max_running_requests`` is the limit in force over all data-parallel ranks, while
    ``max_total_num_tokens``, ``weights_gb``, ``kv_cache_gb`` and ``graph_gb`` are those of one
    rank, the tokens of the smallest. ``cuda_graph_max_bs`` is the largest batch that a CUDA graph
    was made for, ``cuda_graph_bs`` all of them. GB as SGLang prints them.

    Args:
        info: the JSON of ``/server_info``, None where it could not be had.
        log: text of the server log; it needs the start only.
    """
    settings = limits_in_log(log) | _backend_in_log(log)
    if info is None:
        return settings
    states = _states(info)
    first = states[0]
    for key in _COPIED:
        value = _value(first, info, key)
        if value is not None:
            settings[key] = value
    settings |= _graphs(first, info)
    settings |= _memory(states, info, settings.get("available_gpu_mem_gb"))
    running = _running_limit(states, info, settings.get("max_running_requests"))
    if running is not None:
        settings["max_running_requests"] = running
    return settings


def limits_in_log(log: str) -> dict[str, Any]:
    """The line ``max_total_num_tokens=…, max_running_requests=…, available_gpu_mem=… GB``.

    Source: scheduler.py:415 @0.5.6, :691 @0.5.10, :1269 @0.5.23. The last line counts; an empty
    result where there is none.
    """
    limits: dict[str, Any] = {}
    for line in log.splitlines():
        if _LIMITS.search(line) and "server_args=" not in line:
            for key, text in _PAIR.findall(line):
                if name := _FROM_LOG.get(key):
                    limits[name] = float(text) if "." in text else int(text)
    return limits


def fetch_server_info(
    url: str, *, api_key: str | None = None, timeout_s: float = 10.0
) -> dict[str, Any] | None:
    """The JSON of ``/server_info`` (or of its old name); None where the server gives none.

    Keep it in memory only: resolved arguments may hold API keys.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    # trust_env: a proxy for the internet must not be asked for this machine's own addresses.
    with httpx.Client(timeout=timeout_s, headers=headers, trust_env=False) as client:
        for path in _PATHS:
            try:
                response = client.get(url.rstrip("/") + path)
                found = response.json() if response.status_code == 200 else None
            except (httpx.HTTPError, ValueError):
                continue
            if isinstance(found, dict):
                return found
    return None


def versions_of(info: Mapping[str, Any] | None) -> dict[str, str]:
    """``{"sglang": version}`` where the server tells its version."""
    version = (info or {}).get("version")
    return {"sglang": str(version)} if version else {}


def _states(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One state per data-parallel rank; before 0.4.10 its keys stood flat on top."""
    states = info.get("internal_states")
    if isinstance(states, Mapping):
        return [states]
    if isinstance(states, Iterable) and not isinstance(states, str):
        found = [state for state in states if isinstance(state, Mapping)]
        if found:
            return found
    return [info]


def _value(state: Mapping[str, Any], info: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401
    """What the server says of one argument, under any of its names.

    The scheduler's own state wins over the arguments: it has made its last adjustments.
    """
    names = [spelling.text[2:].replace("-", "_") for spelling in SPELLINGS.get(key, ())]
    found = (source.get(name) for name in (key, *names) for source in (state, info))
    return next((value for value in found if value is not None), None)


def _backend_in_log(log: str) -> dict[str, Any]:
    """The attention backend that SGLang chose by itself; nothing where the command names one."""
    found = _CHOSEN_BACKEND.findall(log)
    return {"attention_backend": found[-1]} if found else {}


def _graphs(state: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """The batch sizes of the decode graphs.

    Up to 0.5.13 they are two arguments; from 0.5.14 on ``cuda_graph_config.decode`` holds what the
    server resolved (model_executor/cuda_graph_config.py:90 @0.5.23).
    """
    config = _value(state, info, "cuda_graph_config")
    decode = config.get("decode") if isinstance(config, Mapping) else None
    decode = decode if isinstance(decode, Mapping) else {}
    sizes = (decode.get("bs"), state.get("decode_cuda_graph_bs"))
    ladder = next(filter(None, (*sizes, _value(state, info, "cuda_graph_bs"))), None)
    largest = decode.get("max_bs") or _value(state, info, "cuda_graph_max_bs")
    found: dict[str, Any] = {}
    if isinstance(ladder, list) and all(isinstance(size, int) for size in ladder):
        found["cuda_graph_bs"] = sorted(ladder)
        largest = min(largest or max(ladder), max(ladder))
    if largest is not None:
        found["cuda_graph_max_bs"] = largest
    backend = decode.get("backend") or _value(state, info, "cuda_graph_backend_decode")
    if backend == _DISABLED:
        return {"disable_cuda_graph": True}
    return {} if _captured_none(state) else found


def _captured_none(state: Mapping[str, Any]) -> bool:
    """Whether 0.5.23 planned graphs and made none, as on a CPU without torch.compile."""
    return state.get("decode_cuda_graph_bs") == [] and not _graph_gb(_usage(state))


def _memory(
    states: list[Mapping[str, Any]], info: Mapping[str, Any], logged_gb: float | None
) -> dict[str, Any]:
    usages = [_usage(state) for state in states]
    usage = usages[0]
    capacities = [each["token_capacity"] for each in usages if each.get("token_capacity")]
    found = {
        "weights_gb": usage.get("weight"),
        "kv_cache_gb": usage.get("kvcache"),
        "graph_gb": _graph_gb(usage),
        "max_total_num_tokens": min(capacities, default=info.get("max_total_num_tokens")),
        "available_gpu_mem_gb": usage.get("startup_available") if logged_gb is None else logged_gb,
    }
    return {key: value for key, value in found.items() if value is not None}


def _graph_gb(usage: Mapping[str, Any]) -> float | None:
    graph = usage.get("graph", usage.get("cuda_graph"))
    if isinstance(graph, Mapping):  # 0.5.23: one figure per kind of graph
        return sum(float(part) for part in graph.values() if part is not None)
    return graph if isinstance(graph, int | float) else None


def _usage(state: Mapping[str, Any]) -> Mapping[str, Any]:
    usage = state.get("memory_usage")
    return usage if isinstance(usage, Mapping) else {}


def _running_limit(
    states: list[Mapping[str, Any]], info: Mapping[str, Any], logged: int | None
) -> int | None:
    """The limit in force; never the one asked for, which stands on top of ``/server_info``."""
    told = [state.get("effective_max_running_requests_per_dp") for state in states]
    per_rank = [int(limit) for limit in told if limit is not None]
    if per_rank:  # from 0.5.10
        return sum(per_rank)
    if logged is None:
        return None
    return logged * int(info.get("dp_size") or 1)
