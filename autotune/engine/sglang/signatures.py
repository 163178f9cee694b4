"""The table of failures: what SGLang writes when it goes wrong, and what to change.

Wordings were collected from SGLang 0.4.3 to 0.5.23 and from issue reports. The order matters: the
first entry that matches any line of the log wins, so a cause stands before its consequences. Out
of memory on a GPU is no entry, because its meaning depends on the stage (``diagnose.py``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.core.trial import FailureKind

OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|(?:CUDA|HIP|XPU|NPU) out of memory|CUDA error: out of memory"
    r"|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|Cuda failure.*out of memory",
    re.IGNORECASE,
)
SERVING_OUT_OF_MEMORY = re.compile(
    r"(?:Prefill|Decode) out of memory(?! happened)|Out of memory\. Try to lower your batch size"
    r"|alloc_req_slots runs out of memory",
    re.IGNORECASE,
)
CAPTURE_FAILED = re.compile(r"Capture (?:\w+ )*graphs? failed", re.IGNORECASE)
EXCEPTION = re.compile(r"^(?:\[[^]]*\] )?(?:[\w.]+\.)?(?:\w*(?:Error|Exception))(?::|$)")

NOISE = re.compile(
    r"server_args=|Ignore import error|UserWarning|DeprecationWarning|^\s*warnings\.warn"
    r"|kill_process_tree called|Sleeping \d+ seconds before crash|skipping py-spy"
    r"|(?:SIGQUIT received|Received sigquit)|\"(?:GET|POST) /|^usage: |^\s{2,}"
)
"""Lines that mention words of failures without being one, or that only say that one happened.

Indented lines are the source lines of a traceback, or the usage text.
"""

RAISE_ABOVE = re.compile(r"Raise --mem-fraction-static above (\d*\.\d+)")


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to fail.

    Attributes:
        stage: where it happens whatever the log says; None: the stage the log had reached.
    """

    kind: FailureKind
    pattern: re.Pattern[str]
    remedy: str
    stage: str | None = None


def _sign(kind: FailureKind, pattern: str, remedy: str, stage: str | None = None) -> Signature:
    return Signature(kind, re.compile(pattern, re.IGNORECASE), remedy, stage)


LOWER_AT_CAPTURE = (
    "lower mem_fraction_static, the largest captured batch (--cuda-graph-max-bs) or "
    "speculative_num_draft_tokens: the KV pool leaves too little for the CUDA graphs"
)
LOWER_AT_RUN_TIME = (
    "lower mem_fraction_static or --chunked-prefill-size: the KV pool leaves too little memory "
    "for the work itself"
)
LOWER_FOR_DRAFT = (
    "lower mem_fraction_static: the KV pool was taken first and leaves no room for the draft model"
)
LOWER_AT_POOL = (
    "lower mem_fraction_static, or free the GPU: the KV pool is larger than the memory that is left"
)
WEIGHTS_TOO_LARGE = (
    "use more GPUs (--tp-size) or a smaller or quantised model: the weights alone do not fit, and "
    "mem_fraction_static does not change that"
)
RAISE_FOR_KV = (
    "raise mem_fraction_static{above}, or lower max_running_requests or "
    "speculative_num_draft_tokens: the weights leave no memory for the KV cache"
)
HOST_MEMORY = "give the host more memory or shared memory, or load fewer weights at a time"
KILLED = (
    "killed from outside with no reason in its log; if it comes back, look at the host's memory "
    "(dmesg) and at what else runs there"
)
TOLD_TO_STOP = "find out what stopped the server (SIGTERM), then try the same flags again"
NATIVE_CRASH = (
    "native code of the server crashed: look at the driver and the kernels of this attention "
    "backend; a second launch tells whether the flags cause it"
)
_ENVIRONMENT = "wait, then try the same flags again: the environment failed, not the flags"

SIGNATURES = (
    _sign(
        FailureKind.BAD_FLAG,
        r"error: (?:unrecognized arguments|ambiguous option|argument \S+:"
        r"|the following arguments are required)|no such option",
        "correct the flag or its value for this version of SGLang",
        "parse",
    ),
    _sign(
        FailureKind.CRASHED,
        r"No module named '?sglang\b",
        "install SGLang for this Python, or start the command from the environment that has it",
        "parse",
    ),
    _sign(
        FailureKind.REJECTED_COMBINATION,
        r"selected index k out of range|\bk not in range",
        "lower speculative_num_draft_tokens to at most 1 + topk + (steps − 1)·topk², or raise "
        "speculative_num_steps or speculative_eagle_topk: the draft tree is smaller than asked for",
    ),
    _sign(
        FailureKind.KV_DOES_NOT_FIT,
        r"Not enough memory[.;,] please try to increase --mem-fraction-static"
        r"|leave no GPU memory for the KV cache|cannot hold even one request",
        RAISE_FOR_KV,
        "pool",
    ),
    _sign(
        FailureKind.KV_DOES_NOT_FIT,
        r"state cache is too small",
        "raise mem_fraction_static, or lower max_running_requests or "
        "speculative_num_draft_tokens: each running request keeps one recurrent state per draft "
        "token",
        "pool",
    ),
    _sign(
        FailureKind.GPU_BUSY,
        r"memory capacity is unbalanced|devices?(?:\(s\))? (?:is/)?(?:are )?busy or unavailable",
        "free the GPUs of other processes (nvidia-smi), then try the same flags again",
        "load",
    ),
    _sign(
        FailureKind.PORT_IN_USE,
        r"address already in use|\[Errno 98\]|EADDRINUSE|port \S+ is already in use"
        r"|\d+ is not available in \d+ seconds",
        "try the same flags again: another process took the port meanwhile",
    ),
    _sign(
        FailureKind.DRAFT_MISMATCH,
        r"has no attribute '(?:hot_token_id|[sg]et_embed\w*|set_eagle3_layers_to_capture)'",
        "add --speculative-draft-model-path with a draft model made for this target: EAGLE3 and "
        "STANDALONE need one",
        "load",
    ),
    _sign(
        FailureKind.DRAFT_MISMATCH,
        r"Cannot find the config file for (?:awq|gptq|\w+)",
        "add --speculative-draft-model-quantization unquant: the draft model inherits the target's "
        "quantisation",
        "load",
    ),
    _sign(
        FailureKind.DRAFT_MISMATCH,
        r"size mismatch for|KeyError: '[\w.]*(?:model|layers|lm_head|midlayer|weight)[\w.]*'",
        "check that the draft model belongs to the target model and to the algorithm",
        "load",
    ),
    _sign(
        FailureKind.MODEL_MISSING,
        r"(?:RepositoryNotFound|GatedRepo|HFValidation|RevisionNotFound|LocalEntryNotFound)Error"
        r"|Error: .*(?:gated repo|40[13] Client Error|is not a local folder|couldn't connect"
        r"|does not appear to have|no file named|any model weights|config\.json)",
        "check the model path, the network and the access token (HF_TOKEN)",
        "load",
    ),
    _sign(
        FailureKind.MODEL_MISSING,
        r"architectures? .*\b(?:is|are) not supported",
        "use a version of SGLang that supports the model's architecture",
        "load",
    ),
    _sign(
        FailureKind.REJECTED_COMBINATION,
        r"'NoneType' and 'int'",
        "give speculative_num_steps, speculative_eagle_topk and speculative_num_draft_tokens "
        "together, or none of them",
        "parse",
    ),
    _sign(
        FailureKind.REJECTED_COMBINATION,
        r"(?:Error|Exception): .*(?:only supports? topk ?={1,2} ?1|page_size > 1|candidate_steps"
        r"|does not support (?:dp|data.parallel) attention)",
        "choose another combination: SGLang refuses this one on this backend and version",
        "parse",
    ),
)

LATER_SIGNATURES = (
    _sign(
        FailureKind.NCCL,
        r"nccl(?:UnhandledCuda|System|Internal|Remote|InvalidUsage)?Error|NCCL error|WorkNCCL",
        _ENVIRONMENT + " (NCCL_DEBUG=INFO tells more)",
    ),
    _sign(
        FailureKind.WATCHDOG,
        r"watchdog timeout",
        "raise --watchdog-timeout if the first batch is slow; otherwise the server hung, and these "
        "flags should not be tried again",
        "serving",
    ),
    _sign(
        FailureKind.HANG,
        r"Health check failed\. Server couldn't get a response",
        "the server stopped answering without ending: " + _ENVIRONMENT,
        "serving",
    ),
    _sign(
        FailureKind.CRASHED,
        r"No space left on device|Cannot allocate memory|\bMemoryError\b"
        r"|DefaultCPUAllocator: (?:not enough|can't allocate) memory",
        HOST_MEMORY,
    ),
    _sign(
        FailureKind.CRASHED,
        r"illegal memory access|device-side assert|CUDA error:|no CUDA GPUs are available"
        r"|Found no NVIDIA driver",
        NATIVE_CRASH,
    ),
    _sign(
        FailureKind.CRASHED,
        r"died during initialization \(exit code: ?-9\)|Rank \d+ scheduler is dead"
        r"|Subprocess \S+ .*crashed with exit code -9",
        KILLED,
    ),
)
"""Looked for after out of memory: what these say is often its consequence."""
