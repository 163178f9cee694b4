"""Failures to order: ``--fail KIND@STAGE`` makes the simulated server fail as SGLang does.

Log lines follow SGLang 0.5.23 where its sources say them, else the reports they were seen in. The
kinds are those of a trial's record; what is meant by each stands there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from autotune.errors import ConfigError, nearest

Stage = Literal["parse", "load", "pool", "capture", "start", "serving", "stop"]
Ending = Literal["status 1", "status 2", "killed", "crash", "stays"]
STAGES: tuple[Stage, ...] = ("parse", "load", "pool", "capture", "start", "serving", "stop")

_SCHEDULER = "Scheduler hit an exception: Traceback (most recent call last):\n"


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure.

    Attributes:
        stage: where it happens.
        lines: what the log says then.
        ending: how the process ends: by status, by SIGKILL of its own hand, by SIGSEGV; or that it
            stays and does nothing any more.
    """

    kind: str
    stage: Stage
    lines: str
    ending: Ending


_FAULTS: tuple[Fault, ...] = (
    Fault(
        "bad_flag", "parse",
        "sglang serve: error: unrecognized arguments: --speculative-num-stepz 3", "status 2",
    ),
    Fault(
        "rejected_combination", "parse",
        "Traceback (most recent call last):\n"
        "TypeError: '>' not supported between instances of 'NoneType' and 'int'", "status 1",
    ),
    Fault(
        "rejected_combination", "capture",
        f"{_SCHEDULER}RuntimeError: selected index k out of range", "killed",
    ),
    Fault(
        "weights_do_not_fit", "load",
        f"{_SCHEDULER}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB.",
        "killed",
    ),
    Fault(
        "model_missing", "load",
        "OSError: Incorrect path_or_model_id: '/models/absent'. Please provide either the path to "
        "a local folder or the repo_id of a model on the Hub.", "status 1",
    ),
    Fault(
        "draft_mismatch", "load",
        f"{_SCHEDULER}AttributeError: 'LlamaForCausalLM' object has no attribute 'hot_token_id'",
        "killed",
    ),
    Fault(
        "gpu_busy", "load",
        f"{_SCHEDULER}ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by "
        "other processes.", "killed",
    ),
    Fault(
        "nccl", "load",
        f"{_SCHEDULER}torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp, "
        "unhandled system error", "killed",
    ),
    Fault(
        "kv_does_not_fit", "pool",
        f"{_SCHEDULER}RuntimeError: Not enough memory. Please try to increase "
        "--mem-fraction-static. Raise --mem-fraction-static above 0.871.", "killed",
    ),
    Fault(
        "graph_capture_oom", "capture",
        f"{_SCHEDULER}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 812.00 MiB.\n"
        "Exception: Capture cuda graph failed: CUDA out of memory.", "killed",
    ),
    Fault(
        "port_in_use", "start",
        "ERROR:    [Errno 98] error while attempting to bind on address: address already in use",
        "status 1",
    ),
    Fault("ready_timeout", "start", "", "stays"),
    Fault(
        "runtime_oom", "serving",
        f"{_SCHEDULER}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB.",
        "killed",
    ),
    Fault(
        "watchdog", "serving",
        "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "killed",
    ),
    Fault("hang", "serving", "", "stays"),
    Fault("request_aborted", "serving", "", "stays"),
    Fault("crashed", "serving", "Fatal Python error: Segmentation fault", "crash"),
    Fault("hang", "stop", "", "stays"),
)  # fmt: skip

_BY_NAME: Mapping[str, Fault] = {f"{fault.kind}@{fault.stage}": fault for fault in _FAULTS}
NAMES = tuple(_BY_NAME)


def fault_named(text: str) -> Fault:
    """A fault by ``KIND@STAGE``, or by ``KIND`` alone: then at the first stage it has.

    Raises:
        ConfigError: there is no such fault.
    """
    for name, fault in _BY_NAME.items():
        if text in (name, fault.kind):
            return fault
    raise ConfigError(f"no fault {text!r}: {nearest(text, _BY_NAME)}")
