"""Answers of llama.cpp, which tells its counts in ``timings``."""

from __future__ import annotations

import json
from typing import Any

from autotune.measure.stream import read_record

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def event(text: str, n_tok: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    timings = {"cache_n": 24, "prompt_n": 16, "predicted_n": n_tok, **more}
    return {"choices": [{"delta": {"content": text}, "finish_reason": None}], "timings": timings}


def reads_of(*events: dict[str, Any]) -> list[tuple[float, bytes]]:
    payloads = [f"data: {json.dumps(e)}\n\n".encode() for e in events]
    return [(0.0, HEAD), *((float(place), data) for place, data in enumerate(payloads, 1))]


def test_tokens_of_an_answer_that_is_cut_off_are_known() -> None:
    record = read_record(reads_of(event("One", 1), event(" twenty-two", 2)), 0.0, 9.0)
    assert record.arrivals == ((1.0, 1), (2.0, 2))
    assert (record.n_prompt_tok, record.n_verify) == (40, 0)


def test_each_pass_yields_a_token_beside_those_it_accepted() -> None:
    drafted = {"draft_n": 15, "draft_n_accepted": 8}
    last = {
        "choices": [],
        "usage": {"completion_tokens": 11, "prompt_tokens": 40},
        "timings": {"predicted_n": 11, **drafted},
    }
    events = event("One", 1), event(" two", 2), event(" three", 10, **drafted), last
    record = read_record(reads_of(*events), 0.0, 9.0)
    assert record.arrivals == ((1.0, 1), (2.0, 2), (3.0, 10), (4.0, 11))
    assert record.n_verify == 2, "one pass without a draft, one that accepted 8 of 15"
