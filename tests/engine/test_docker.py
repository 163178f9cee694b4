"""``docker run`` as a trial needs it: its words, what is refused, and how it is ended."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from autotune.engine.places import docker
from autotune.engine.places.docker import Contained, DockerPlace, is_container
from autotune.engine.process import ServerProcess, StopPatience
from autotune.engine.sglang.command import LaunchCommand
from autotune.errors import LaunchError, UsageError

from . import places
from .places import Harness

SERVER = ("python3", "-m", "sglang.launch_server", "--model-path", "m", "--name", "kept", "-d", "x")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    return places.docker(tmp_path, tools)


def contained(*words: str) -> Contained:
    return Contained.of([*words, "lmsysorg/sglang:v0.5.9", *SERVER], "ours", "trial-1/ab")


OURS = ("--name", "ours", "--label", "autotune.trial=trial-1/ab")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (("docker", "run"), ("docker", "run", *OURS)),
        (("docker", "run", "--rm", "--gpus", "all"),
         ("docker", "run", *OURS, "--rm", "--gpus", "all")),
        (("docker", "run", "--name", "mine", "--rm"), ("docker", "run", *OURS, "--rm")),
        (("docker", "run", "--name=mine", "-p", "1:2"), ("docker", "run", *OURS, "-p", "1:2")),
        (("podman", "run", "-itd", "--restart=always"), ("podman", "run", *OURS)),
        (("docker", "run", "-dq", "--detach"), ("docker", "run", *OURS, "-q")),
        (("docker", "container", "run", "--restart", "always", "--init"),
         ("docker", "container", "run", *OURS, "--init")),
        (("sudo", "-E", "docker", "run", "-e", "-it"),
         ("sudo", "-E", "docker", "run", *OURS, "-e", "-it")),
    ],
)  # fmt: skip
def test_a_container_gets_our_name_and_label_and_keeps_the_rest(
    given: tuple[str, ...], wanted: tuple[str, ...]
) -> None:
    assert contained(*given).argv == (*wanted, "lmsysorg/sglang:v0.5.9", *SERVER)


def test_what_is_left_out_is_said_and_what_removes_it_keeps_the_prefix() -> None:
    found = contained("sudo", "-n", "docker", "run", "-d", "--tty")
    assert found.left_out == ("-d: it would hide the log", "--tty: a trial has no terminal")
    assert found.remove == ("sudo", "-n", "docker", "rm", "-f", "ours")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("docker exec sglang python3 -m sglang.launch_server", "`docker exec` cannot be"),
        ("docker compose run sglang", "`docker compose` cannot be"),
        ("sudo docker start sglang", "`docker start` cannot be"),
        ("docker --context gpu run i python3 -m sglang.launch_server", "cannot be"),
        ("bash -c 'cd /x && docker run i python3 -m sglang.launch_server'", "shell string"),
        ("docker run i python3 -m sglang.launch_server --host 127.0.0.1", "out of reach"),
    ],
)
def test_a_container_that_no_trial_could_own_is_refused(line: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        docker.check_container(LaunchCommand.parse([line]))
    assert raised.value.hint


@pytest.mark.parametrize(
    "line",
    [
        "python -m sglang.launch_server --model-path docker run",
        "bash -c 'python -m sglang.launch_server --model-path docker'",
        "env A=1 sglang serve --model-path /models/docker",
    ],
)
def test_the_word_docker_alone_makes_no_container(line: str) -> None:
    assert not is_container(LaunchCommand.parse([line]))


@pytest.mark.parametrize(
    ("options", "visible"),
    [
        (("--gpus", "all"), None),
        (("--gpus", '"device=0,2"'), "0,2"),
        (("--gpus=device=1",), "1"),
        (("-e", "CUDA_VISIBLE_DEVICES=3"), "3"),
        (("-e", "NVIDIA_VISIBLE_DEVICES=all"), None),
    ],
)
def test_the_gpus_of_a_container_are_those_of_its_options(
    options: tuple[str, ...], visible: str | None
) -> None:
    berth = docker.DockerBerth(["docker", "run", *options, "image", *SERVER], 1, print)
    assert berth.gpu_environment({}).get("CUDA_VISIBLE_DEVICES") == visible


@pytest.mark.parametrize(
    ("options", "address"),
    [
        (("--network", "host"), ("127.0.0.1", 20001)),
        (("-p", "20001:20001"), ("127.0.0.1", 20001)),
        (("-p", "127.0.0.1:20001:20001"), ("127.0.0.1", 20001)),
        (("-p", "0.0.0.0:20001:20001"), ("127.0.0.1", 20001)),
        (("-p", "10.0.0.9:20001:20001"), ("10.0.0.9", 20001)),
        (("-p", "[::]:20001:20001"), ("::1", 20001)),
    ],
)
def test_a_container_is_reached_where_its_port_is_published(
    options: tuple[str, ...], address: tuple[str, int]
) -> None:
    berth = docker.DockerBerth(["docker", "run", *options, "image", *SERVER], 1, print)
    assert berth.address("0.0.0.0", 20001) == address


def test_a_published_port_leads_to_the_server(stand_in: Harness, tmp_path: Path) -> None:
    stand_in.words = ("docker", "run", "--restart", "always", "image")
    said: list[str] = []
    engine = stand_in.engine("ready")
    with engine.launch({}, directory=tmp_path / "1", number=1, announce=said.append) as server:
        assert server.url.startswith("http://127.0.0.1:")
    assert "docker run without --restart: a server that dies must stay dead" in said
    assert server.stopped is not None and server.stopped.clean
    assert server.stopped.signals == ("docker stop -t 1",)
    assert "-p 127.0.0.1:" in (tmp_path / "1" / "launch.sh").read_text()
    assert not stand_in.left()


def test_a_container_is_removed_although_its_client_was_killed(
    stand_in: Harness, tmp_path: Path
) -> None:
    engine = stand_in.engine("ready")
    with engine.launch({}, directory=tmp_path / "1", number=1, announce=print) as server:
        process: ServerProcess = server._process
        os.kill(process.pid, 9)
        assert stand_in.more_left()
        process.wait(5.0)
        assert server.failure() is not None
    assert not stand_in.left()


def test_no_answer_of_docker_is_one_clear_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = DockerPlace(LaunchCommand.parse(["docker", "run", "image", *SERVER]))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LaunchError, match="docker: No such file"):
        place.berth(1, print)
    tool = tmp_path / "docker"
    tool.write_text("#!/bin/sh\necho Cannot connect to the Docker daemon >&2; exit 1\n")
    tool.chmod(0o755)
    with pytest.raises(LaunchError, match="Cannot connect to the Docker daemon"):
        place.berth(1, print)


def test_a_container_that_cannot_be_ended_is_no_clean_stop(
    stand_in: Harness, tmp_path: Path
) -> None:
    engine = stand_in.engine("ready")
    server = engine.launch({}, directory=tmp_path / "1", number=1, announce=print)
    tool = tmp_path / "tools" / "docker"
    works = tool.read_text()
    tool.write_text("#!/bin/sh\necho the daemon is gone; exit 1\n")
    server._patience = StopPatience(leader_s=0.2, group_s=0.2, killed_s=0.3, port_s=0.1)
    server.stop()
    assert server.stopped is not None and not server.stopped.clean
    assert "the daemon is gone" in server.stopped.left_beyond[0]
    tool.write_text(works)
    for name in stand_in.more_left():
        subprocess.run([tool, "rm", "-f", name.removesuffix(".json")], check=True)
