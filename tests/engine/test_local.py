from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from autotune.core.trial import FailureKind, Flags
from autotune.engine.base import Engine, LaunchFailed, RunningServer
from autotune.engine.gpu import visible_gpus
from autotune.engine.local import LocalEngine, LocalServer, address, describe_machine
from autotune.engine.places.here import LocalPlace
from autotune.engine.ports import can_bind
from autotune.engine.process import marked
from autotune.engine.sglang.command import LaunchCommand
from autotune.errors import Interrupted, LaunchError

from .conftest import HASTY, NvidiaSmi, fake_argv, wait_until

NUMBER = os.getpid()
"""Trial number of these tests: other test processes on the machine have other ones."""


def engine_of(behaviour: str, *words: str, ready_timeout_s: float = 30.0) -> LocalEngine:
    command = LaunchCommand.parse(fake_argv(behaviour, *words))
    return LocalEngine(command, ready_timeout_s=ready_timeout_s, patience=HASTY)


def launch(
    engine: LocalEngine, directory: Path, flags: Flags | None = None, *, pinned: bool = True
) -> LocalServer:
    said: list[str] = []
    return engine.launch(
        flags or {}, directory=directory, number=NUMBER, announce=said.append, pinned=pinned
    )


def no_server_is_left() -> bool:
    return not marked(lambda value: value.startswith(f"trial-{NUMBER}/"))


def test_a_ready_server_is_read_back_and_stopped(tmp_path: Path) -> None:
    said: list[str] = []
    engine = engine_of("ready", "--mem-fraction-static", "0.85")
    with engine.launch(
        {"mem_fraction_static": 0.9}, directory=tmp_path / "7", number=NUMBER, announce=said.append
    ) as server:
        assert isinstance(engine, Engine)
        assert isinstance(server, RunningServer)
        assert server.failure() is None
        assert server.effective["max_running_requests"] == 14
        assert server.effective["available_gpu_mem_gb"] == 7.2
        assert server.versions == {"sglang": "0.5.99"}
        assert server.time_scale == 1.0
        assert 0 < server.launch_s < 30
        port = int(server.url.rpartition(":")[2])
        assert not can_bind(port)
        assert server.stop() > 0
        assert can_bind(port)
    assert server.stop() == 0.0
    assert server.failure() is None
    assert server.stopped is not None and server.stopped.clean
    assert said[:3] == ["loading weights", "weights loaded (62.00 GB)", "KV pool of 123,456 tokens"]
    assert said[3:6] == ["capturing CUDA graphs", "CUDA graphs captured", "warming up"]
    assert said[-1].startswith("ready after")


def test_the_launch_script_is_the_command_without_its_secrets(tmp_path: Path) -> None:
    engine = engine_of("ready", "--api-key", "sk-my-secret-key")
    engine.env["HF_TOKEN"] = "tok-secret"
    engine.env["CUDA_VISIBLE_DEVICES"] = "0,1"
    with launch(engine, tmp_path, {"speculative_num_steps": 3}) as server:
        assert server.api_key == "sk-my-secret-key"
    script = tmp_path / "launch.sh"
    assert script.stat().st_mode & 0o111
    text = script.read_text()
    assert text.startswith(f"#!/bin/sh\n# The launch of trial {NUMBER}")
    assert "export CUDA_VISIBLE_DEVICES=0,1\n" in text
    assert "  --speculative-num-steps 3 \\\n" in text
    assert subprocess.run(["sh", "-n", script], check=True).returncode == 0
    for path in tmp_path.iterdir():
        assert "my-secret" not in path.read_text()
        assert "tok-secret" not in path.read_text()
    assert "'api_key': '****************'" in (tmp_path / "server.log").read_text()


def test_a_server_with_a_quiet_log_is_ready_when_it_is_healthy(tmp_path: Path) -> None:
    with launch(engine_of("quiet"), tmp_path) as server:
        assert server.failure() is None
        assert server.effective["max_running_requests"] == 14


def test_a_death_during_load_is_a_failed_launch_with_its_reason(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(LaunchFailed) as raised:
        launch(engine_of("dies-in-capture"), tmp_path)
    assert time.monotonic() - began < 5.0
    assert raised.value.failure.kind is FailureKind.GRAPH_CAPTURE_OOM
    assert raised.value.failure.stage == "capture"
    assert "448.00 MiB" in raised.value.failure.evidence
    assert raised.value.launch_s > 0
    assert no_server_is_left()


def test_a_server_that_is_never_ready_is_stopped_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed) as raised:
        launch(engine_of("never-ready", ready_timeout_s=1.0), tmp_path)
    failure = raised.value.failure
    assert failure.kind is FailureKind.READY_TIMEOUT
    assert failure.stage == "load"
    assert "Load weight begin" in failure.evidence
    assert no_server_is_left()


def test_a_death_while_serving_is_noticed_with_its_reason(tmp_path: Path) -> None:
    with launch(engine_of("dies-while-serving"), tmp_path) as server:
        assert wait_until(lambda: server.failure() is not None)
        failure = server.failure()
        assert failure is not None
        assert failure.kind is FailureKind.RUNTIME_OOM
        assert failure.stage == "serving"
        server.stop()
        assert server.failure() == failure


def test_a_missing_command_is_no_failed_trial(tmp_path: Path) -> None:
    engine = LocalEngine(LaunchCommand.parse(["sglangg", "serve"]))
    with pytest.raises(LaunchError, match="'sglangg' does not exist"):
        launch(engine, tmp_path)


def test_an_interrupted_launch_leaves_no_server(tmp_path: Path) -> None:
    def interrupt(signum: int, frame: object) -> None:
        raise Interrupted(signum)

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Interrupted):
            launch(engine_of("never-ready"), tmp_path)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert no_server_is_left()


def test_pins_fill_only_what_neither_the_command_nor_the_trial_gives() -> None:
    command = LaunchCommand.parse(["sglang", "serve", "--page-size", "1"])
    engine = LocalEngine(
        command, pins={"attention_backend": "fa3", "page_size": 64, "random_seed": 1}
    )
    trial = {"random_seed": 5}
    assert engine.command_for(trial).flags() == {
        "attention_backend": "fa3",
        "page_size": 1,
        "random_seed": 5,
    }
    assert engine.command_for(trial, pinned=False).flags() == {"page_size": 1, "random_seed": 5}
    assert engine.command_for({}) == command


def test_a_server_that_imitates_sglang_can_run_on_its_own_clock(tmp_path: Path) -> None:
    class TenTimesFaster(LocalEngine):
        name = "simulated"

        def extra_words(self, number: int) -> Sequence[str]:
            return ("--simulation-seed", str(number))

        def server_seconds(self, wall_s: float, log: str) -> float:
            return 71.3 if "fired up" in log else wall_s

        def time_scale(self, info: object) -> float:
            return 10.0

    engine = TenTimesFaster(LaunchCommand.parse(fake_argv("ready")), patience=HASTY)
    with launch(engine, tmp_path) as server:
        assert server.launch_s == 71.3
        began = time.monotonic()
        stop_s = server.stop()
        assert stop_s <= 10 * (time.monotonic() - began)
        assert server.stopped is not None
        assert stop_s >= 10 * server.stopped.duration_s
    assert f"--simulation-seed {NUMBER}" in (tmp_path / "launch.sh").read_text()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:5"),
        ("0.0.0.0", "http://127.0.0.1:5"),
        ("::", "http://[::1]:5"),
        ("10.0.0.3", "http://10.0.0.3:5"),
    ],
)
def test_a_server_for_all_addresses_is_reached_on_this_machine(host: str | None, url: str) -> None:
    assert address(host, 5) == url


def test_the_machine_is_described_without_its_name(nvidia_smi: NvidiaSmi) -> None:
    nvidia_smi(gpus=[(0, 12), (1, 12)])
    machine = describe_machine(visible_gpus({}), None)
    assert machine == {"gpu": "NVIDIA Test", "n_gpus": 2, "gpu_memory_gb": 96.0}
    one = visible_gpus({"CUDA_VISIBLE_DEVICES": "1"})
    assert describe_machine(one, None)["n_gpus"] == 1
    assert describe_machine(one, {"tp_size": 2, "dp_size": 4})["n_gpus"] == 8
    attention = {"tp_size": 8, "dp_size": 8, "enable_dp_attention": True}
    assert describe_machine(one, attention)["n_gpus"] == 8
    nvidia_smi(fails=True)
    assert describe_machine(visible_gpus({}), None) == {}
    assert set(LocalPlace().berth(0, print).machine()) == {"n_cpus", "platform"}


def test_a_gpu_in_use_is_found_before_the_launch_and_left_alone(
    tmp_path: Path, nvidia_smi: NvidiaSmi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.engine.local._GPU_BUSY_S", 0.0)
    nvidia_smi(gpus=[(0, 41_000)], users=[(0, os.getpid(), 40_960)])
    with pytest.raises(LaunchFailed) as raised:
        launch(engine_of("ready"), tmp_path / "7")
    failure = raised.value.failure
    assert failure.kind is FailureKind.GPU_BUSY
    assert failure.evidence == f"other (process {os.getpid()}) holds 40.0 GB of GPU 0"
    assert "CUDA_VISIBLE_DEVICES" in failure.remedy
    assert not (tmp_path / "7").exists()


def test_a_stop_waits_until_the_gpu_has_its_memory_back(
    tmp_path: Path, nvidia_smi: NvidiaSmi
) -> None:
    nvidia_smi(gpus=[(0, 500)])
    server = launch(engine_of("ready"), tmp_path / "7")
    nvidia_smi(gpus=[(0, 80_000)])
    timer = threading.Timer(1.0, lambda: nvidia_smi(gpus=[(0, 600)]))
    timer.start()
    assert server.stop() > 0.7
    timer.join()
