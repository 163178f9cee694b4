from __future__ import annotations

import threading
from http.server import HTTPServer
from typing import Any

import pytest

from autotune.engine.sglang.readback import (
    effective_settings,
    fetch_server_info,
    limits_in_log,
    versions_of,
)

from .fake_server import INFO, LOADING, Handler

LOG = "\n".join(LOADING)


def test_the_limits_are_read_from_the_log_line_of_every_version() -> None:
    assert limits_in_log(LOG) == {
        "max_total_num_tokens": 123456,
        "chunked_prefill_size": 8192,
        "max_prefill_tokens": 16384,
        "max_running_requests": 14,
        "context_len": 32768,
        "available_gpu_mem_gb": 7.2,
    }
    on_cpu = "max_total_num_tokens=20, max_running_requests=3, available_cpu_mem=18.02 GB"
    assert limits_in_log(on_cpu)["available_gpu_mem_gb"] == 18.02


def test_resolved_arguments_in_the_log_are_not_the_limits() -> None:
    line = "server_args={'x': 'max_total_num_tokens=1, max_running_requests=48'}"
    assert limits_in_log(line) == {}


def test_a_new_server_tells_its_running_limit_and_memory() -> None:
    settings = effective_settings(INFO, "")
    assert settings["max_running_requests"] == 14
    assert settings["max_total_num_tokens"] == 123456
    assert settings["weights_gb"] == 62.0
    assert settings["kv_cache_gb"] == 18.0
    assert settings["graph_gb"] == 0.5
    assert settings["attention_backend"] == "fa3"
    assert settings["mem_fraction_static"] == 0.85
    assert settings["page_size"] == 1


def test_the_limit_asked_for_is_never_taken_for_the_limit_in_force() -> None:
    info = {"max_running_requests": 48, "version": "0.5.6", "internal_states": [{}]}
    assert "max_running_requests" not in effective_settings(info, "")
    assert effective_settings(info, LOG)["max_running_requests"] == 14
    assert effective_settings(info | {"dp_size": 2}, LOG)["max_running_requests"] == 28


def test_the_limits_of_data_parallel_ranks_add_up() -> None:
    rank = {"effective_max_running_requests_per_dp": 7}
    assert effective_settings({"internal_states": [rank, rank]}, "")["max_running_requests"] == 14


def test_the_scheduler_state_wins_over_the_arguments() -> None:
    info = {"page_size": None, "internal_states": [{"page_size": 64}], "tp_size": 4}
    settings = effective_settings(info, "")
    assert settings["page_size"] == 64
    assert settings["tp_size"] == 4


def test_the_flat_shape_of_old_servers_is_read() -> None:
    old = {
        "speculative_num_steps": 3,
        "memory_usage": {"weight": 15.0, "token_capacity": 9000, "cuda_graph": 0.8},
    }
    settings = effective_settings(old, "")
    assert settings["speculative_num_steps"] == 3
    assert settings["weights_gb"] == 15.0
    assert settings["graph_gb"] == 0.8
    assert settings["max_total_num_tokens"] == 9000


@pytest.mark.parametrize("states", [None, [], {}, "x", [None], [{"memory_usage": None}]])
def test_odd_documents_are_no_error(states: object) -> None:
    assert effective_settings({"internal_states": states, "tp_size": 2}, "") == {"tp_size": 2}


def test_without_a_document_the_log_speaks_alone() -> None:
    assert effective_settings(None, LOG) == limits_in_log(LOG)
    assert versions_of(None) == {}
    assert versions_of(INFO) == {"sglang": "0.5.99"}


def test_no_api_key_is_copied() -> None:
    assert "sk-secret-one" not in str(effective_settings(INFO, LOG))


def test_the_old_name_of_the_address_is_tried_after_the_new_one() -> None:
    class Old(Handler):
        def do_GET(self) -> None:
            self.path = {"/get_server_info": "/server_info"}.get(self.path, "/gone")
            super().do_GET()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Old) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            assert fetch_server_info(url) == INFO
        finally:
            server.shutdown()
            thread.join()
    assert fetch_server_info(url, timeout_s=1.0) is None


# ---- the shapes of all releases -------------------------------------------------------------

USAGE = {"weight": 62.0, "kvcache": 18.0, "token_capacity": 9000}
TREE = {
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}
SHAPES: dict[str, dict[str, Any]] = {
    # Flat arguments; the scheduler knows the backend, the front end does not.
    "0.4.6.post5": TREE
    | {
        "attention_backend": None,
        "page_size": 1,
        "mem_fraction_static": 0.85,
        "cuda_graph_max_bs": 8,
        "cuda_graph_bs": None,
        "max_running_requests": 48,
        "max_total_num_tokens": 9000,
        "internal_states": {"attention_backend": "fa3", "last_gen_throughput": 1.0},
    },
    "0.5.10": TREE
    | {
        "attention_backend": "fa3",
        "page_size": 1,
        "mem_fraction_static": 0.85,
        "cuda_graph_max_bs": 8,
        "cuda_graph_bs": [1, 2, 4, 8],
        "max_running_requests": 48,
        "mamba_scheduler_strategy": "extra_buffer",
        "internal_states": [
            {"memory_usage": USAGE | {"graph": 0.5}, "effective_max_running_requests_per_dp": 14}
        ],
    },
    "0.5.23": TREE
    | {
        "attention_backend": "fa3",
        "page_size": 1,
        "mem_fraction_static": 0.85,
        "max_running_requests": 48,
        "cuda_graph_max_bs_decode": None,
        "cuda_graph_config": {
            "decode": {"backend": "full", "max_bs": 8, "bs": [8, 4, 2, 1]},
            "prefill": {"backend": "breakable", "max_bs": 512, "bs": [512]},
        },
        "mamba_radix_cache_strategy": "extra_buffer",
        "launch_command": "sglang serve --api-key sk-secret-two",
        "internal_states": [
            {
                "memory_usage": USAGE
                | {"graph": {"decode": 0.3, "prefill": 0.2}, "startup_available": 7.25},
                "effective_max_running_requests_per_dp": 14,
            }
        ],
    },
}


@pytest.mark.parametrize("release", SHAPES)
def test_every_release_tells_the_same_by_its_own_names(release: str) -> None:
    log = "" if release == "0.5.23" else LOG
    settings = effective_settings(SHAPES[release], log)
    expected = TREE | {
        "attention_backend": "fa3",
        "page_size": 1,
        "mem_fraction_static": 0.85,
        "cuda_graph_max_bs": 8,
        "max_running_requests": 14,
    }
    assert settings.items() >= expected.items()
    assert settings["available_gpu_mem_gb"] == (7.25 if release == "0.5.23" else 7.2)
    if release != "0.4.6.post5":
        assert settings["cuda_graph_bs"] == [1, 2, 4, 8]
        assert settings["graph_gb"] == 0.5
        assert settings["max_total_num_tokens"] == 9000
        assert settings["mamba_radix_cache_strategy"] == "extra_buffer"
    assert "secret" not in str(settings)


def test_a_ladder_that_ends_below_its_limit_counts_by_its_end() -> None:
    info = {"cuda_graph_max_bs": 64, "cuda_graph_bs": [1, 2, 48]}
    assert effective_settings(info, "")["cuda_graph_max_bs"] == 48


def test_graphs_that_were_planned_and_never_captured_have_no_ladder() -> None:
    """SGLang 0.5.23 on a CPU."""
    state = {
        "cuda_graph_config": {"decode": {"backend": "full", "max_bs": 32, "bs": [1, 2, 32]}},
        "disable_cuda_graph": False,
        "memory_usage": {"graph": {"decode": 0.0, "target_verify": 0.0, "draft_decode": 0.0}},
        "decode_cuda_graph_bs": [],
    }
    settings = effective_settings({"internal_states": [state]}, "")
    assert not {"cuda_graph_bs", "cuda_graph_max_bs"} & set(settings)
    state["memory_usage"] = {"graph": {"decode": 0.0, "target_verify": 0.4}}
    assert effective_settings({"internal_states": [state]}, "")["cuda_graph_max_bs"] == 32


def test_graphs_that_are_switched_off_have_no_ladder() -> None:
    off = {"cuda_graph_config": {"decode": {"backend": "disabled", "max_bs": 8}}}
    assert effective_settings(off, "") == {"disable_cuda_graph": True}


def test_the_smallest_of_the_data_parallel_ranks_holds_the_fewest_tokens() -> None:
    ranks = [
        {"memory_usage": {"token_capacity": tokens}, "effective_max_running_requests_per_dp": 7}
        for tokens in (900, 800)
    ]
    settings = effective_settings({"internal_states": ranks, "max_total_num_tokens": 900}, "")
    assert settings["max_total_num_tokens"] == 800
    assert settings["max_running_requests"] == 14


@pytest.mark.parametrize("word", ["explicitly specified", "set", "specified"])
def test_a_backend_of_sglangs_own_choice_is_read_from_the_log(word: str) -> None:
    line = f"[2026-01-05 10:00:00] Attention backend not {word}. Use triton backend by default."
    assert effective_settings(None, line) == {"attention_backend": "triton"}
    assert effective_settings({"attention_backend": "fa3"}, line) == {"attention_backend": "fa3"}


@pytest.mark.parametrize(
    "config", [None, "x", [], {}, {"decode": None}, {"decode": {"bs": "x", "max_bs": None}}]
)
def test_odd_graph_settings_are_no_error(config: object) -> None:
    assert effective_settings({"cuda_graph_config": config}, "") == {}
