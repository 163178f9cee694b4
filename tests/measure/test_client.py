from __future__ import annotations

import asyncio
import socket
import time

import pytest

from autotune.errors import UsageError
from autotune.measure import Endpoint
from autotune.measure.client import Flight, Pulse, _address, _head
from autotune.measure.records import RequestRecord
from autotune.workload import Message

from .answers import chat, chunked, sse
from .scripted import Exchange, ScriptedServer, hang_up, refuse, say_nothing, talk


def ask(endpoint: Endpoint) -> RequestRecord:
    messages = [{"role": "user", "content": "Grüße, und?"}]
    return asyncio.run(fly(endpoint, messages))


async def fly(endpoint: Endpoint, messages: list[Message]) -> RequestRecord:
    return await Flight(endpoint, messages, max_output_tok=64, temperature=0.6).fly()


def test_times_are_those_of_the_server_to_a_few_milliseconds() -> None:
    with ScriptedServer(talk(0.05, 0.02, (1, 4, 4, 4, 3))) as server:
        records = [ask(Endpoint(server.url, "m")) for _ in range(5)]
    late = []
    for record, exchange in zip(records, server.exchanges, strict=True):
        assert record.ok and [n for _, n in record.increments()] == [1, 4, 4, 4, 3]
        sent = exchange.wrote_s[2:7]
        seen = [at_s for at_s, _ in record.arrivals]
        assert all(a >= b for a, b in zip(seen, sent, strict=True))
        late.append(max(a - b for a, b in zip(seen, sent, strict=True)))
    assert min(late) < 0.003
    assert min(r.ttft_s for r in records) == pytest.approx(0.05, abs=0.005)
    assert sorted(r.tpot_s or 0.0 for r in records)[2] == pytest.approx(0.08 / 15, abs=0.001)
    assert all(r.n_verify == 5 for r in records)


def test_times_are_server_seconds() -> None:
    with ScriptedServer(talk(0.05, 0.01)) as server:
        record = ask(Endpoint(server.url, "m", time_scale=10.0))
    assert 0.5 <= record.ttft_s < 5.0  # ten times 0.05 s, on a machine that may be busy
    assert record.sent_s == pytest.approx(server.exchanges[0].began_s * 10, abs=0.5)


def test_the_request_asks_for_every_count_a_server_can_give() -> None:
    with ScriptedServer(talk(0.0, 0.0)) as server:
        ask(Endpoint(server.url + "/prefix/", "some/model", api_key="sekret"))
    exchange = server.exchanges[0]
    assert exchange.head.startswith("POST /prefix/v1/chat/completions HTTP/1.1\r\n")
    assert "Authorization: Bearer sekret\r\n" in exchange.head
    assert f"Host: 127.0.0.1:{server.port}\r\n" in exchange.head
    assert exchange.body == {
        "model": "some/model",
        "messages": [{"role": "user", "content": "Grüße, und?"}],
        "max_tokens": 64,
        "temperature": 0.6,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "return_spec_tokens_details": True,
        "return_cached_tokens_details": True,
        "timings_per_token": True,
    }


def test_without_a_key_there_is_no_authorization() -> None:
    with ScriptedServer(talk(0.0, 0.0)) as server:
        ask(Endpoint(server.url, "m"))
    assert "authorization" not in server.exchanges[0].head.lower()


def test_a_refused_request_is_a_record_with_the_reason() -> None:
    with ScriptedServer(refuse("400 Bad Request")) as server:
        record = ask(Endpoint(server.url, "m"))
    assert record.error == "HTTP 400: refused" and not record.ok


def test_a_connection_that_is_refused_is_a_record() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound, but nobody listens
        record = ask(Endpoint(f"http://127.0.0.1:{held.getsockname()[1]}", "m"))
    assert record.error.startswith("cannot connect: ") and not record.ok
    assert record.sent_s == record.done_s


def test_a_connection_that_nobody_takes_is_given_up() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        began = time.monotonic()
        record = ask(Endpoint(f"http://127.0.0.1:{full.getsockname()[1]}", "m", stall_s=0.3))
    assert record.error == "cannot connect: no answer for 0.3 s"
    assert time.monotonic() - began < 5


def test_a_closed_connection_is_a_record() -> None:
    with ScriptedServer(hang_up) as server:
        record = ask(Endpoint(server.url, "m"))
    assert record.error == "the connection ended before the head of the answer"


def test_a_stream_that_breaks_off_keeps_what_came() -> None:
    async def break_off(exchange: Exchange) -> None:
        payloads = sse(chat([("One", 1), (" two", 4)]), done=False)[:3]
        await exchange.write(chunked(payloads, close=False))
        await exchange.at(0.05)
        exchange.writer.transport.abort()

    with ScriptedServer(break_off) as server:
        record = ask(Endpoint(server.url, "m"))
    assert record.error == "the stream broke off"
    assert (record.n_output_tok, record.text) == (5, "One two")


def test_a_silent_server_is_given_up_after_the_stall_time() -> None:
    with ScriptedServer(say_nothing) as server:
        began = time.monotonic()
        record = ask(Endpoint(server.url, "m", stall_s=0.4))
        lasted = time.monotonic() - began
    assert record.error == "no byte for 0.4 s"
    assert 0.35 < lasted < 0.75


def test_a_stall_in_mid_stream_counts_from_the_last_byte() -> None:
    async def stop_talking(exchange: Exchange) -> None:
        await exchange.at(0.3)
        await exchange.write(b"HTTP/1.1 200 OK\r\n")
        await asyncio.sleep(60)

    with ScriptedServer(stop_talking) as server:
        began = time.monotonic()
        record = ask(Endpoint(server.url, "m", stall_s=0.4))
        lasted = time.monotonic() - began
    assert record.error == "no byte for 0.4 s"
    assert 0.65 < lasted < 1.05


def test_a_request_that_is_told_to_stop_keeps_what_came_and_is_no_failure() -> None:
    async def scenario(url: str) -> RequestRecord:
        stop = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.2, stop.set_result, None)
        messages = [{"role": "user", "content": "x"}]
        return await Flight(Endpoint(url, "m"), messages, max_output_tok=9, temperature=0.0).fly(
            stop
        )

    with ScriptedServer(talk(0.01, 60.0, (3, 4))) as server:
        began = time.monotonic()
        record = asyncio.run(scenario(server.url))
        lasted = time.monotonic() - began
    assert 0.15 < lasted < 2
    assert record.cut and not record.ok and not record.failed and record.error == ""
    assert record.arrivals[-1][1] == 3


def test_a_slow_stream_is_no_stall() -> None:
    with ScriptedServer(talk(0.25, 0.25)) as server:
        record = ask(Endpoint(server.url, "m", stall_s=0.6))
    assert record.ok and record.n_output_tok == 13


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:310010",
        "http://127.0.0.1:0",
        "http://127.0.0.1:port",
        "http://[::1",
        "http://",
        "127.0.0.1:30000",
        "ftp://127.0.0.1/",
        "",
    ],
)
def test_an_impossible_address_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="is not an http:// or https:// address") as caught:
        ask(Endpoint(url, "m"))
    assert repr(url) in caught.value.message


def test_an_ipv6_address_keeps_its_brackets_in_the_host_header() -> None:
    host, port, tls, prefix = _address("http://[::1]:30000/v/")
    assert (host, port, tls, prefix) == ("::1", 30000, None, "/v")
    head = _head(Endpoint("http://[::1]:30000", "m"), "POST", host, port, "/x", 2)
    assert b"\r\nHost: [::1]:30000\r\n" in head


def test_a_request_that_waits_while_others_are_served_is_not_given_up() -> None:
    async def script(exchange: Exchange) -> None:
        if exchange.number == 0:  # queues for longer than the stall time
            await talk(1.2, 0.0)(exchange)
        else:
            await talk(0.1, 0.1, (1,) * 12)(exchange)

    async def both(endpoint: Endpoint) -> list[RequestRecord]:
        pulse, messages = Pulse(), [{"role": "user", "content": "x"}]
        flights = [
            Flight(endpoint, messages, max_output_tok=9, temperature=0.0, pulse=pulse)
            for _ in range(2)
        ]
        return await asyncio.gather(*(flight.fly() for flight in flights))

    with ScriptedServer(script) as server:
        records = asyncio.run(both(Endpoint(server.url, "m", stall_s=0.5)))
    assert [record.error for record in records] == ["", ""]
