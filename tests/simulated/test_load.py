from __future__ import annotations

import json
import signal
import socket
import threading
import time
from typing import Any

import httpx
import pytest

from .conftest import Server, Start

LONG = {"ignore_eos": True, "max_new_tokens": 100_000}


class Asking:
    """A request that runs in the background, until it is answered or closed."""

    def __init__(self, server: Server, *, rid: str = "", n_tok: int = 100_000) -> None:
        sampling = {"ignore_eos": True, "max_new_tokens": n_tok}
        self.body = {"text": f"{rid} {time.monotonic()}", "sampling_params": sampling}
        self.body |= {"rid": rid} if rid else {}
        self.answer: httpx.Response | None = None
        self._server = server
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self) -> None:
        self.answer = self._server.post("/generate", self.body)

    def reason(self) -> object:
        self._thread.join(20)
        assert self.answer is not None
        return self.answer.json()["meta_info"]["finish_reason"]["type"]


def open_stream(server: Server, n_tok: int = 100_000) -> socket.socket:
    """A streamed request on a socket of its own, read up to its first bytes."""
    body = json.dumps(
        {
            "text": "tell me everything",
            "stream": True,
            "sampling_params": {"ignore_eos": True, "max_new_tokens": n_tok},
        }
    ).encode()
    link = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    head = f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    link.sendall(head.encode() + body)
    assert link.recv(100).startswith(b"HTTP/1.1 200 OK")
    return link


@pytest.fixture
def server(start: Start) -> Server:
    flags = ("--speculative-algorithm", "EAGLE", "--max-running-requests", 2, "--speed", 5)
    return start(*flags)


def running(server: Server) -> tuple[int, int]:
    gauges = server.gauges()
    return int(gauges["sglang:num_running_reqs"]), int(gauges["sglang:num_queue_reqs"])


def test_requests_above_the_running_limit_queue(server: Server) -> None:
    asked = [Asking(server) for _ in range(5)]
    assert server.wait_for(lambda: running(server) == (2, 3))
    assert server.get("/server_info").json()["max_running_requests"] == 2
    server.post("/abort_request", {"abort_all": True})
    assert [one.reason() for one in asked] == ["abort"] * 5
    assert running(server) == (0, 0)


def test_one_request_is_aborted_by_its_id(server: Server) -> None:
    stays, goes = Asking(server, rid="stays"), Asking(server, rid="goes")
    assert server.wait_for(lambda: running(server) == (2, 0))
    assert server.post("/abort_request", {"rid": "unknown"}).status_code == 200
    assert server.post("/abort_request", {"rid": "goes"}).status_code == 200
    assert goes.reason() == "abort"
    assert running(server) == (1, 0)
    server.post("/abort_request", {"rid": "stays"})
    assert stays.reason() == "abort"


def test_an_id_in_use_is_refused(server: Server) -> None:
    first = Asking(server, rid="twin")
    assert server.wait_for(lambda: running(server) == (1, 0))
    answer = server.post("/generate", first.body)
    assert answer.status_code == 400 and "twin" in answer.json()["message"]
    server.post("/abort_request", {"rid": "twin"})
    assert first.reason() == "abort"
    again = Asking(server, rid="twin", n_tok=4)
    assert again.reason() == "length"


def test_the_cache_is_not_flushed_while_requests_run(server: Server) -> None:
    one = Asking(server, rid="one")
    assert server.wait_for(lambda: running(server) == (1, 0))
    answer = server.post("/flush_cache")
    assert answer.status_code == 400 and "pending requests" in answer.text
    server.post("/abort_request", {"abort_all": True})
    one.reason()
    assert server.post("/flush_cache").status_code == 200


def test_a_client_that_goes_away_ends_its_request(server: Server) -> None:
    with open_stream(server):
        assert server.wait_for(lambda: running(server) == (1, 0))
    assert server.wait_for(lambda: running(server) == (0, 0))
    assert server.post("/flush_cache").status_code == 200
    assert "Traceback" not in server.log and "socket.send()" not in server.log


def test_a_client_that_goes_away_while_queued_leaves_the_queue(server: Server) -> None:
    with open_stream(server), open_stream(server):
        with open_stream(server):
            assert server.wait_for(lambda: running(server) == (2, 1))
        assert server.wait_for(lambda: running(server) == (2, 0))


@pytest.mark.parametrize("speed", [1, 40])
def test_sigterm_lets_running_requests_finish_and_ends_with_0(start: Start, speed: int) -> None:
    server = start("--speculative-algorithm", "EAGLE", "--speed", speed)
    with open_stream(server, 60 * min(speed, 10)) as link:
        server.process.send_signal(signal.SIGTERM)
        received = b""
        while data := link.recv(65536):
            received += data
            if received.endswith(b"0\r\n\r\n"):
                break
    assert received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert server.exit_status() == 0
    assert "SIGTERM received" in server.log and "Traceback" not in server.log


def test_sigterm_ends_an_idle_server_with_0(start: Start) -> None:
    server = start()
    server.process.send_signal(signal.SIGTERM)
    assert server.exit_status() == 0


def test_many_requests_on_one_connection(shared: Server) -> None:
    with httpx.Client(base_url=shared.url, trust_env=False, timeout=20) as client:
        for n in range(60):
            body: dict[str, Any] = {"text": f"q {n}", "sampling_params": {"max_new_tokens": 3}}
            body["stream"] = n % 3 == 0
            assert client.post("/generate", json=body).status_code == 200
            assert client.get("/health").status_code == 200


def test_two_requests_in_one_packet_are_answered_in_order(shared: Server) -> None:
    body = json.dumps({"text": "x", "sampling_params": {"max_new_tokens": 5}}).encode()
    first = b"POST /generate HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    second = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    (a, generated), (b, models) = shared.raw(first + second, n_answers=2)
    assert (a, b) == (200, 200)
    assert json.loads(generated)["meta_info"]["completion_tokens"] == 5
    assert json.loads(models)["object"] == "list"


def test_a_request_may_come_byte_by_byte(shared: Server) -> None:
    request = b"POST /tokenize HTTP/1.1\r\nContent-Length: 15\r\n\r\n" + b'{"prompt":"ab"}'
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(len(request)):
            link.sendall(request[place : place + 1])
        assert link.recv(1000).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "data",
    [
        b"NONSENSE\r\n\r\n",
        b"POST /generate HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST /generate HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /generate HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"GET /" + b"x" * 70_000,
    ],
)
def test_what_is_no_request_is_400_and_the_connection_closes(shared: Server, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as link:
        link.sendall(data)
        received = b""
        while part := link.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert shared.get("/health").status_code == 200


def test_connection_close_is_kept(shared: Server) -> None:
    with socket.create_connection(("127.0.0.1", shared.port), timeout=10) as link:
        link.sendall(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
        received = b""
        while part := link.recv(65536):
            received += part
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")


def test_decode_batches_are_logged_as_sglang_does(start: Start) -> None:
    server = start(
        *("--speculative-algorithm", "EAGLE", "--speed", 100, "--decode-log-interval", 10)
    )
    body = {"text": "x", "sampling_params": {"max_new_tokens": 120, "ignore_eos": True}}
    server.post("/generate", body)
    lines = [line for line in server.log.splitlines() if "Decode batch" in line]
    assert len(lines) >= 3
    for words in ("#running-req: 1", "token usage: 0.0", "accept len: ", "cuda graph: True"):
        assert words in lines[0]
    assert "gen throughput (token/s): " in lines[0] and "#queue-req: 0" in lines[0]
