from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from autotune.engine.ports import free_port, is_listening

from .conftest import Start

EAGLE = ("--speculative-algorithm", "EAGLE")


def triple(steps: int, topk: int, draft_tokens: int) -> tuple[object, ...]:
    return (
        *EAGLE,
        *("--speculative-num-steps", steps),
        *("--speculative-eagle-topk", topk),
        *("--speculative-num-draft-tokens", draft_tokens),
    )


def test_the_port_opens_only_when_the_server_is_ready(start: Start) -> None:
    server = start(*EAGLE, ready=False, startup_speed=75.0)  # about one second
    closed = 0
    while "fired up" not in server.log:
        if is_listening(server.port):
            break
        closed += 1
        time.sleep(0.05)
    assert closed >= 5
    server.wait_ready()
    assert server.wait_for(lambda: "The server is fired up and ready to roll!" in server.log, 2)
    assert server.get("/health").status_code == 200


def test_the_log_tells_the_stages_as_sglang_does(start: Start) -> None:
    log = start(*EAGLE).log
    stages = (
        "server_args=",
        "Load weight begin.",
        "Load weight end.",
        "KV Cache is allocated.",
        "Memory pool end.",
        "Capture cuda graph begin.",
        "Capture cuda graph end.",
        "max_total_num_tokens=",
        "simulated: start-up took 75.0 s",
        "Uvicorn running on",
    )
    places = [log.index(stage) for stage in stages]
    assert places == sorted(places)
    assert "max_running_requests=" in log and "context_len=131072, available_gpu_mem=" in log


def test_one_child_per_node_overrides_the_draft_tokens(start: Start) -> None:
    server = start(*triple(4, 1, 9))
    assert server.get("/server_info").json()["speculative_num_draft_tokens"] == 5
    assert "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1" in server.log


def test_flags_that_change_nothing_here_are_taken(start: Start) -> None:
    server = start(
        *("--tp", 4, "--trust-remote-code", "--context-length", 32768, "--dtype", "bfloat16"),
        *("--mamba-scheduler-strategy", "extra_buffer", "--watchdog-timeout", 300.5),
    )
    assert server.get("/server_info").json()["context_length"] == 32768


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--speculative-nmu-steps", 3), "error: unrecognized arguments: --speculative-nmu-steps"),
        (("--scenario", "moon"), "error: argument --scenario: invalid choice: 'moon'"),
        (("--mem-fraction-static", "much"), "error: argument --mem-fraction-static: invalid float"),
        (("--speculative-num", 3), "error: ambiguous option: --speculative-num could match"),
        (("--speed", 0), "error: argument --speed: must be above 0"),
        (("--startup-speed", 0), "error: argument --startup-speed: must be above 0"),
    ],
)
def test_a_bad_flag_is_argparses_message_and_status_2(
    start: Start, flags: tuple[object, ...], words: str
) -> None:
    server = start(*flags, ready=False)
    assert server.exit_status() == 2
    assert server.log.splitlines()[-1].startswith(f"sglang serve: {words}")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((*EAGLE, "--speculative-eagle-topk", 4), "AssertionError"),
        ((*EAGLE, "--speculative-num-draft-tokens", 4), "AssertionError"),
        ((*EAGLE, "--speculative-num-steps", 3), "TypeError: '>' not supported"),
        (
            (*EAGLE, "--speculative-num-steps", 3, "--speculative-eagle-topk", 2),
            "TypeError: unsupported operand",
        ),
        (("--speculative-algorithm", "PIGEON"), "ValueError: Unknown speculative algorithm"),
    ],
)
def test_a_combination_that_is_not_allowed_is_a_traceback_and_status_1(
    start: Start, flags: tuple[object, ...], words: str
) -> None:
    server = start(*flags, ready=False)
    assert server.exit_status() == 1
    assert "Traceback (most recent call last):" in server.log and words in server.log
    assert "Load weight begin" not in server.log


KILLED = -int(signal.SIGKILL)


@pytest.mark.parametrize(
    ("flags", "status", "words", "passed", "not_reached"),
    [
        (
            ("--speculative-draft-model-path", "/nowhere/draft", *EAGLE),
            1,
            "OSError: Incorrect path_or_model_id: '/nowhere/draft'",
            "Load weight begin",
            "Load weight end",
        ),
        (
            ("--speculative-algorithm", "EAGLE3"),
            KILLED,
            "object has no attribute 'hot_token_id'",
            "Load weight begin",
            "Load weight end",
        ),
        (
            (*EAGLE, "--mem-fraction-static", 0.5),
            KILLED,
            "Not enough memory. Please try to increase --mem-fraction-static",
            "Load weight end",
            "KV Cache is allocated",
        ),
        (
            (*triple(7, 1, 8), "--mem-fraction-static", 0.68),
            KILLED,
            "state cache is too small to hold one request",
            "Load weight end",
            "KV Cache is allocated",
        ),
        (
            (*triple(1, 2, 30), "--scenario", "dense-8b-chat"),
            KILLED,
            "Capture cuda graph failed: selected index k out of range",
            "Capture cuda graph begin",
            "Capture cuda graph end",
        ),
        (
            (*EAGLE, "--mem-fraction-static", 0.985),
            KILLED,
            "torch.OutOfMemoryError: CUDA out of memory.",
            "Capture cuda graph begin",
            "Capture cuda graph end",
        ),
    ],
)
def test_a_start_that_must_fail_does_so_as_sglang_does(
    start: Start,
    flags: tuple[object, ...],
    status: int,
    words: str,
    passed: str,
    not_reached: str,
) -> None:
    server = start(*flags, ready=False)
    assert server.exit_status() == status
    assert words in server.log and passed in server.log
    assert not_reached not in server.log and "fired up" not in server.log
    assert ("Received sigquit from a child process" in server.log) == (status == KILLED)
    assert "simulated: start-up took " in server.log


def test_a_missing_model_ends_with_1(start: Start, tmp_path: Path) -> None:
    server = start("--model-path", tmp_path / "nothing", ready=False)
    assert server.exit_status() == 1
    assert "OSError: Incorrect path_or_model_id" in server.log


def test_an_accident_follows_from_the_seed_and_never_comes_without_noise(start: Start) -> None:
    # The first seed whose first draw is below the crash probability of the default scenario.
    seed = next(n for n in range(10_000) if Random(n * 7919 + 13).random() < 0.01)
    flags = (*EAGLE, "--simulation-seed", seed)
    crashed = start(*flags, quiet=False, ready=False)
    assert crashed.exit_status() == KILLED
    assert "an illegal memory access was encountered" in crashed.log
    start(*flags)


def test_a_port_in_use_is_found_after_the_whole_load_and_ends_with_1(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = start(*EAGLE, port=taken.getsockname()[1], ready=False)
        assert server.exit_status() == 1
    assert "Capture cuda graph end." in server.log
    assert "[Errno 98]" in server.log and "address already in use" in server.log
    assert "fired up" not in server.log and "Traceback" not in server.log


def test_a_host_that_is_not_here_is_not_called_a_port_in_use(start: Start) -> None:
    server = start(*EAGLE, "--host", "192.0.2.1", ready=False)
    assert server.exit_status() == 1
    assert "[Errno 99]" in server.log and "address already in use" not in server.log


def test_a_log_that_nobody_reads_any_more_does_not_end_the_server() -> None:
    port = free_port()
    program = [sys.executable, "-m", "autotune.engine.simulated", "--startup-speed", "75"]
    server = subprocess.Popen(
        [*program, "--model-path", "m", "--port", str(port), "--no-noise"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline()
        server.stdout.close()
        ends = time.monotonic() + 20
        while not is_listening(port):
            assert server.poll() is None and time.monotonic() < ends
            time.sleep(0.05)
        server.terminate()
        assert server.wait(10) == 0
    finally:
        server.kill()
        server.wait(10)
