"""A corpus of server logs, shortened, in the wordings of SGLang 0.4.3 to 0.5.23."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from autotune.core.trial import FailureKind
from autotune.engine.sglang.diagnose import diagnose, last_words, read_log, stage_of

from .fake_server import LOADING

K = FailureKind
WEIGHTS_BEGIN = "[2026-01-05 10:00:01 TP0] Load weight begin. avail mem=94.10 GB"
TO_POOL = "\n".join(LOADING[:2])
TO_CAPTURE = "\n".join(LOADING[:5])
TO_START = "\n".join(LOADING)
SERVING = TO_START + "\nThe server is fired up and ready to roll!"
TRACEBACK = "Scheduler hit an exception: Traceback (most recent call last):"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"
SIGQUIT = (
    "[2026-01-05 10:01:00] Received sigquit from a child process. It usually means the child "
    "failed.\n[2026-01-05 10:01:00] kill_process_tree called: parent_pid=1, include_parent=True"
)
SERVER_ARGS = (
    "[2026-01-05 10:00:00] server_args={'watchdog_timeout': 300, 'note': 'CUDA out of memory', "
    "'api_key': None}"
)


@dataclass(frozen=True)
class Case:
    name: str
    log: str
    status: int | None
    kind: FailureKind
    stage: str
    evidence: str
    remedy: str = ""


CORPUS = (
    Case(
        "unknown flag",
        "usage: sglang serve [-h] --model-path MODEL_PATH\n"
        "                    [--speculative-num-steps N] [--speculative-eagle-topk N]\n"
        "sglang serve: error: unrecognized arguments: --speculative-nmu-steps 3",
        2, K.BAD_FLAG, "parse", "unrecognized arguments", "did you mean --speculative-num-steps?",
    ),
    Case(
        "wrong choice",
        "usage: launch_server.py [-h]\nlaunch_server.py: error: argument --attention-backend: "
        "invalid choice: 'fa9' (choose from 'fa3', 'triton')",
        2, K.BAD_FLAG, "parse", "invalid choice",
    ),
    Case(
        "renamed flag has become ambiguous",
        "usage: sglang serve [-h]\nsglang serve: error: ambiguous option: --cuda-graph-max-bs "
        "could match --cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill",
        2, K.BAD_FLAG, "parse", "ambiguous option",
    ),
    Case(
        "SGLang is not installed",
        "/usr/bin/python: Error while finding module specification for 'sglang.launch_server' "
        "(ModuleNotFoundError: No module named 'sglang')",
        1, K.CRASHED, "parse", "No module named 'sglang'", "install SGLang",
    ),
    Case(
        "backend takes chains only",
        'Traceback (most recent call last):\n  File "server_args.py", line 1106, in check\n'
        "ValueError: trtllm_mha backend only supports topk = 1 for speculative decoding.",
        1, K.REJECTED_COMBINATION, "parse", "only supports topk = 1",
    ),
    Case(
        "tree with pages",
        "Traceback (most recent call last):\nValueError: speculative_eagle_topk > 1 with page_size "
        "> 1 is unstable and produces incorrect results for this backend",
        1, K.REJECTED_COMBINATION, "parse", "page_size > 1",
    ),
    Case(
        "one of the three is missing, old",
        "Traceback (most recent call last):\n"
        "TypeError: '>' not supported between instances of 'NoneType' and 'int'",
        1, K.REJECTED_COMBINATION, "parse", "NoneType", "together",
    ),
    Case(
        "one of the three is missing, bare assertion",
        'Traceback (most recent call last):\n  File "speculative_hook.py", line 1159, in resolve\n'
        "    assert topk is None\nAssertionError",
        1, K.REJECTED_COMBINATION, "parse", "AssertionError", "go together",
    ),
    Case(
        "adaptive steps",
        "Traceback (most recent call last):\nValueError: --speculative-num-steps must be one of "
        "candidate_steps [1, 3, 7]",
        1, K.REJECTED_COMBINATION, "parse", "candidate_steps",
    ),
    Case(
        "tree bound at graph capture",
        f"{TO_CAPTURE}\n{TRACEBACK}\nRuntimeError: selected index k out of range\n\nDuring "
        "handling of the above exception, another exception occurred:\n\nException: Capture cuda "
        "graph failed: selected index k out of range\nPossible solutions:\n1. set "
        f"--mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n{SIGQUIT}",
        -9, K.REJECTED_COMBINATION, "capture", "selected index k out of range", "topk²",
    ),
    Case(
        "tree bound at warm-up",
        f"{TO_START}\n{TRACEBACK}\n    top_scores = torch.topk(scores, n - 1)\n"
        f"RuntimeError: selected index k out of range\n{SIGQUIT}",
        137, K.REJECTED_COMBINATION, "start", "selected index k out of range", "topk²",
    ),
    Case(
        "weights, new wording",
        f"{SERVER_ARGS}\n{WEIGHTS_BEGIN}\n{TRACEBACK}\n{OOM}\n{SIGQUIT}",
        -9, K.WEIGHTS_DO_NOT_FIT, "load", "Tried to allocate", "--tp-size",
    ),
    Case(
        "weights, old wording",
        f"{WEIGHTS_BEGIN}\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate",
        137, K.WEIGHTS_DO_NOT_FIT, "load", "torch.cuda.OutOfMemoryError", "does not change that",
    ),
    Case(
        "no KV, old wording",
        f"{TO_POOL}\n{TRACEBACK}\nRuntimeError: Not enough memory. Please try to increase "
        f"--mem-fraction-static.\n{SIGQUIT}",
        -9, K.KV_DOES_NOT_FIT, "pool", "Not enough memory", "raise mem_fraction_static, or",
    ),
    Case(
        "no KV, new wording with a bound",
        f"{TO_POOL}\n{TRACEBACK}\nValueError: Loaded weights leave no GPU memory for the KV cache "
        "under --mem-fraction-static=0.94. Raise --mem-fraction-static above 0.942 (minimum viable "
        f"= 1 - available/pre = 0.9411).\n{SIGQUIT}",
        -9, K.KV_DOES_NOT_FIT, "pool", "leave no GPU memory", "mem_fraction_static above 0.942",
    ),
    Case(
        "no recurrent state",
        f"{TO_POOL}\n{TRACEBACK}\nRuntimeError: Hybrid (mamba/linear-attention) state cache is too "
        "small: 2 slots",
        -9, K.KV_DOES_NOT_FIT, "pool", "state cache is too small", "lower max_running_requests",
    ),
    Case(
        "no sliding window",
        f"{TO_POOL}\n{TRACEBACK}\nValueError: SWA pool of 128 tokens cannot hold even one request",
        -9, K.KV_DOES_NOT_FIT, "pool", "SWA pool", "raise",
    ),
    Case(
        "graph capture",
        f"{TO_CAPTURE}\n{TRACEBACK}\n{OOM}\n\nException: Capture cuda graph failed: CUDA out of "
        f"memory. Tried to allocate 448.00 MiB.\nPossible solutions:\n{SIGQUIT}",
        -9, K.GRAPH_CAPTURE_OOM, "capture", "Tried to allocate", "lower mem_fraction_static",
    ),
    Case(
        "graph capture, no stage lines",
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 448.00 MiB.",
        -9, K.GRAPH_CAPTURE_OOM, "capture", "448.00 MiB", "lower",
    ),
    Case(
        "graph capture, another cause",
        f"{TO_CAPTURE}\n{TRACEBACK}\nException: Capture cuda graph failed: Ninja build failed.\n"
        "Possible solutions:\n1. set --mem-fraction-static to a smaller value\n",
        -9, K.CRASHED, "capture", "Ninja build failed", "another reason than memory",
    ),
    Case(
        "draft model after the pool, before 0.5.14",
        f"{TO_CAPTURE}\n{WEIGHTS_BEGIN}\n{TRACEBACK}\n{OOM}",
        -9, K.RUNTIME_OOM, "load", "Tried to allocate", "lower mem_fraction_static",
    ),
    Case(
        "the pool itself",
        f'{TO_POOL}\n{TRACEBACK}\n  File "mem_cache/memory_pool.py", line 300\n{OOM}',
        -9, K.RUNTIME_OOM, "pool", "Tried to allocate", "lower mem_fraction_static",
    ),
    Case(
        "warm-up",
        f"{TO_START}\n{TRACEBACK}\n{OOM}",
        -9, K.RUNTIME_OOM, "start", "Tried to allocate", "--chunked-prefill-size",
    ),
    Case(
        "serving",
        f"{SERVING}\n{TRACEBACK}\n{OOM}\n[2026] SIGQUIT received. signum=None, frame=None.",
        -9, K.RUNTIME_OOM, "serving", "Tried to allocate", "lower mem_fraction_static",
    ),
    Case(
        "serving, out of slots",
        f"{SERVING}\nRuntimeError: Prefill out of memory. Try to lower your batch size.",
        -9, K.RUNTIME_OOM, "serving", "Prefill out of memory",
    ),
    Case(
        "busy GPUs",
        f"{TRACEBACK}\nValueError: The memory capacity is unbalanced. Some GPUs may be occupied by "
        "other processes. pre_model_load_memory=30.1",
        -9, K.GPU_BUSY, "load", "unbalanced", "free the GPUs",
    ),
    Case(
        "port",
        f"{TO_START}\nERROR:    [Errno 98] error while attempting to bind on address "
        "('127.0.0.1', 30000): address already in use",
        1, K.PORT_IN_USE, "start", "address already in use", "again",
    ),
    Case(
        "internal port",
        "ValueError: port at 30111 is not available in 30 seconds.",
        1, K.PORT_IN_USE, "parse", "30111",
    ),
    Case(
        "model path",
        "OSError: M is not a local folder and is not a valid model identifier listed on the hub",
        1, K.MODEL_MISSING, "load", "not a local folder", "HF_TOKEN",
    ),
    Case(
        "model offline",
        "    raise LocalEntryNotFoundError(\nhuggingface_hub.errors.LocalEntryNotFoundError: "
        "Cannot find the requested files in the disk cache\nOSError: We couldn't connect to it",
        1, K.MODEL_MISSING, "load", "huggingface_hub.errors.Local",
    ),
    Case(
        "gated model",
        "requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: x",
        1, K.MODEL_MISSING, "load", "401",
    ),
    Case(
        "EAGLE3 without a draft",
        f"{TO_CAPTURE}\n{TRACEBACK}\nAttributeError: 'LlamaForCausalLM' object has no attribute "
        "'hot_token_id'",
        137, K.DRAFT_MISMATCH, "load", "hot_token_id", "--speculative-draft-model-path",
    ),
    Case(
        "draft inherits the quantisation",
        f"{WEIGHTS_BEGIN}\n{TRACEBACK}\nValueError: Cannot find the config file for awq",
        -9, K.DRAFT_MISMATCH, "load", "awq", "unquant",
    ),
    Case(
        "draft of another model",
        f"{WEIGHTS_BEGIN}\n{TRACEBACK}\nKeyError: 'model.layers.1.mlp.gate_up_proj.weight'",
        -9, K.DRAFT_MISMATCH, "load", "gate_up_proj",
    ),
    Case(
        "NCCL",
        f"{TRACEBACK}\ntorch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1, "
        "ncclSystemError: System call failed",
        -9, K.NCCL, "parse", "ncclSystemError", "again",
    ),
    Case(
        "NCCL that says it has no memory",
        f"{WEIGHTS_BEGIN}\nncclUnhandledCudaError: Call failed. Last error:\nCuda failure 2 "
        "'out of memory'",
        -9, K.WEIGHTS_DO_NOT_FIT, "load", "Cuda failure",
    ),
    Case(
        "watchdog, new",
        f"{SERVING}\n[2026] Scheduler watchdog timeout (self.watchdog_timeout=300.0, soft=False)",
        -9, K.WATCHDOG, "serving", "watchdog timeout", "hung",
    ),
    Case(
        "watchdog, old",
        f"{SERVING}\nWatchdog timeout (self.watchdog_timeout=300)",
        -9, K.WATCHDOG, "serving", "Watchdog timeout",
    ),
    Case(
        "detokenizer is stuck",
        f"{SERVING}\nHealth check failed. Server couldn't get a response from detokenizer for last "
        "20 seconds.",
        None, K.HANG, "serving", "Health check failed",
    ),
    Case(
        "host memory",
        f"{WEIGHTS_BEGIN}\nRuntimeError: scheduler died during initialization (exit code: -9)",
        1, K.CRASHED, "load", "exit code: -9", "host's memory",
    ),
    Case(
        "shared memory",
        f"{WEIGHTS_BEGIN}\nOSError: [Errno 28] No space left on device",
        -9, K.CRASHED, "load", "No space left", "host",
    ),
    Case(
        "kernel bug",
        f"{SERVING}\n{TRACEBACK}\nRuntimeError: CUDA error: an illegal memory access",
        -9, K.CRASHED, "serving", "illegal memory access", "kernels",
    ),
    Case(
        "some exception",
        f"{SERVING}\n{TRACEBACK}\n  File 'x.py', line 1\nZeroDivisionError: by zero\n{SIGQUIT}",
        -9, K.CRASHED, "serving", "ZeroDivisionError", "traceback",
    ),
)  # fmt: skip


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_the_corpus_is_understood(case: Case) -> None:
    failure = diagnose(case.log, case.status, False)
    assert failure.kind is case.kind
    assert failure.stage == case.stage
    assert case.evidence in failure.evidence
    assert case.remedy in failure.remedy
    assert failure.remedy
    assert "{" not in failure.remedy
    assert diagnose(case.log.splitlines(), case.status, False) == failure


HEALTHY = (
    SERVER_ARGS,
    TO_START,
    "The server is fired up and ready to roll!",
    "[2026] Ignore import error when loading x: cannot import name 'y', CUDA out of memory",
    "[2026] KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.6",
    "[2026] Decode out of memory happened. #retracted_reqs: 1",
    '[2026] INFO:     127.0.0.1:60088 - "GET /health HTTP/1.1" 503 Service Unavailable',
)


@pytest.mark.parametrize("status", [-9, 137, -11, -15, 1, 0, None])
@pytest.mark.parametrize("n_lines", range(len(HEALTHY) + 1))
@pytest.mark.parametrize("ready", [True, False])
def test_a_healthy_log_never_blames_memory(status: int | None, n_lines: int, ready: bool) -> None:
    failure = diagnose("\n".join(HEALTHY[:n_lines]), status, ready)
    assert failure.kind is K.CRASHED
    assert failure.evidence
    assert failure.remedy


@pytest.mark.parametrize(
    ("status", "evidence", "remedy"),
    [
        (-9, "ended by SIGKILL", "no reason in its log"),
        (137, "ended by SIGKILL", "no reason in its log"),
        (-15, "ended by SIGTERM", "what stopped the server"),
        (139, "ended by SIGSEGV", "native code"),
        (3, "exit status 3", "read the end"),
        (-77, "ended by signal 77", "native code"),
        (None, "exit status unknown", "read the end"),
    ],
)
def test_an_ending_without_a_reason_is_told_as_it_is(
    status: int | None, evidence: str, remedy: str
) -> None:
    failure = diagnose("hello", status, True)
    assert failure.stage == "serving"
    assert evidence in failure.evidence and "hello" in failure.evidence
    assert remedy in failure.remedy


def test_a_server_that_was_told_to_stop_did_not_crash_by_itself() -> None:
    log = f"{SERVING}\nSIGTERM received. signum=None frame=None. Draining requests"
    failure = diagnose(log, -9, True)
    assert failure.stage == "stop"
    assert "what stopped the server" in failure.remedy


def test_after_ready_memory_is_a_run_time_matter_even_when_the_start_is_cut_off() -> None:
    assert diagnose(OOM, -9, True).kind is K.RUNTIME_OOM
    assert diagnose(OOM, -9, True).stage == "serving"


@pytest.mark.parametrize(
    ("log", "stage"),
    [
        ("", "parse"),
        (SERVER_ARGS, "parse"),
        (WEIGHTS_BEGIN, "load"),
        (TO_POOL, "pool"),
        (TO_CAPTURE, "capture"),
        (TO_START, "start"),
        (SERVING, "serving"),
    ],
)
def test_the_log_shows_how_far_the_start_got(log: str, stage: str) -> None:
    assert stage_of(log) == stage


def test_of_a_long_log_the_head_and_the_tail_are_read(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("first\n" + "x" * 100 + "\n")
    assert read_log(log) == log.read_text()
    log.write_text("first\n" + "filler line\n" * 300_000 + "last\n")
    text = read_log(log)
    assert text.startswith("first\n") and text.endswith("last\n")
    assert "bytes left out" in text
    assert len(text) < 1_400_000
    assert read_log(tmp_path / "absent") == ""


def test_the_last_words_are_the_last_line_that_says_something() -> None:
    assert last_words(f"loading\n\n{SIGQUIT}\n") == "loading"
    assert last_words("") == ""
