"""The benchmarks' server does what its scripts say, and our client and theirs read the same."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks import truth
from benchmarks.clients import CLIENTS
from benchmarks.limits import Step
from benchmarks.load import Load
from benchmarks.output import Result, markdown
from benchmarks.script import COUNTS, Script
from benchmarks.stream_server import StreamServer

LOAD = Load(concurrency=4, ttft_s=0.01, gap_s=0.002, n_events=12)


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_every_client_hears_every_event(name: str) -> None:
    client = CLIENTS[name]
    if not client.is_here:
        pytest.skip("not installed")
    with StreamServer() as server:
        cost = asyncio.run(client.play(server.url, LOAD, 8))
        told = server.truth()
    assert cost.n_events == sum(len(exchange.sent_s) for exchange in told.exchanges)
    assert 0 < cost.timed_s <= cost.all_s


def test_the_server_keeps_its_deadlines_and_tells_when_it_did_not() -> None:
    with StreamServer() as server:
        asyncio.run(CLIENTS["autotune"].play(server.url, LOAD, 4))
        told = server.truth()
        assert server.truth().exchanges == []
    assert sorted(exchange.number for exchange in told.exchanges) == [0, 1, 2, 3]
    for exchange in told.exchanges:
        script = LOAD.script(exchange.number)
        assert len(exchange.sent_s) == script.n_events
        for place, at_s in enumerate(exchange.sent_s):
            assert at_s >= script.deadline_s(exchange.received_s, place) - 1e-3


def test_lockstep_puts_all_requests_on_one_grid() -> None:
    script = Script(number=0, ttft_s=0.013, gap_s=0.01, n_events=5, lockstep=True)
    steps = {round(script.deadline_s(t, 2) / 0.01, 6) % 1 for t in (0.0, 0.123, 5.4321)}
    assert steps == {0.0}


def test_the_truth_of_a_small_phase() -> None:
    with StreamServer() as server:
        found = truth.compare(server, truth.Level(LOAD, 8), place=0)
    assert found.n_requests == 8
    assert found.events_s > 0 and found.output_tok_s > found.events_s
    assert abs(found.rate_frac) < 0.2
    assert 0 < found.ttft.truth_s < 1


def test_counts_follow_the_pattern_of_tokens() -> None:
    assert COUNTS[:4] == (1, 5, 7, 10)


def test_a_step_that_is_late_disturbs() -> None:
    step = Step(5000, 4900.0, 0.1, 1e-4, 1e-3, 1e-3, 1.2e-3, 5e-3, 1e-3)
    assert step.disturbs and not step.server_fell_behind


def test_markdown_has_a_line_for_each_row() -> None:
    text = markdown(Result("Title", ("a", "b"), [("x", "1"), ("y", "2")]))
    assert text.splitlines()[2:] == ["| a | b |", "| --- | --: |", "| x | 1 |", "| y | 2 |"]
