"""What is particular to servers on another machine; the contract is in ``test_places``."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from autotune.core.trial import FailureKind
from autotune.engine.gpu import foreign_users, visible_gpus
from autotune.engine.places import ssh as ssh_place
from autotune.engine.places.choose import place_for
from autotune.engine.places.link import Link, Target
from autotune.engine.places.ssh import SshPlace, listening
from autotune.engine.process import MARKER, new_marker
from autotune.engine.sglang.command import LaunchCommand
from autotune.errors import ConfigError, LaunchError, UsageError

from . import places
from .conftest import FAKE_SERVER, fake_argv, is_alive, noted_pids, wait_until
from .places import NUMBER, Harness
from .sshd import Sshd

COMMAND = LaunchCommand.parse(["python3", "-m", "sglang.launch_server", "--model-path", "m"])


@pytest.fixture
def remote(tmp_path: Path, sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setenv("AUTOTUNE_SSH_CONFIG", str(sshd.config))
    return places.ssh(tmp_path)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("ssh://gpu", Target("gpu")),
        ("ssh://GPU-box/", Target("GPU-box")),
        ("ssh://me@10.0.0.3:2222", Target("10.0.0.3", "me", 2222)),
        ("ssh://me@[fe80::1]", Target("fe80::1", "me")),
    ],
)
def test_an_address_is_read(text: str, target: Target) -> None:
    assert Target.parse(text) == target


@pytest.mark.parametrize(
    "text",
    ["gpu", "http://gpu", "ssh://", "ssh://gpu:x", "ssh://gpu/dir", "ssh://-oProxyCommand=x",
     "ssh://me:secret@gpu", "ssh://-lx@gpu", "ssh://a b"],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_its_password(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Target.parse(text)
    assert "secret" not in raised.value.message
    assert raised.value.hint


def test_a_container_that_cannot_be_owned_is_refused_there_too() -> None:
    with pytest.raises(UsageError, match="docker exec"):
        place_for(
            LaunchCommand.parse(["docker exec c python3 -m sglang.launch_server"]), "ssh://gpu"
        )


def test_ports_in_use_are_read_from_the_table_of_the_kernel() -> None:
    table = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E21 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:4E22 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 2
   2: 00000000000000000000000001000000:4E23 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 3
"""
    assert listening(table) == {20001, 20003}
    assert listening("") == set()


def test_gpus_of_another_machine_are_asked_for_there() -> None:
    def run(command: object) -> str:
        assert isinstance(command, list) and command[0] == "nvidia-smi"
        if "compute-apps" in command[1]:
            return "GPU-a, 7, other, 40000\n"
        return "0, GPU-a, NVIDIA Far, 98304, 41000\n"

    (gpu,) = visible_gpus({}, run)
    assert gpu.name == "NVIDIA Far"
    assert [user.pid for user in foreign_users([gpu], run)] == [7]


def test_the_machine_is_described_from_there(remote: Harness) -> None:
    berth = SshPlace(places.SUT, COMMAND).berth(NUMBER, print)
    try:
        assert berth.machine()["n_cpus"] == len(os.sched_getaffinity(0))
        assert berth.machine()["platform"].startswith("Linux-")
        assert berth.run(["false"]) == berth.run(["no-such-tool"]) == ""
    finally:
        berth.close()
        berth.close()
    assert not remote.left()


@pytest.mark.parametrize(
    ("host", "reason"),
    [("stranger", "Permission denied"), ("no-such-host.invalid", "no-such-host.invalid")],
)
def test_a_machine_that_cannot_be_reached_is_one_clear_sentence(
    remote: Harness, host: str, reason: str
) -> None:
    began = time.monotonic()
    with pytest.raises(LaunchError, match=reason) as raised:
        SshPlace(f"ssh://{host}", COMMAND).berth(NUMBER, print)
    assert time.monotonic() - began < 15
    assert f"ssh {host} true" in raised.value.hint
    assert not remote.left()


def test_a_machine_behind_another_one_is_reached(remote: Harness, tmp_path: Path) -> None:
    remote.runs_on = "ssh://behind"
    engine = remote.engine("ready")
    with engine.launch({}, directory=tmp_path / "1", number=NUMBER, announce=print) as server:
        assert server.effective["max_running_requests"] == 14
    assert server.stopped is not None and server.stopped.clean
    assert not remote.left()


def test_a_secret_of_the_command_is_in_no_process_list_but_that_of_the_server(
    remote: Harness, tmp_path: Path
) -> None:
    seen: set[str] = set()
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            for process in psutil.process_iter(["cmdline"]):
                words = process.info["cmdline"] or []
                if any("sk-very" in word for word in words):
                    seen.add(" ".join(words[:3]))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        engine = remote.engine("ready", "--api-key", "sk-very-secret")
        with engine.launch({}, directory=tmp_path / "1", number=NUMBER, announce=print):
            time.sleep(0.2)
    finally:
        over.set()
        watcher.join()
    assert seen  # the server itself, which stands for one on another machine
    assert all(str(FAKE_SERVER) in words for words in seen)


def _masters() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.ZombieProcess):  # of an earlier test, and nobody has waited for it
            if "ControlMaster=yes" in (process.cmdline() or ()):
                found.append(process)
    return found


def test_a_broken_connection_ends_the_server_and_is_named(remote: Harness, tmp_path: Path) -> None:
    engine = remote.engine("ready")
    with engine.launch({}, directory=tmp_path / "1", number=NUMBER, announce=print) as server:
        (master,) = _masters()
        master.kill()
        assert wait_until(lambda: server.failure() is not None)
        failure = server.failure()
        assert failure is not None and failure.kind is FailureKind.CRASHED
        assert "the connection to sut broke" in failure.evidence
    assert wait_until(lambda: not remote.left())


def test_a_connection_that_falls_silent_ends_the_server(
    remote: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_place, "SILENCE_S", 3)
    monkeypatch.setattr(ssh_place, "_BEAT_S", 0.5)
    engine = remote.engine("deaf", "--pids", tmp_path / "pids")
    monkeypatch.setattr(ssh_place, "GRACE_S", 1)
    with engine.launch({}, directory=tmp_path / "1", number=NUMBER, announce=print) as server:
        children = noted_pids(tmp_path / "pids")
        time.sleep(5)  # the beat keeps it alive
        assert server.failure() is None and all(map(is_alive, children))
        (master,) = _masters()
        master.send_signal(signal.SIGSTOP)
        try:
            assert wait_until(lambda: not any(map(is_alive, children)))
        finally:
            master.send_signal(signal.SIGCONT)
        assert wait_until(lambda: server.failure() is not None)


SHELLS = [[name] for name in ("dash", "bash") if shutil.which(name)]
SHELLS += [["busybox", "sh"]] if shutil.which("busybox") else []


class Supervised:
    """A server under the supervisor, without ssh in between."""

    def __init__(self, shell: list[str], *argv: str, cut: int = 0) -> None:
        self.marker = new_marker(f"trial-{NUMBER}")
        program = ssh_place._program(argv, {"GIVEN": "it's"}, "after() { echo after >&2; }")
        script = ssh_place._bootstrap(self.marker, len(program)).partition("/bin/sh -c ")[2]
        (script,) = shlex.split(script)
        self.process = subprocess.Popen(
            [*shell, "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, MARKER: self.marker},
            bufsize=0,
        )
        assert self.process.stdin is not None
        self.process.stdin.write(program[: len(program) - cut])

    def say(self, words: bytes | None) -> None:
        assert self.process.stdin is not None
        if words is None:
            self.process.stdin.close()
        else:
            with suppress(BrokenPipeError):  # a server that ended by itself
                self.process.stdin.write(words)

    def end(self) -> tuple[int, str]:
        with self.process as process:
            assert process.stdout is not None
            told = process.stdout.read().decode()
            return process.wait(), told


def _is_left(marker: str) -> bool:
    script = f"{ssh_place._script('sweep.sh')}\nmarked {marker}"
    return subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout != b""


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
class TestSupervisor:
    def test_the_output_and_the_status_are_those_of_the_server(self, shell: list[str]) -> None:
        supervised = Supervised(shell, "sh", "-c", 'echo "$GIVEN $0 $1"; exit 7', "a b", "$x\"'")
        assert supervised.end() == (7, "it's a b $x\"'\n")

    @pytest.mark.parametrize("words", [b"stop\n", None])
    def test_a_request_or_the_end_of_the_input_ends_the_server(
        self, shell: list[str], words: bytes | None
    ) -> None:
        supervised = Supervised(shell, *fake_argv("sleeps"))
        time.sleep(0.5)
        supervised.say(b"\n")
        began = time.monotonic()
        supervised.say(words)
        status, told = supervised.end()
        assert (status, told) == (128 + signal.SIGTERM, "")
        assert time.monotonic() - began < 5
        assert not _is_left(supervised.marker)

    @pytest.mark.parametrize("behaviour", ["deaf", "escapes", "leaves-children"])
    def test_what_does_not_end_is_killed_with_what_it_started(
        self, shell: list[str], behaviour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ssh_place, "GRACE_S", 1)
        supervised = Supervised(shell, *fake_argv(behaviour, "--pids", tmp_path / "pids"))
        children = noted_pids(tmp_path / "pids")
        supervised.say(b"stop\n")
        supervised.end()
        assert not any(map(is_alive, children))
        assert not _is_left(supervised.marker)

    def test_a_program_that_was_cut_off_is_not_run(self, shell: list[str]) -> None:
        supervised = Supervised(shell, "echo", "ran", cut=9)
        supervised.say(None)
        assert supervised.end() == (255, "")

    def test_a_command_that_does_not_exist_says_so(self, shell: list[str]) -> None:
        status, told = Supervised(shell, "no-such-program").end()
        assert status == 127
        assert "no-such-program" in told


def test_a_link_whose_folder_would_be_too_long_for_a_socket_takes_another(
    remote: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 80)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    link = Link(Target("sut"), f"trial-{NUMBER}")
    folder = link.folder
    assert link.ask("echo it works") == (0, "it works\n")
    link.close()
    assert not folder.exists()
