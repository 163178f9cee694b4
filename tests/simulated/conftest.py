"""Simulated servers as real processes on real ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from autotune.engine.ports import can_bind, free_port, is_listening

READY_S = 20.0
Start = Callable[..., "Server"]


class Server:
    """One server process; ``flags`` come after quick start-up and no noise."""

    def __init__(
        self,
        log: Path,
        *flags: object,
        port: int | None = None,
        quiet: bool = True,
        metrics: bool = True,
        startup_speed: float = 2000.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.port = port if port is not None else free_port()
        self.log_path = log
        words = ("--model-path", "org/model", "--port", self.port, *flags)
        own = ("--startup-speed", startup_speed, *(("--no-noise",) if quiet else ()))
        own += ("--enable-metrics",) if metrics else ()
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "autotune.engine.simulated", *map(str, (*own, *words))],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | dict(env or {}),
            )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def wait_ready(self) -> Server:
        ends = time.monotonic() + READY_S
        while not is_listening(self.port):
            assert self.process.poll() is None, self.log
            assert time.monotonic() < ends, self.log
            time.sleep(0.02)
        return self

    def exit_status(self) -> int:
        return self.process.wait(READY_S)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    # ---- requests -----------------------------------------------------------------------------

    def get(self, path: str, **more: Any) -> httpx.Response:  # noqa: ANN401 (httpx's own options)
        return httpx.get(self.url + path, trust_env=False, timeout=20, **more)

    def post(self, path: str, body: object = None, **more: Any) -> httpx.Response:  # noqa: ANN401
        return httpx.post(self.url + path, json=body, trust_env=False, timeout=20, **more)

    def events(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """A streamed answer; it must be well-formed and end with ``[DONE]``."""
        answer = self.post(path, body | {"stream": True})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/event-stream")
        parts = answer.text.split("\n\n")
        assert parts[-1] == "" and parts[-2] == "data: [DONE]"
        assert all(part.startswith("data: ") for part in parts[:-1])
        return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]

    def chat(self, *contents: str, max_tokens: int = 40, **more: object) -> dict[str, Any]:
        roles = ("user", "assistant")
        messages = [
            {"role": roles[place % 2], "content": content} for place, content in enumerate(contents)
        ]
        body = {"messages": messages, "max_tokens": max_tokens, **more}
        answer = self.post("/v1/chat/completions", body)
        assert answer.status_code == 200, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def gauges(self) -> dict[str, float]:
        lines = [line for line in self.get("/metrics").text.splitlines() if line[:1] != "#"]
        return {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    def wait_for(self, done: Callable[[], bool], limit_s: float = 10.0) -> bool:
        ends = time.monotonic() + limit_s
        while not done():
            if time.monotonic() > ends:
                return False
            time.sleep(0.02)
        return True

    def raw(self, data: bytes, *, n_answers: int = 1) -> list[tuple[int, bytes]]:
        """Statuses and bodies of the answers to raw bytes on one connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as link:
            link.sendall(data)
            with link.makefile("rb") as stream:
                return [_read_answer(stream) for _ in range(n_answers)]


def _read_answer(stream: Any) -> tuple[int, bytes]:  # noqa: ANN401 (a socket's file)
    status = int(stream.readline().split()[1])
    length = 0
    while (line := stream.readline()) not in (b"\r\n", b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return status, stream.read(length)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers; none outlives its test."""
    started: list[Server] = []

    def starter(*flags: object, ready: bool = True, **more: Any) -> Server:  # noqa: ANN401
        server = Server(tmp_path / f"server-{len(started)}.log", *flags, **more)
        started.append(server)
        return server.wait_ready() if ready else server

    yield starter
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One ready server with speculation, for tests that leave nothing behind."""
    log = tmp_path_factory.mktemp("shared") / "server.log"
    server = Server(log, "--speculative-algorithm", "EAGLE", "--speed", 60)
    yield server.wait_ready()
    server.stop()
    assert can_bind(server.port)
