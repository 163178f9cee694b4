from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import pytest

from .conftest import Server, Start

QUESTION = "Which of the two loops allocates, and why does it matter here?"
MESSAGES = [{"role": "user", "content": QUESTION}]


def counts(events: list[dict[str, Any]]) -> list[int]:
    """Tokens so far, as each event tells."""
    return [e["usage"]["completion_tokens"] for e in events if e.get("usage") and e["choices"]]


def test_generate_answers_in_sglangs_shape(shared: Server) -> None:
    body = {"text": QUESTION, "sampling_params": {"max_new_tokens": 24, "ignore_eos": True}}
    told = shared.post("/generate", body).json()
    assert set(told) >= {"text", "output_ids", "meta_info"}
    assert len(told["output_ids"]) == 24 and told["text"]
    meta = told["meta_info"]
    assert meta["finish_reason"] == {"type": "length", "length": 24}
    assert meta["completion_tokens"] == 24 and meta["prompt_tokens"] > 10
    assert meta["e2e_latency"] > 0 and len(meta["id"]) == 32
    assert 6 <= meta["spec_verify_ct"] <= 23
    assert meta["spec_accept_length"] == pytest.approx(24 / meta["spec_verify_ct"])
    assert sum(meta["spec_correct_drafts_histogram"]) == meta["spec_verify_ct"]


def test_generate_takes_token_ids(shared: Server) -> None:
    body = {"input_ids": [5, 6, 7, 8], "sampling_params": {"max_new_tokens": 8}}
    meta = shared.post("/generate", body).json()["meta_info"]
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (4, 8)


def test_generate_streams_cumulative_text(shared: Server) -> None:
    body = {"text": QUESTION, "sampling_params": {"max_new_tokens": 60, "ignore_eos": True}}
    events = shared.events("/generate", body)
    told = [e["meta_info"]["completion_tokens"] for e in events]
    assert told == sorted(told) and told[-1] == 60 and len(told) < 50
    assert all(b["text"].startswith(a["text"]) for a, b in pairwise(events))
    assert [e["meta_info"]["finish_reason"] for e in events[:-1]] == [None] * (len(events) - 1)
    assert events[-1]["meta_info"]["finish_reason"]["type"] == "length"
    whole = shared.post("/generate", body).json()
    assert events[-1]["text"] == whole["text"]


def test_completions_answer_in_openais_shape(shared: Server) -> None:
    told = shared.post("/v1/completions", {"prompt": QUESTION}).json()
    assert told["object"] == "text_completion" and told["model"] == "org/model"
    (choice,) = told["choices"]
    assert choice["text"] and choice["finish_reason"] == "length"
    assert told["usage"]["completion_tokens"] == 16
    assert told["usage"]["total_tokens"] == told["usage"]["prompt_tokens"] + 16
    events = shared.events("/v1/completions", {"prompt": QUESTION})
    assert "".join(e["choices"][0]["text"] for e in events) == choice["text"]


def test_chat_answers_in_openais_shape(shared: Server) -> None:
    told = shared.chat(QUESTION, max_tokens=2000, return_spec_tokens_details=True)
    assert told["object"] == "chat.completion"
    (choice,) = told["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["role"] == "assistant" and choice["message"]["content"]
    details = told["sglext"]["spec_tokens_details"]
    assert details["spec_verify_ct"] < told["usage"]["completion_tokens"]


def test_a_chat_stream_has_sglangs_events_in_sglangs_order(shared: Server) -> None:
    body = {
        "messages": MESSAGES,
        "max_tokens": 50,
        "ignore_eos": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
    }
    events = shared.events("/v1/chat/completions", body)
    assert {e["object"] for e in events} == {"chat.completion.chunk"}
    assert len({e["id"] for e in events}) == 1
    role, *content, end, details, usage = events
    assert role["choices"][0]["delta"]["role"] == "assistant" and "usage" not in role
    assert all(e["usage"]["completion_tokens"] > 0 for e in content)
    assert end["choices"][0]["finish_reason"] == "length"
    assert details["choices"] == [] and details["usage"] is None
    assert details["sglext"]["spec_tokens_details"]["spec_verify_ct"] == len(content) - 1
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 50
    told = counts(events)
    assert told[0] == 1 and told[-1] == 50 and told == sorted(set(told))
    steps = [b - a for a, b in pairwise(told)]
    assert max(steps) > 1 and max(steps) <= 4  # several tokens in one event


def test_usage_comes_only_where_it_was_asked_for(shared: Server) -> None:
    plain = shared.events("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 20})
    assert not any(e.get("usage") for e in plain)
    asked = {"messages": MESSAGES, "max_tokens": 20, "stream_options": {"include_usage": True}}
    events = shared.events("/v1/chat/completions", asked)
    assert [bool(e.get("usage")) for e in events] == [False] * (len(events) - 1) + [True]


def test_streamed_or_not_the_answer_is_the_same(shared: Server) -> None:
    events = shared.events("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 70})
    pieces = [e["choices"][0]["delta"].get("content") or "" for e in events]
    told = shared.chat(QUESTION, max_tokens=70)
    assert "".join(pieces) == told["choices"][0]["message"]["content"]


def test_without_speculation_an_event_is_one_token(start: Start) -> None:
    server = start("--speed", 60)
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"messages": MESSAGES, "max_tokens": 30, "ignore_eos": True, "stream_options": options}
    events = server.events("/v1/chat/completions", body | {"return_spec_tokens_details": True})
    assert counts(events) == list(range(1, 31))
    assert not any("sglext" in e for e in events)
    info = server.get("/server_info").json()
    assert info["speculative_num_steps"] is None and info["max_running_requests"] == 256


def test_the_second_turn_finds_the_first_in_the_cache_and_nothing_after_a_flush(
    start: Start,
) -> None:
    server = start("--speculative-algorithm", "EAGLE", "--enable-cache-report", "--speed", 60)
    first = server.chat(QUESTION, max_tokens=80)
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    said = first["choices"][0]["message"]["content"]
    second = server.chat(QUESTION, said, "And then?", max_tokens=5)["usage"]
    # Everything said so far, the answer included.
    known = first["usage"]["total_tokens"]
    assert second["prompt_tokens_details"]["cached_tokens"] == known
    assert second["prompt_tokens"] > known
    assert server.get("/flush_cache").status_code == 200
    third = server.chat(QUESTION, said, "And then?", max_tokens=5)["usage"]
    assert third["prompt_tokens_details"]["cached_tokens"] == 0


def test_without_a_cache_report_the_cache_is_told_of_where_it_was_asked_for(start: Start) -> None:
    server = start("--speed", 60)
    asked = {"max_tokens": 4, "return_cached_tokens_details": True}
    first, second = (server.chat(QUESTION, **asked) for _ in range(2))
    assert first["usage"]["prompt_tokens_details"] is None and "sglext" not in first
    assert second["usage"]["prompt_tokens_details"] is None
    found = second["sglext"]["cached_tokens_details"]
    assert found["host"] == 0 and 0 < found["device"] < second["usage"]["prompt_tokens"]
    assert "sglext" not in server.chat(QUESTION, max_tokens=4)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generate", {}),
        ("/generate", {"text": ""}),
        ("/generate", {"text": 5}),
        ("/generate", {"input_ids": 5}),
        ("/generate", {"input_ids": []}),
        ("/generate", {"input_ids": ["a"]}),
        ("/generate", {"input_ids": [True]}),
        ("/generate", {"text": "x", "sampling_params": [1]}),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": 0}}),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": "9"}}),
        ("/generate", {"text": "x", "sampling_params": {"max_new_tokens": True}}),
        ("/v1/completions", {"text": "x"}),
        ("/v1/completions", {"prompt": "x", "max_tokens": -1}),
        ("/v1/chat/completions", {}),
        ("/v1/chat/completions", {"messages": []}),
        ("/v1/chat/completions", {"messages": "hi"}),
        ("/v1/chat/completions", {"messages": [5]}),
        ("/v1/chat/completions", {"messages": [{"role": "user"}]}),
        ("/v1/chat/completions", {"messages": MESSAGES, "stream_options": "all"}),
        ("/v1/chat/completions", {"messages": MESSAGES, "max_completion_tokens": 1.5}),
        ("/v1/chat/completions", [1, 2]),
        ("/generate", {"text": "word " * 140_000}),
    ],
)
def test_a_bad_request_is_400_with_sglangs_error(shared: Server, path: str, body: object) -> None:
    answer = shared.post(path, body)
    assert answer.status_code == 400
    told = answer.json()
    assert (told["object"], told["type"], told["code"]) == ("error", "BadRequestError", 400)
    assert told["message"]


def test_a_body_that_is_not_json_is_400(shared: Server) -> None:
    answer = shared.post("/generate", content=b"{not json")
    assert answer.status_code == 400 and "not JSON" in answer.json()["message"]


def test_an_answer_may_not_outgrow_the_context(start: Start) -> None:
    server = start("--speculative-algorithm", "EAGLE", "--speed", 60, "--scenario", "dense-8b-chat")
    body = {"text": "x", "sampling_params": {"max_new_tokens": 10**12, "ignore_eos": True}}
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(
        target=lambda: answers.append(server.post("/generate", body | {"rid": "endless"}).json())
    )
    asking.start()
    assert server.wait_for(lambda: server.gauges()["sglang:num_running_reqs"] == 1)
    server.post("/abort_request", {"rid": "endless"})
    asking.join(10)
    assert answers[0]["meta_info"]["finish_reason"]["type"] == "abort"
