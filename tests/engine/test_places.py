"""One contract for every place a server may run at: this machine, a container, another machine."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from autotune.core.trial import FailureKind
from autotune.engine.attached import AttachedServer
from autotune.engine.base import LaunchFailed
from autotune.engine.local import LocalEngine, LocalServer
from autotune.engine.ports import can_bind, port_of
from autotune.engine.recorder import MOST_BYTES
from autotune.errors import Interrupted
from autotune.study.interrupt import Interrupts

from . import places
from .conftest import wait_until
from .places import NUMBER, Harness

PLACES = ("local", "docker", "ssh", "docker over ssh")


@pytest.fixture(params=PLACES)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Harness]:
    harness = places.local(tmp_path)
    if "docker" in request.param:
        tools = tmp_path / "tools"
        tools.mkdir()
        harness = places.docker(tmp_path, tools)
        monkeypatch.setenv("PATH", str(tools), prepend=":")
    if "ssh" in request.param:
        monkeypatch.setenv("AUTOTUNE_SSH_CONFIG", str(request.getfixturevalue("sshd").config))
        harness.runs_on = places.SUT
        if harness.words:  # the PATH of this process does not reach a session over ssh
            harness.words = (str(tmp_path / "tools" / "docker"), *harness.words[1:])
    yield harness
    assert wait_until(lambda: not harness.left(), 10.0), harness.left()


def launch(engine: LocalEngine, directory: Path, said: list[str] | None = None) -> LocalServer:
    told: list[str] = [] if said is None else said
    return engine.launch({}, directory=directory, number=NUMBER, announce=told.append)


def test_ready_read_back_and_stopped_without_leaving_anything(
    place: Harness, tmp_path: Path
) -> None:
    said: list[str] = []
    with launch(place.engine("ready"), tmp_path / "1", said) as server:
        assert server.failure() is None
        assert server.effective["max_running_requests"] == 14
        assert server.effective["available_gpu_mem_gb"] == 7.2
        assert server.versions == {"sglang": "0.5.99"}
        assert {"n_cpus", "platform"} <= set(server.machine)
        assert place.left()
        assert server.stop() > 0
        assert not place.left()
        assert server.stop() == 0.0
    assert server.stopped is not None and server.stopped.clean
    assert server.failure() is None
    assert can_bind(port_of(server.url))
    assert "weights loaded (62.00 GB)" in said
    assert "fired up" in (tmp_path / "1" / "server.log").read_text()


def test_a_running_server_of_someone_else_is_only_read(place: Harness, tmp_path: Path) -> None:
    with launch(place.engine("ready"), tmp_path / "1") as server:
        with AttachedServer(server.url) as attached:
            assert attached.effective["max_running_requests"] == 14
        assert server.failure() is None


def test_a_death_at_start_is_diagnosed_from_its_log(place: Harness, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed) as raised:
        launch(place.engine("dies-in-capture"), tmp_path / "1")
    assert raised.value.failure.kind is FailureKind.GRAPH_CAPTURE_OOM
    assert "448.00 MiB" in raised.value.failure.evidence
    assert not place.left()


def test_a_death_while_serving_is_diagnosed_from_its_log(place: Harness, tmp_path: Path) -> None:
    with launch(place.engine("dies-while-serving"), tmp_path / "1") as server:
        assert wait_until(lambda: server.failure() is not None)
        failure = server.failure()
        assert failure is not None and failure.kind is FailureKind.RUNTIME_OOM
        server.stop()
        assert server.failure() == failure
    assert not place.left()


def test_a_flood_of_output_is_bounded_and_its_last_words_are_found(
    place: Harness, tmp_path: Path
) -> None:
    with launch(place.engine("floods-and-dies"), tmp_path / "1") as server:
        assert wait_until(lambda: server.failure() is not None, 60.0)
        failure = server.failure()
    assert failure is not None and failure.kind is FailureKind.RUNTIME_OOM
    assert "2.00 GiB" in failure.evidence
    log = (tmp_path / "1" / "server.log").read_text()
    assert len(log) <= MOST_BYTES
    assert "Load weight begin" in log and "were left out here" in log
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z ", line) for line in log.splitlines())
    assert not place.left()


def test_a_deaf_server_is_killed_with_what_it_started(place: Harness, tmp_path: Path) -> None:
    with launch(place.engine("deaf", "--pids", tmp_path / "pids"), tmp_path / "1") as server:
        server.stop()
    assert server.stopped is not None and server.stopped.clean
    assert not place.left()


def test_a_server_that_is_never_ready_is_stopped_at_the_deadline(
    place: Harness, tmp_path: Path
) -> None:
    with pytest.raises(LaunchFailed) as raised:
        launch(place.engine("never-ready", ready_timeout_s=2.0), tmp_path / "1")
    assert raised.value.failure.kind is FailureKind.READY_TIMEOUT
    assert not place.left()


@pytest.mark.parametrize("after_s", [0.1, 0.7])
def test_an_interrupt_in_the_middle_of_a_launch_leaves_nothing(
    place: Harness, tmp_path: Path, after_s: float
) -> None:
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(after_s, signal.pthread_kill, (main, signal.SIGTERM))
    with Interrupts().active():
        try:
            with pytest.raises(Interrupted):
                timer.start()
                launch(place.engine("never-ready"), tmp_path / "1")
        finally:
            timer.join()
    assert wait_until(lambda: not place.left(), 10.0), place.left()


TUNER = """
import json, sys
from pathlib import Path
from autotune.engine.local import LocalEngine
from autotune.engine.places.choose import place_for
from autotune.engine.sglang.command import LaunchCommand
words, on, folder, number = json.loads(sys.argv[1])
command = LaunchCommand.parse(words)
engine = LocalEngine(command, place=place_for(command, on))
say = lambda text: print(text, flush=True)
engine.launch({}, directory=Path(folder), number=number, announce=say)
print("READY", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("behaviour", ["never-ready", "deaf"])
def test_a_tuner_that_is_killed_leaves_nothing(
    place: Harness, tmp_path: Path, behaviour: str
) -> None:
    import json

    words = place.command(behaviour, "--pids", tmp_path / "pids")
    told = json.dumps([words, place.runs_on, str(tmp_path / "1"), NUMBER])
    with subprocess.Popen(
        [sys.executable, "-c", TUNER, told],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as tuner:  # fmt: skip
        assert tuner.stdout is not None
        last = "loading weights" if behaviour == "never-ready" else "READY"
        for line in tuner.stdout:
            if line.strip() == last:
                break
        assert place.left()
        tuner.kill()
    assert wait_until(lambda: not place.left(), 20.0), place.left()


def test_a_port_in_use_is_not_given_to_a_server(
    place: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random

    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = taken.getsockname()[1]
        draw = random.SystemRandom.randint
        drawn: list[int] = []

        def first_the_busy_one(self: random.SystemRandom, low: int, high: int) -> int:
            drawn.append(draw(self, low, high) if drawn else busy)
            return drawn[-1]

        monkeypatch.setattr(random.SystemRandom, "randint", first_the_busy_one)
        with launch(place.engine("ready"), tmp_path / "1") as server:
            assert drawn[0] == busy
            assert f"--port {busy}" not in (tmp_path / "1" / "launch.sh").read_text()
            assert server.failure() is None


def test_a_port_that_is_taken_in_the_meantime_is_named(
    place: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other:
        port = other.server_address[1]
        threading.Thread(target=other.serve_forever, daemon=True).start()
        monkeypatch.setattr("autotune.engine.ports.can_bind", lambda *_: True)
        monkeypatch.setattr("autotune.engine.places.ssh.listening", lambda _: set())
        monkeypatch.setattr("random.SystemRandom.randint", lambda *_: port)
        with pytest.raises(LaunchFailed) as raised:
            launch(place.engine("quiet"), tmp_path / "1")
        other.shutdown()
    assert raised.value.failure.kind is FailureKind.PORT_IN_USE
    assert not place.left()


def test_two_launches_in_a_row_get_different_ports(place: Harness, tmp_path: Path) -> None:
    engine = place.engine("ready")
    ports = set()
    for name in ("1", "2"):
        with launch(engine, tmp_path / name) as server:
            assert server.failure() is None
            ports.add((tmp_path / name / "launch.sh").read_text().rpartition("--port ")[2])
    assert len(ports) == 2


def test_the_key_of_the_server_is_in_no_file(place: Harness, tmp_path: Path) -> None:
    engine = place.engine("ready", "--api-key", "sk-my-secret-key")
    with launch(engine, tmp_path / "1") as server:
        assert server.api_key == "sk-my-secret-key"
        time.sleep(0.1)
    for path in (tmp_path / "1").iterdir():
        assert "my-secret" not in path.read_text()


def test_variables_of_the_engine_reach_the_server(place: Harness, tmp_path: Path) -> None:
    engine = place.engine("ready")
    engine.env["SGLANG_SIMULATE_ACC_LEN"] = "3.5"
    with launch(engine, tmp_path / "1") as server:
        assert server.effective["simulate_acc_len"] == "3.5"
    assert os.environ.get("SGLANG_SIMULATE_ACC_LEN") is None
