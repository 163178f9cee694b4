"""The command line of the simulated server: SGLang's flags by their real names, and our own.

Flags that change nothing here are accepted and ignored, because a study passes the user's whole
launch command. An unknown flag ends with argparse's message and exit status 2, as SGLang does.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.engine.sglang.adaptive import ALGORITHMS as ADAPTS
from autotune.engine.sglang.config_file import config_path, without_config, words_of
from autotune.engine.simulated.adaptive import AdaptiveSteps, adapting, read_document
from autotune.engine.simulated.faults import NAMES as FAULT_NAMES
from autotune.engine.simulated.faults import Fault, fault_named
from autotune.engine.simulated.physics import (
    GRAPH_BATCH_SIZES,
    NO_SPECULATION,
    Deployment,
    Speculation,
)
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO, SCENARIOS, Scenario
from autotune.errors import ConfigError, UsageError

DEFAULT_SPEED = 15.0
DEFAULT_STARTUP_SPEED = 60.0
RUNNING_WITH_SPECULATION = 48
"""SGLang's running limit under speculation when none is given (server_args.py, 0.4.5 to 0.5.23)."""
RUNNING_WITHOUT_SPECULATION = 256

_TREE_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")

_TEXT_FLAGS = (
    "tokenizer-path", "tokenizer-mode", "load-format", "dtype", "kv-cache-dtype", "quantization",
    "served-model-name", "chat-template", "reasoning-parser", "tool-call-parser", "device",
    "attention-backend", "prefill-attention-backend", "decode-attention-backend",
    "sampling-backend", "grammar-backend", "moe-runner-backend", "moe-a2a-backend", "log-level",
    "log-level-http", "schedule-policy", "radix-eviction-policy", "revision", "download-dir",
    "mamba-radix-cache-strategy", "mamba-scheduler-strategy", "mamba-ssm-dtype", "admin-api-key",
    "speculative-draft-model-quantization", "speculative-attention-mode",
    "speculative-draft-attention-backend", "speculative-token-map", "json-model-override-args",
    "dist-init-addr", "linear-attn-backend", "speculative-moe-runner-backend",
    "speculative-adaptive-config",
)  # fmt: skip
_INTEGER_FLAGS = (
    "dp-size", "ep-size", "pp-size", "nnodes", "node-rank", "max-total-tokens", "random-seed",
    "chunked-prefill-size", "max-prefill-tokens", "page-size", "stream-interval", "context-length",
    "max-queued-requests", "mamba-track-interval", "base-gpu-id", "torch-compile-max-bs",
    "scheduler-recv-interval", "max-mamba-cache-size", "nccl-port", "decode-log-interval",
)  # fmt: skip
_FLOAT_FLAGS = (
    "schedule-conservativeness", "watchdog-timeout", "swa-full-tokens-ratio", "cpu-offload-gb",
    "mamba-full-memory-ratio", "speculative-accept-threshold-single",
    "speculative-accept-threshold-acc",
)  # fmt: skip
_SWITCHES = (
    "trust-remote-code", "enable-metrics", "enable-mixed-chunk", "disable-radix-cache",
    "disable-overlap-schedule", "enable-torch-compile", "enable-cache-report", "log-requests",
    "enable-dp-attention", "enable-hierarchical-cache", "skip-server-warmup", "sleep-on-idle",
    "enable-flashinfer-allreduce-fusion", "disable-custom-all-reduce", "disable-cuda-graph",
    "enable-p2p-check", "enable-mamba-extra-buffer", "enable-linear-replayssm-spec",
    "speculative-adaptive",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Defects:
    """What is made to go wrong, so that a measurement can be seen to notice it.

    Attributes:
        looping_answers: share of the answers that fall into a loop, decided by their prompts.
        draft_quality: factor on how well the draft guesses.
        slow_down: by which fraction every pass takes longer from ``slow_down_after`` on.
        slow_down_after: server seconds since the server became ready.
    """

    looping_answers: float = 0.0
    draft_quality: float = 1.0
    slow_down: float = 0.0
    slow_down_after: float = 0.0


_DEFECT_HELP = (
    ("looping-answers", "FRAC", "share of the answers that fall into a loop"),
    ("draft-quality", "FRAC", "how well the draft guesses; 0: a draft of another model"),
    ("slow-down", "FRAC", "every pass takes so much longer, as in heat"),
    ("slow-down-after", "SECONDS", "server seconds since ready from which it does"),
)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the command line asked for, with SGLang's automatic values filled in.

    ``resolved`` holds every argument as ``/server_info`` shows it.
    """

    scenario: Scenario
    deployment: Deployment
    host: str
    port: int
    api_key: str | None
    served_model_name: str
    decode_log_interval: int
    speed: float
    startup_speed: float
    seed: int
    defects: Defects
    adaptive: AdaptiveSteps | None
    fault: Fault | None
    resolved: dict[str, Any]


class RejectedArguments(Exception):
    """Arguments that SGLang's own resolution refuses with a traceback and exit status 1."""


def build_parser() -> argparse.ArgumentParser:
    """The parser; ``prog`` and the wording of its errors are SGLang's."""
    parser = argparse.ArgumentParser(
        prog="sglang serve",
        usage="%(prog)s --model-path MODEL [options]",
        description=__doc__.splitlines()[0],
    )
    own = parser.add_argument_group("simulation")
    own.add_argument("--scenario", choices=sorted(SCENARIOS), default=DEFAULT_SCENARIO)
    own.add_argument(
        "--speed", type=float, default=DEFAULT_SPEED, help="server seconds per real second"
    )
    own.add_argument("--startup-speed", type=float, default=DEFAULT_STARTUP_SPEED)
    own.add_argument("--simulation-seed", type=int, default=0, help="seed of the noise")
    own.add_argument("--no-noise", action="store_true", help="do as the model says, exactly")
    own.add_argument(
        "--fail", type=_fault, metavar="KIND@STAGE", help="fail as told: " + ", ".join(FAULT_NAMES)
    )
    own.add_argument(
        "--fail-from-steps",
        type=int,
        default=0,
        metavar="N",
        help="only from N draft steps on",
    )
    for name, metavar, words in _DEFECT_HELP:
        default = getattr(Defects(), _dest(name))
        own.add_argument(
            f"--{name}", type=float, default=default, metavar=metavar, help=f"{words} [{default:g}]"
        )

    sglang = parser.add_argument_group("SGLang")
    sglang.add_argument("--model-path", "--model", required=True)
    sglang.add_argument("--host", default="127.0.0.1")
    sglang.add_argument("--port", type=int, default=30000)
    sglang.add_argument("--api-key")
    sglang.add_argument("--tp-size", "--tensor-parallel-size", "--tp", type=int)
    sglang.add_argument("--mem-fraction-static", type=float)
    sglang.add_argument("--max-running-requests", type=int)
    sglang.add_argument("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode", type=int)
    sglang.add_argument("--speculative-algorithm", type=str.upper)
    sglang.add_argument("--speculative-draft-model-path", "--speculative-draft-model")
    for name in ("num-steps", "eagle-topk", "num-draft-tokens"):
        sglang.add_argument(f"--speculative-{name}", type=int)
    for name in _TEXT_FLAGS:
        sglang.add_argument(f"--{name}")
    for name in _INTEGER_FLAGS:
        sglang.add_argument(f"--{name}", type=int)
    for name in _FLOAT_FLAGS:
        sglang.add_argument(f"--{name}", type=float)
    for name in _SWITCHES:
        sglang.add_argument(f"--{name}", action="store_true")
    return parser


def _fault(text: str) -> Fault:
    try:
        return fault_named(text)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(error.message) from None


def parse_options(argv: list[str] | None = None) -> tuple[ServerOptions, list[str]]:
    """Options, and the lines SGLang logs about what it adjusted by itself.

    Raises:
        RejectedArguments: a combination that SGLang refuses.
        SystemExit: status 2, on an unknown flag or a value of the wrong type.
    """
    parser = build_parser()
    args = parser.parse_args(_merged(sys.argv[1:] if argv is None else argv))
    for flag in ("speed", "startup_speed"):
        if getattr(args, flag) <= 0:
            parser.error(f"argument --{flag.replace('_', '-')}: must be above 0")
    defects = _defects(parser, args)
    log: list[str] = []
    scenario = SCENARIOS[args.scenario]
    speculation = _resolve_speculation(args, scenario, log)
    running = args.max_running_requests
    if running is None:
        running = RUNNING_WITH_SPECULATION if speculation.is_on else RUNNING_WITHOUT_SPECULATION
        if speculation.is_on:
            log.append(
                f"Max running requests is reset to {running} for speculative decoding. You can "
                "override this by explicitly setting --max-running-requests."
            )
    graph_max = min(args.cuda_graph_max_bs or running, running)
    fraction = args.mem_fraction_static
    if fraction is None:
        fraction = _automatic_fraction(scenario, graph_max)
    deployment = Deployment(scenario.machine, speculation, fraction, running, graph_max)
    adaptive = None
    if args.speculative_adaptive:
        adaptive = _adaptive_steps(args.speculative_adaptive_config, deployment)
        deployment = adapting(deployment, adaptive)
    resolved = _resolved(args, scenario, deployment)
    options = ServerOptions(
        scenario=scenario,
        deployment=deployment,
        host=args.host,
        port=args.port,
        api_key=args.api_key,
        served_model_name=resolved["served_model_name"],
        decode_log_interval=args.decode_log_interval or 40,
        speed=args.speed,
        startup_speed=args.startup_speed,
        seed=args.simulation_seed,
        defects=defects,
        adaptive=adaptive,
        fault=args.fail if speculation.steps >= args.fail_from_steps else None,
        resolved=resolved,
    )
    return options, log


def _merged(argv: Sequence[str]) -> list[str]:
    """The words with those of ``--config FILE`` before them, as SGLang merges them.

    Raises:
        RejectedArguments: the file cannot be read.
    """
    path = config_path(argv)
    try:
        return [*(words_of(path) if path else ()), *without_config(argv)]
    except UsageError as error:
        raise RejectedArguments(f"ValueError: {error.message}") from None


def _resolved(
    args: argparse.Namespace, scenario: Scenario, deployment: Deployment
) -> dict[str, Any]:
    """Every argument as ``/server_info`` shows it: automatic values filled in, secrets out."""
    told_apart = {"speed", "startup_speed", "fail", *(_dest(name) for name, _, _ in _DEFECT_HELP)}
    speculation = deployment.speculation
    return {k: v for k, v in vars(args).items() if k not in told_apart} | {
        "mem_fraction_static": deployment.mem_fraction,
        "max_running_requests": deployment.max_running_requests,
        "cuda_graph_max_bs": deployment.graph_max_batch,
        "tp_size": args.tp_size or scenario.machine.n_gpus,
        "served_model_name": args.served_model_name or args.model_path,
        "attention_backend": args.attention_backend or "flashinfer",
        "page_size": args.page_size or 1,
        "speculative_num_steps": speculation.steps if speculation.is_on else None,
        "speculative_eagle_topk": speculation.topk if speculation.is_on else None,
        "speculative_num_draft_tokens": speculation.draft_tokens if speculation.is_on else None,
        "api_key": None,
        "admin_api_key": None,
    }


def _dest(name: str) -> str:
    return name.replace("-", "_")


def _defects(parser: argparse.ArgumentParser, args: argparse.Namespace) -> Defects:
    values = {_dest(name): getattr(args, _dest(name)) for name, _, _ in _DEFECT_HELP}
    for name, value in values.items():
        most = 1.0 if name in ("looping_answers", "draft_quality") else float("inf")
        if not (0 <= value <= most and value < float("inf")):
            parser.error(f"argument --{name.replace('_', '-')}: {value:g} is out of range")
    return Defects(**values)


def _resolve_speculation(
    args: argparse.Namespace, scenario: Scenario, log: list[str]
) -> Speculation:
    algorithm = args.speculative_algorithm
    if algorithm is None:
        args.speculative_adaptive = False
        return NO_SPECULATION
    if args.speculative_adaptive:
        _start_adaptive(args, log)
    if algorithm not in _TREE_ALGORITHMS:
        raise RejectedArguments(f"ValueError: Unknown speculative algorithm: {algorithm}")
    steps, topk = args.speculative_num_steps, args.speculative_eagle_topk
    draft_tokens = args.speculative_num_draft_tokens
    if steps is None:
        # All three or none: a bare assert in SGLang (speculative_hook.py:1159 @0.5.23).
        if topk is not None or draft_tokens is not None:
            raise RejectedArguments("AssertionError")
        return scenario.default_speculation
    if topk is None:
        raise RejectedArguments(
            "TypeError: '>' not supported between instances of 'NoneType' and 'int'"
        )
    if topk == 1 and draft_tokens != steps + 1:
        log.append(
            "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when "
            "speculative_eagle_topk == 1"
        )
        draft_tokens = steps + 1
    if draft_tokens is None:
        raise RejectedArguments(
            "TypeError: unsupported operand type(s) for -: 'NoneType' and 'int'"
        )
    return Speculation(steps, topk, draft_tokens)


def _start_adaptive(args: argparse.Namespace, log: list[str]) -> None:
    """Fills in what the file of adaptive speculation decides, or switches it off with a line.

    Source: arg_groups/speculative_hook.py:1374 to 1430 @0.5.23.
    """
    algorithm, topk = args.speculative_algorithm, args.speculative_eagle_topk
    reason = None
    if algorithm not in ADAPTS:
        reason = f"speculative_algorithm={algorithm} (only EAGLE/EAGLE3 are supported)"
    elif topk not in (None, 1):
        reason = f"speculative_eagle_topk={topk} (only topk=1 is supported)"
    if reason is not None:
        log.append(
            f"speculative_adaptive disabled: {reason}. Falling back to static speculative params."
        )
        args.speculative_adaptive = False
        return
    known = read_steps(args.speculative_adaptive_config, 0, ()).candidates
    steps = args.speculative_num_steps
    if steps is None:
        steps = known[len(known) // 2]
    if steps not in known:
        raise RejectedArguments(
            f"ValueError: --speculative-num-steps={steps} is not in the adaptive config "
            f"candidate_steps {list(known)}. Pass one of those values."
        )
    args.speculative_num_steps, args.speculative_eagle_topk = steps, 1
    args.speculative_num_draft_tokens = steps + 1


def _adaptive_steps(path: str | None, deployment: Deployment) -> AdaptiveSteps:
    sizes = [size for size in GRAPH_BATCH_SIZES if size <= deployment.graph_max_batch]
    return read_steps(path, deployment.speculation.steps, sizes)


def read_steps(path: str | None, initial: int, sizes: Sequence[int]) -> AdaptiveSteps:
    """The steps of a file, or SGLang's own.

    Raises:
        RejectedArguments: SGLang cannot read the file.
    """
    try:
        return AdaptiveSteps(read_document(path) if path else None, initial, sizes)
    except (OSError, ValueError) as error:
        raise RejectedArguments(f"{type(error).__name__}: {error}") from None


def _automatic_fraction(scenario: Scenario, graph_max: int) -> float:
    """SGLang's own choice (memory_hook.py @0.5.23, from 0.5.14 without a speculation term)."""
    machine = scenario.machine
    reserve_mb = 512 + 1.5 * 8192 + 2 * graph_max + 1024 * machine.n_gpus / 8
    reserve_gb = max(10.0, reserve_mb / 1024) if machine.gpu_memory_gb > 60 else reserve_mb / 1024
    return round((machine.gpu_memory_gb - reserve_gb) / machine.gpu_memory_gb, 3)
