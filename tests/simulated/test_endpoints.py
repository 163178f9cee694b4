from __future__ import annotations

import re

import pytest

from .conftest import Server, Start

MODEL = "org/model"


@pytest.mark.parametrize("path", ["/health", "/health_generate"])
def test_health_is_an_empty_200(shared: Server, path: str) -> None:
    answer = shared.get(path)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["/model_info", "/get_model_info"])
def test_model_info_names_the_model(shared: Server, path: str) -> None:
    info = shared.get(path).json()
    assert info["model_path"] == info["served_model_name"] == info["tokenizer_path"] == MODEL
    assert info["is_generation"] is True
    assert info["architectures"] == ["Qwen3_5MoeForConditionalGeneration"]


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
def test_server_info_holds_resolved_arguments_and_limits(shared: Server, path: str) -> None:
    info = shared.get(path).json()
    assert info["speculative_algorithm"] == "EAGLE"
    triple = ("num_steps", "eagle_topk", "num_draft_tokens")
    assert [info[f"speculative_{name}"] for name in triple] == [3, 1, 4]
    assert 0.8 < info["mem_fraction_static"] < 0.95
    assert info["max_running_requests"] == 48
    assert info["max_total_num_tokens"] > 100_000
    assert info["version"].startswith("0.5.23")
    assert info["tp_size"] == 4 and info["page_size"] == 1
    (state,) = info["internal_states"]
    assert 10 < state["effective_max_running_requests_per_dp"] < 48
    memory = state["memory_usage"]
    assert memory["weight"] == 62.0 and memory["token_capacity"] == info["max_total_num_tokens"]
    assert memory["graph"]["decode"] > 0 and memory["startup_available"] > 0
    graphs = info["cuda_graph_config"]["decode"]
    assert graphs["max_bs"] == graphs["bs"][-1] == info["max_running_requests"]
    of_the_simulation = {"scenario", "simulation_seed", "no_noise", "fail_from_steps", "speed"}
    assert not of_the_simulation & set(info)
    assert info["simulation"]["speed"] == 60


def test_accept_length_is_told_once_something_was_generated(shared: Server) -> None:
    shared.chat("Say something.", max_tokens=200, ignore_eos=True)
    (state,) = shared.get("/server_info").json()["internal_states"]
    assert 1.5 < state["avg_spec_accept_length"] < 4.0


def test_models_lists_the_one_that_is_served(shared: Server) -> None:
    listing = shared.get("/v1/models").json()
    assert listing["object"] == "list"
    (card,) = listing["data"]
    assert (card["id"], card["root"], card["object"]) == (MODEL, MODEL, "model")
    assert card["owned_by"] == "sglang" and card["max_model_len"] == 131072


def test_metrics_are_prometheus_text(shared: Server) -> None:
    answer = shared.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    sample = re.compile(r"^sglang:[a-z_]+\{([a-z_]+=\"(?:[^\"\\\n]|\\.)*\",?)*\} [-+0-9.e]+$")
    comment = re.compile(r"^# TYPE (sglang:[a-z_]+) (gauge|counter)$")
    assert answer.text.endswith("\n")
    for line in answer.text.splitlines():
        assert sample.match(line) or comment.match(line), line
    gauges = shared.gauges()
    assert {"sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"} <= set(gauges)
    assert 0.0 <= gauges["sglang:token_usage"] <= 1.0


def test_the_load_of_each_rank_is_told(shared: Server) -> None:
    (rank,) = shared.get("/v1/loads?include=core").json()["loads"]
    assert rank["num_running_reqs"] == rank["num_waiting_reqs"] == 0
    assert rank["max_running_requests"] > 0 and 0.0 <= rank["token_usage"] <= 1.0


def test_a_strange_model_name_leaves_metrics_parsable(start: Start) -> None:
    server = start("--served-model-name", 'a "b" \\c')
    line = next(x for x in server.get("/metrics").text.splitlines() if x.startswith("sglang:"))
    assert 'model_name="a \\"b\\" \\\\c"' in line


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
def test_tokenize_counts_tokens(shared: Server, path: str) -> None:
    told = shared.post(path, {"prompt": "def f(x): return x + 12345"}).json()
    assert told["count"] == len(told["tokens"]) > 6
    assert all(isinstance(token, int) for token in told["tokens"])
    assert told["max_model_len"] == 131072
    assert shared.post(path, {"prompt": 5}).status_code == 400


@pytest.mark.parametrize("method", ["get", "post"])
def test_an_idle_server_flushes_its_cache(shared: Server, method: str) -> None:
    shared.chat("A question that is remembered.")
    answer = getattr(shared, method)("/flush_cache")
    assert answer.status_code == 200 and answer.text.startswith("Cache flushed.")
    assert shared.gauges()["sglang:num_used_tokens"] == 0
    (state,) = shared.get("/server_info").json()["internal_states"]
    assert "avg_spec_accept_length" not in state


def test_an_unknown_path_is_404(shared: Server) -> None:
    answer = shared.get("/v2/chat")
    assert answer.status_code == 404 and answer.json() == {"detail": "Not Found"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("post", "/health"), ("get", "/generate"), ("get", "/v1/chat/completions")],
)
def test_the_wrong_method_is_405(shared: Server, method: str, path: str) -> None:
    assert getattr(shared, method)(path).status_code == 405


def test_the_api_key_is_asked_for_everywhere_but_on_health_and_metrics(start: Start) -> None:
    server = start("--api-key", "sekret")
    assert server.get("/health").status_code == 200
    assert server.get("/metrics").status_code == 200
    for path in ("/server_info", "/v1/models"):
        assert server.get(path).status_code == 401
        wrong = server.get(path, headers={"authorization": "Bearer other"})
        assert wrong.status_code == 401
        right = server.get(path, headers={"authorization": "Bearer sekret"})
        assert right.status_code == 200 and "sekret" not in right.text
    assert server.post("/generate", {"text": "x"}).status_code == 401
    assert "'api_key': 'sekret'" in server.log, "as SGLang's: whoever keeps the log must hide it"
