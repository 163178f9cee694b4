"""What is made of the answers of a real inference server: llama.cpp with SmolLM2-135M.

Tokens are held against the server's own counters. Needs the extra ``real`` and the model (see
``conftest.py``); with ``REAL_SERVER=required`` in the environment their absence is a failure.
"""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from autotune.measure.client import Flight
from autotune.measure.prompt import APIS, Api, request_of
from autotune.measure.records import RequestRecord
from autotune.measure.stream import read_record
from autotune.workload import Message

from .llama_cpp import (
    OUTPUT_TOK,
    LlamaCpp,
    autotune_measure,
    opening,
)

QUICKLY_S = 3.0
"""Far below the 5 s for which the server keeps a connection, and the 60 s for which we wait."""


@pytest.fixture(scope="module")
def drafting() -> Iterator[LlamaCpp]:
    """Few slots and short drafts: for what does not depend on speed."""
    with LlamaCpp("--slots", "4", "--draft", "4") as server:
        yield server


def story(number: int) -> list[Message]:
    return [{"role": "user", "content": f"Write a story that begins: {opening(number)}"}]


def ask(server: LlamaCpp, prompts: list[list[Message]], api: Api = "chat") -> list[RequestRecord]:
    """All at once; each answer ends where the model ends it, or after 48 tokens."""

    endpoint = replace(server.endpoint, api=api)

    async def run() -> list[RequestRecord]:
        flights = [
            Flight(endpoint, prompt, max_output_tok=48, temperature=0.6) for prompt in prompts
        ]
        return await asyncio.gather(*(flight.fly() for flight in flights))

    return asyncio.run(run())


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_tokens_are_those_that_the_server_counts(drafting: LlamaCpp, api: Api) -> None:
    before = drafting.counters()
    records = ask(drafting, [story(number) for number in range(6)], api)
    after = drafting.counters()
    assert [record.error for record in records] == [""] * 6
    grown = {name: after[name] - before[name] for name in after}
    assert sum(r.n_output_tok for r in records) == grown["tokens_predicted_total"]
    assert sum(r.n_prompt_tok for r in records) == (
        grown["prompt_tokens_total"] + grown["prompt_tokens_cached_total"]
    )
    assert sum(r.n_cached_tok or 0 for r in records) == grown["prompt_tokens_cached_total"]


def test_the_end_of_an_answer_is_seen_at_once(drafting: LlamaCpp) -> None:
    (record,) = ask(drafting, [story(20)])
    assert record.done_s - record.arrivals[-1][0] < QUICKLY_S


def test_tokens_of_an_event_are_close_to_what_the_server_says(drafting: LlamaCpp) -> None:
    """It sends usage with the last event only; ``timings_per_token`` makes it tell every count."""
    reads, record = raw_answer(drafting, "chat", story(30), {"timings_per_token": True})
    counts = {at_s: re.findall(rb'"predicted_n":(\d+)', data) for at_s, data in reads}
    told = {at_s: int(found[-1]) for at_s, found in counts.items() if found}
    seen = dict(record.arrivals)
    assert record.n_output_tok == max(told.values())
    assert len(seen.keys() & told.keys()) >= 5
    assert max(abs(seen[at_s] - told[at_s]) for at_s in seen.keys() & told.keys()) <= 6


@pytest.mark.parametrize("api", APIS)
def test_what_the_server_refuses_is_told_in_its_words(drafting: LlamaCpp, api: Api) -> None:
    (record,) = ask(drafting, [[{"role": "user", "content": "word " * 500}]], api)
    if api == "generate":
        assert record.error.startswith("HTTP 404: ")
    else:
        assert record.error.startswith("HTTP 400: ")
        assert "exceeds the available context size (256 tokens)" in record.error
    assert record.done_s - record.sent_s < QUICKLY_S


def test_a_chat_is_measured_from_the_command_line(drafting: LlamaCpp, openings: Path) -> None:
    words = ("--concurrency", "4", "--seconds", "3")
    ((phase,),) = autotune_measure((drafting, openings), words=words)
    assert phase.n_failed == 0 and phase.n_requests > 0
    assert OUTPUT_TOK[0] <= phase.percentiles["output_tok"]["p50"] <= OUTPUT_TOK[1]


def raw_answer(
    server: LlamaCpp, api: Api, messages: list[Message], extra: dict[str, object]
) -> tuple[list[tuple[float, bytes]], RequestRecord]:
    """The bytes of an answer, each piece with its time, and what is made of them."""
    endpoint = server.endpoint
    path, body = request_of(
        api, endpoint.model, messages, max_output_tok=48, temperature=0.0, extra=extra
    )
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}"
    address = urlsplit(server.url)
    reads: list[tuple[float, bytes]] = []
    with socket.create_connection((address.hostname or "", address.port or 0), 30) as connection:
        sent_s = time.perf_counter()
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        while data := connection.recv(65536):
            reads.append((time.perf_counter(), data))
    return reads, read_record(reads, sent_s, time.perf_counter())
