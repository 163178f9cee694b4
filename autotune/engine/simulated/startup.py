"""How the simulated server starts: the stages, their log lines, and the ways they fail.

Log wording follows SGLang 0.5.23. A failure ends as SGLang's do: the scheduler's traceback, then
SIGKILL by its own hand (status -9), or status 1 where the parent itself gives up.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random

from autotune.engine.simulated.arguments import ServerOptions
from autotune.engine.simulated.faults import Fault
from autotune.engine.simulated.physics import Deployment

SHORTEST_CONTEXT_TOK = 8192
"""The KV pool must hold at least one request of this length, or the server refuses to start."""


def log(text: str) -> None:
    """One log line as SGLang writes it; a log nobody can read any more is no reason to die."""
    try:
        print(f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {text}", flush=True)
    except OSError:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (stays open for the process)


@dataclass(frozen=True, slots=True)
class StartupFailure:
    """A start that must fail.

    Attributes:
        stage: ``load``, ``pool`` or ``capture``: the stage it dies in.
        traceback: the log lines that show it.
        killed: True where SGLang ends itself with SIGKILL, False for exit status 1.
        is_ordered: by ``--fail``; else the configuration itself brings it.
    """

    stage: str
    traceback: str
    killed: bool = True
    is_ordered: bool = False


def find_failure(options: ServerOptions) -> StartupFailure | None:
    """The first thing that keeps this configuration from starting, if any."""
    return (
        _ordered(options.fault)
        or _missing_model(options)
        or _draft_mismatch(options)
        or _memory_failure(options.deployment)
        or _illegal_tree(options.deployment)
        or _capture_failure(options.deployment)
        or _accident(options)
    )


def start(options: ServerOptions, notes: list[str]) -> None:
    """Plays the start in compressed time; returns when the server is ready, or ends the process."""
    clock = _StartupClock(options.startup_speed)
    deployment, machine = options.deployment, options.scenario.machine
    failure = find_failure(options)
    log(f"simulated SGLang: scenario {options.scenario.name}, {options.scenario.title}")
    for note in notes:
        log(note)
    weights_s, pool_s, capture_s, warm_s = options.scenario.launch_s
    log(f"Load weight begin. avail mem={machine.gpu_memory_gb - 1:.2f} GB")
    clock.spend(weights_s * (0.3 if failure and failure.stage == "load" else 1.0))
    _die_if(failure, "load", clock)
    available_gb = machine.gpu_memory_gb - machine.weights_gb
    log(
        f"Load weight end. elapsed={weights_s:.2f} s, type={options.scenario.architecture}, "
        f"avail mem={available_gb:.2f} GB, mem usage={machine.weights_gb:.2f} GB."
    )
    clock.spend(pool_s)
    _die_if(failure, "pool", clock)
    log(f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {deployment.kv_pool_tok}")
    pool_left_gb = (1 - deployment.mem_fraction) * machine.gpu_memory_gb
    log(f"Memory pool end. avail mem={pool_left_gb:.2f} GB")
    log(
        "Capture cuda graph begin. This can take up to several minutes. "
        f"avail mem={pool_left_gb:.2f} GB"
    )
    clock.spend(capture_s * (0.6 if failure and failure.stage == "capture" else 1.0))
    _die_if(failure, "capture", clock)
    free_gb = deployment.free_after_capture_gb
    log(f"Capture cuda graph end. Time elapsed: {capture_s:.2f} s. avail mem={free_gb:.2f} GB.")
    log(
        f"max_total_num_tokens={deployment.kv_pool_tok}, chunked_prefill_size=8192, "
        f"max_prefill_tokens=16384, max_running_requests={deployment.running_limit}, "
        f"context_len={machine.context_tok}, available_gpu_mem={free_gb:.2f} GB"
    )
    if deployment.running_limit < deployment.max_running_requests:
        log(
            f"max_running_requests is capped to {deployment.running_limit} by the mamba state cache"
        )
    clock.spend(warm_s)
    clock.report()
    if options.fault is not None and options.fault.stage == "start":
        play(options.fault)


class _StartupClock:
    """Waits in compressed time and remembers what it would have been on hardware."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._spent_s = 0.0

    def spend(self, duration_s: float) -> None:
        self._spent_s += duration_s
        time.sleep(duration_s / self._speed)

    def report(self) -> None:
        log(f"simulated: start-up took {self._spent_s:.1f} s")


def stamp() -> None:
    """Says when a fault that was ordered happens, for whoever wants to know how soon it is found.

    Unix seconds; without its name, from which a diagnosis could learn the answer.
    """
    log(f"simulated: a fault at {time.time():.3f}")


def _die_if(failure: StartupFailure | None, stage: str, clock: _StartupClock) -> None:
    if failure is not None and failure.stage == stage:
        if failure.is_ordered:
            stamp()
        for line in failure.traceback.splitlines():
            log(line)
        clock.report()
        die(failure.killed)


def play(fault: Fault) -> None:
    """Says and does what the fault is; returns where the process goes on without being told."""
    stamp()
    for line in fault.lines.splitlines():
        log(line)
    match fault.ending:
        case "status 1":
            sys.exit(1)
        case "status 2":
            sys.exit(2)
        case "killed":
            die(killed=True)
        case "crash":
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGSEGV)
        case "stays" if fault.stage == "start":
            while True:
                time.sleep(3600)


def die(killed: bool) -> None:
    """Ends this process as SGLang ends after a fatal error."""
    if killed:
        log("Received sigquit from a child process. It usually means the child failed.")
        log(f"kill_process_tree called: parent_pid={os.getpid()}, include_parent=True")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(1)


def _ordered(fault: Fault | None) -> StartupFailure | None:
    """A fault of the stages that a failure of the configuration itself may have too."""
    if fault is None or fault.stage not in ("load", "pool", "capture"):
        return None
    killed = fault.ending == "killed"
    return StartupFailure(fault.stage, fault.lines, killed=killed, is_ordered=True)


def _missing_model(options: ServerOptions) -> StartupFailure | None:
    for key in ("model_path", "speculative_draft_model_path"):
        path = options.resolved.get(key)
        if path and path.startswith(("/", "./", "../")) and not Path(path).exists():
            return StartupFailure(
                "load",
                f"OSError: Incorrect path_or_model_id: '{path}'. Please provide either the path to "
                "a local folder or the repo_id of a model on the Hub.",
                killed=False,
            )
    return None


def _draft_mismatch(options: ServerOptions) -> StartupFailure | None:
    needs_draft = options.resolved["speculative_algorithm"] in ("EAGLE3", "STANDALONE")
    if not needs_draft or options.resolved["speculative_draft_model_path"]:
        return None
    return StartupFailure(
        "load",
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        "AttributeError: 'LlamaForCausalLM' object has no attribute 'hot_token_id'",
    )


def _memory_failure(deployment: Deployment) -> StartupFailure | None:
    enough = deployment.kv_pool_tok >= SHORTEST_CONTEXT_TOK
    if deployment.kv_pool_gb > 0 and enough and deployment.running_limit >= 1:
        return None
    if deployment.kv_pool_gb > 0 and enough:
        cause = (
            "RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to hold one "
            "request. Raise --mem-fraction-static or lower --speculative-num-draft-tokens."
        )
    else:
        machine = deployment.machine
        need_gb = machine.weights_gb + SHORTEST_CONTEXT_TOK * machine.kv_kb_per_token / 1e6
        cause = (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
            f"Raise --mem-fraction-static above {need_gb / machine.gpu_memory_gb:.3f}."
        )
    return StartupFailure(
        "pool", f"Scheduler hit an exception: Traceback (most recent call last):\n{cause}"
    )


def _illegal_tree(deployment: Deployment) -> StartupFailure | None:
    spec = deployment.speculation
    if not spec.is_on or (spec.topk >= 1 and 2 <= spec.draft_tokens <= spec.largest_tree):
        return None
    return StartupFailure(
        "capture",
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        "Exception: Capture cuda graph failed: selected index k out of range\n"
        "RuntimeError: selected index k out of range",
    )


def _capture_failure(deployment: Deployment) -> StartupFailure | None:
    if deployment.free_after_capture_gb >= 0:
        return None
    need_mb = -1024 * deployment.free_after_capture_gb + 64
    return StartupFailure(
        "capture",
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {need_mb:.2f} MiB.\n"
        "Exception: Capture cuda graph failed: CUDA out of memory.\n"
        "Possible solutions:\n"
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
        "2. set --cuda-graph-max-bs to a smaller value (e.g., 16)",
    )


def _accident(options: ServerOptions) -> StartupFailure | None:
    rng = Random(options.seed * 7919 + 13)
    if rng.random() >= options.scenario.noise.crash or options.resolved["no_noise"]:
        return None
    return StartupFailure(
        "capture",
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    )
