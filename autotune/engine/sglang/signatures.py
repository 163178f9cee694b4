"""The table of failures: what SGLang writes when it goes wrong, and what to change.

Wordings were collected from SGLang 0.4.3 to 0.5.23 and from issue reports. Out of memory on a GPU
is no entry, because its meaning depends on the stage (``diagnose.py``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from autotune.core.trial import FailureKind as Kind
from autotune.engine.sglang import remedies as words

OUT_OF_MEMORY = re.compile(
    r"OutOfMemoryError|(?:CUDA|HIP|XPU|NPU) out of memory|(?:CUDA|driver) error: out of memory"
    r"|Triton Error \[\w+\]: out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation"
    r"|Cuda failure.*out of memory",
    re.IGNORECASE,
)
CAPTURE_FAILED = re.compile(r"Capture (?:[\w-]+ )*graphs? failed", re.IGNORECASE)
EXCEPTION = re.compile(
    r"^(?:\[[^]]*\] )?(?:[\w.]+\.)?(?:\w*(?:Error|Exception|Expired|Timeout|OutOfResources))(?::|$)"
)
SCHEDULER_EXCEPTION = re.compile(r"(?:Scheduler|Controller|Manager|Router) hit an exception:")
TRACEBACK = re.compile(r"^(?:\[[^]]*\] )?Traceback \(most recent call last\):")

NOISE = re.compile(
    r"server_args=|Ignore import error|UserWarning|DeprecationWarning|FutureWarning"
    r"|^\s*warnings\.warn|kill_process_tree called|Sleeping \d+ seconds before crash"
    r"|skipping py-spy|SIGQUIT received|Received sigquit|\"(?:GET|POST|PUT|HEAD|DELETE) /"
    r"|^usage: |^\s{2,}|trying port \d|self\.soft=True|can be ignored|is deprecated"
    r"|obj=\w+ReqInput|[Rr]etrying|Trying to resume|[Ff]all(?:ing|s)? ?back"
    r"|will be ignored|\(ignored\)"
)
"""Lines that mention words of failures without being one, or that only say that one happened.

Indented lines are the source lines of a traceback, or the usage text.
"""

REQUEST_ERROR = re.compile(
    r"Error in request|Exception in ASGI application|\[http_server\] Error|Exception in callback"
    r"|Exception ignored in|Task exception was never retrieved|Failed to |[Ff]ailed to load"
    r"|parsing error|Error (?:in|processing|during|handling|while) |request \S+ failed"
    r"|OpenAIServingResponses init failed|[Ff]all(?:ing|s)? ?back|[Rr]etry|Ignore|\bWARNING\b"
    r"|init failed|tool call failed"
)
"""Starts a traceback that the server wrote down and survived (serving_base.py:137 @0.5.23 …)."""

DEATH = re.compile(
    r"Received sigquit|SIGQUIT received|hit an exception|crashed with exit code"
    r"|died during initialization|scheduler is dead|include_parent=True|Initialization failed"
    r"|[Ww]atchdog timeout \((?!.*soft=True)|Fatal Python error|Segmentation fault|core dumped"
    r"|^Killed$|\d Killed\b"
)
"""Only a server that ends writes this."""

LIFE = re.compile(r"\b(?:Prefill|Decode) batch|\"POST /\S+ HTTP/[\d.]+\" 200")
"""Work was done. Health checks are no such sign: they answer beside a dead scheduler (#4730)."""
FIRED_UP = re.compile(r"The server is fired up and ready to roll")

STARTING = frozenset({"parse", "load", "pool", "capture", "start"})


@dataclass(frozen=True, slots=True)
class Signature:
    """One way to fail.

    Attributes:
        stage: where it happens whatever the log says; None: the stage the log had reached.
        only: stages in which these words mean this failure; None: all.
        raised: the line must be an exception itself, not a message that quotes one.
    """

    kind: Kind
    pattern: re.Pattern[str]
    remedy: str
    stage: str | None = None
    only: frozenset[str] | None = None
    raised: bool = False

    def matches(self, text: str, stage: str) -> bool:
        if self.only is not None and stage not in self.only:
            return False
        return bool(self.pattern.search(text)) and (
            not self.raised or EXCEPTION.match(text) is not None
        )


def _sign(
    kind: Kind,
    pattern: str,
    remedy: str,
    stage: str | None = None,
    *,
    only: frozenset[str] | None = None,
    raised: bool = False,
) -> Signature:
    return Signature(kind, re.compile(pattern, re.IGNORECASE), remedy, stage, only, raised)


CAUSES = (
    _sign(
        Kind.BAD_FLAG,
        r"error: (?:unrecognized arguments|ambiguous option|argument \S+:"
        r"|the following arguments are required)|no such option",
        words.CORRECT_FLAG, "parse", only=STARTING,
    ),
    _sign(Kind.CRASHED, r"No module named '?sglang(?:'|\b(?!\.))", words.INSTALL, "parse",
          only=STARTING),
    _sign(Kind.REJECTED_COMBINATION, r"selected index k out of range|\bk not in range",
          words.TREE_TOO_LARGE),
    # pool_configurator.py:96 and :212, kv_cache_configurator.py:3051, unified_memory_pool.py:1564,
    # all @0.5.23; the first wording is that of 0.4.x.
    _sign(
        Kind.KV_DOES_NOT_FIT,
        r"Not enough memory[.;,] please try to increase --mem-fraction-static"
        r"|leave no GPU memory for the KV cache|cannot hold even one request"
        r"|leaves no room for the full KV pool|cannot fit ONE worst-case request",
        words.RAISE_FOR_KV, "pool",
    ),
    # kv_cache_configurator.py:3152 and :3394 @0.5.23.
    _sign(Kind.KV_DOES_NOT_FIT,
          r"state cache is too small|Not enough GPU memory for hybrid \(mamba",
          words.RAISE_FOR_STATES, "pool"),
    # mem_cache/common.py @0.5.6 … mem_cache/allocation.py:163, :239, :613 @0.5.23.
    _sign(
        Kind.RUNTIME_OOM,
        r"(?:Prefill|Decode) out of memory(?! happened)|Out of memory\. Try to lower your batch"
        r"|pool exhausted: need",
        words.RAISE_AT_RUN_TIME, "serving",
    ),
    _sign(Kind.RUNTIME_OOM, r"alloc_req_slots runs out of memory", words.LOWER_RUNNING, "serving"),
    # distributed/bootstrap.py:445 @0.5.23; a warning only where the check is switched off.
    _sign(
        Kind.GPU_BUSY,
        r"memory capacity is unbalanced|devices?(?:\(s\))? (?:is/)?(?:are )?busy or unavailable",
        words.FREE_GPUS, "load",
    ),
    # utils/network.py:103 and entrypoints/engine.py:1196 @0.5.23, uvicorn, torch's TCPStore.
    _sign(
        Kind.PORT_IN_USE,
        r"address already in use|\[Errno 98\]|EADDRINUSE|port \S+ is already in use"
        r"|at \d+ is not available in \d+ seconds|\d+ is not available in \d+ seconds",
        words.PORT, only=STARTING,
    ),
    _sign(
        Kind.DRAFT_MISMATCH,
        r"has no attribute '(?:hot_token_id|[sg]et_embed\w*|set_eagle3_layers_to_capture)'"
        r"|requires setting --speculative-draft-model-path",
        words.GIVE_DRAFT, "load",
    ),
    _sign(Kind.DRAFT_MISMATCH, r"Cannot find the config file for \w+", words.UNQUANTISED_DRAFT,
          "load", only=STARTING),
    _sign(
        Kind.DRAFT_MISMATCH,
        r"size mismatch for|KeyError: '[\w.]*(?:model|layers|lm_head|midlayer|weight)[\w.]*'"
        r"|draft model to share the same (?:vocabulary|tokenizer)|must match the target\."
        r"|independent (?:MTP )?draft (?:checkpoint|model path)",
        words.OTHER_DRAFT, "load", only=STARTING,
    ),
    _sign(
        Kind.MODEL_MISSING,
        r"(?:RepositoryNotFound|GatedRepo|HFValidation|RevisionNotFound|LocalEntryNotFound)Error"
        r"|Error: .*(?:gated repo|40[13] Client Error|is not a local folder"
        r"|Incorrect path_or_model_id|couldn't connect|does not appear to have"
        r"|no file named|any model weights|config\.json"
        r"|Unrecognized model in|local model path does not exist)",
        words.FIND_MODEL, "load", only=STARTING, raised=True,
    ),
    _sign(Kind.MODEL_MISSING, r"Model architectures? .*\b(?:is|are) not supported",
          words.OTHER_VERSION, "load", only=STARTING),
    _sign(Kind.REJECTED_COMBINATION, r"'NoneType' and 'int'", words.ALL_OR_NONE, "parse",
          only=STARTING, raised=True),
    # speculative_hook.py:431, :514 … :556, :1179, :1270, pool_configurator.py:1303 @0.5.23.
    _sign(
        Kind.REJECTED_COMBINATION,
        r"(?:Error|Exception): .*(?:only supports? topk ?={1,2} ?1|page_size ?> ?1|candidate_steps"
        r"|does not support (?:dp|data.parallel) attention|exceeds capacity=\d|at most Q=\d"
        r"|requires Q >= F|serves at most \d+ draft|draft-window-size must be"
        r"|Chunked prefill is aligned to|draft_tokens must be|requires --speculative-eagle-topk)",
        words.OTHER_COMBINATION, "parse", only=STARTING,
    ),
    _sign(Kind.REJECTED_COMBINATION, r"OutOfResources: out of resource: shared memory",
          words.SHARED_MEMORY_OF_GPU, raised=True),
    _sign(
        Kind.CRASHED,
        r"oom-kill:.*task=(?:python|sglang|pt_main)|Killed process \d+ \((?:python|sglang|pt_main)"
        r"|\bOOMKilled\b|killed by the OOM killer",
        words.KILLED_BY_KERNEL,
    ),
)  # fmt: skip
"""What these say is where it began; the earliest line counts."""

CONSEQUENCES = (
    _sign(Kind.WATCHDOG, r"(?<!caught )\bwatchdog timeout \(", words.WATCHDOG, "serving"),
    _sign(
        Kind.NCCL,
        r"nccl(?:UnhandledCuda|System|Internal|Remote|InvalidUsage)Error|NCCL error|WorkNCCL"
        r"|DistNetworkError|DistStoreError|Timed out after \d+ seconds waiting for clients"
        r"|gloo.*(?:Connection (?:closed|reset) by peer|Timed out)|NCCL watchdog thread terminated",
        words.NCCL,
    ),
    _sign(Kind.CRASHED, r"other ranks that didn't finish loading", words.OTHER_RANK, "load"),
    _sign(Kind.READY_TIMEOUT, r"Weights are not ready after waiting", words.SLOW_WEIGHTS, "load",
          only=STARTING),
    # http_server.py:478 @0.5.6, :793 @0.5.23.
    _sign(Kind.HANG, r"Health check failed\. Server couldn't get a response", words.HANG,
          "serving"),
    _sign(
        Kind.CRASHED,
        r"No space left on device|Cannot allocate memory|^(?:\[[^]]*\] )?MemoryError\b"
        r"|DefaultCPUAllocator: (?:not enough|can't allocate) memory|insufficient shared memory"
        r"|Unexpected bus error",
        words.HOST_MEMORY,
    ),
    _sign(Kind.CRASHED, r"no CUDA GPUs are available|Found no NVIDIA driver|No CUDA-capable device",
          words.NO_GPU, only=STARTING),
    _sign(
        Kind.CRASHED,
        r"illegal memory access|device-side assert|CUDA error:|HIP error:|Segmentation fault"
        r"|Fatal Python error|Segfault encountered",
        words.NATIVE_CRASH,
    ),
)  # fmt: skip
"""Looked for after causes: what these say is often what a cause somewhere else led to."""

HINTS = (
    # entrypoints/engine.py:2006, utils/watchdog.py:217 @0.5.23; engine.py:752 @0.5.6; a shell.
    _sign(
        Kind.CRASHED,
        r"died during initialization \(exit code: ?-9\)|Rank \d+ scheduler is dead"
        r"|Subprocess \S+ .*crashed with exit code -9|^Killed$|\d Killed\b",
        words.KILLED,
    ),
    # schedule_batch.py:3516 and :3529 @0.5.23; the words are in 0.5.10 and later.
    _sign(
        Kind.REQUEST_ABORTED,
        r"Out of memory even after retracting|aborted last request \S+ due to OOM",
        words.ABORTED, "serving",
    ),
)  # fmt: skip
"""Looked for at last: they say that something happened, not why."""
