"""From the log of a server that failed to a ``Failure``: kind, stage, evidence, remedy.

The log decides, not the exit status: SGLang ends itself with SIGKILL after nearly every failure
of a child, so −9 says little (``kill_process_tree``, 0.4.3 to 0.5.23).
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from autotune.core.trial import Failure, FailureKind
from autotune.engine.sglang.signatures import (
    CAPTURE_FAILED,
    EXCEPTION,
    KILLED,
    LATER_SIGNATURES,
    LOWER_AT_CAPTURE,
    LOWER_AT_POOL,
    LOWER_AT_RUN_TIME,
    LOWER_FOR_DRAFT,
    NATIVE_CRASH,
    NOISE,
    OUT_OF_MEMORY,
    RAISE_ABOVE,
    SERVING_OUT_OF_MEMORY,
    SIGNATURES,
    TOLD_TO_STOP,
    WEIGHTS_TOO_LARGE,
    Signature,
)

_HEAD_BYTES = 256 * 1024
_TAIL_BYTES = 1024 * 1024
_EVIDENCE_CHARS = 400

_STAGE_MARKS = (
    ("load", re.compile(r"Load weight begin|Init (?:torch distributed|parallel) begin")),
    ("pool", re.compile(r"Load weight end")),
    ("capture", re.compile(r"Memory pool end|KV Cache is allocated|Capture \w.*graph.* begin")),
    ("start", re.compile(r"\bmax_total_num_tokens=\d+, ")),
    ("serving", re.compile(r"The server is fired up and ready to roll")),
    ("stop", re.compile(r"SIGTERM received")),
)
_POOL_ALLOCATION = re.compile(r"memory_pool\.py|_create_buffers|init_kv_cache")
_TRACEBACK_LINES = 60


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the log, the stage the server had reached there, and whether its pool existed."""

    text: str
    stage: str
    has_pool: bool


def diagnose(log_tail: str | Iterable[str], exit_status: int | None, ready: bool) -> Failure:
    """Why the server failed.

    Args:
        log_tail: text or lines of the log, as ``read_log`` gives them.
        exit_status: of the first process: negative or above 128 for a signal, None if unknown.
        ready: the server had answered requests before.
    """
    lines = _staged(log_tail, ready)
    for found in (
        _by_table(SIGNATURES, lines),
        _out_of_memory(lines),
        _by_table(LATER_SIGNATURES, lines),
        _capture_without_memory(lines),
        _rejected(lines),
    ):
        if found is not None:
            return found
    return _crashed(lines, exit_status, ready)


def stage_of(log: str | Iterable[str], *, ready: bool = False) -> str:
    """The last stage that the log shows: one of those of ``Failure.stage``."""
    lines = _staged(log, ready)
    return lines[-1].stage if lines else "parse"


def last_words(log: str) -> str:
    """The last line of the log that says something; empty where there is none."""
    return next((_short(text) for text in reversed(log.splitlines()) if _says(text)), "")


def read_log(path: Path) -> str:
    """The first 256 kB and the last 1 MB of a log; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = file.seek(0, 2)
            file.seek(max(len(head), size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
            skipped = size - len(head) - len(tail)
    except OSError:
        return ""
    middle = f"\n... {skipped} bytes left out ...\n".encode() if skipped > 0 else b""
    return (head + middle + tail).decode(errors="replace")


def _staged(log: str | Iterable[str], ready: bool) -> list[_Line]:
    texts = log.splitlines() if isinstance(log, str) else log
    stage, has_pool = "serving" if ready else "parse", ready
    lines = []
    for text in texts:
        for name, mark in _STAGE_MARKS:
            if mark.search(text) and not NOISE.search(text):
                has_pool = has_pool or name in ("capture", "start", "serving")
                # Once it serves, a draft model that loads again changes nothing.
                if not ready or name == "stop":
                    stage = name
        lines.append(_Line(text.rstrip(), stage, has_pool))
    return lines


def _by_table(table: Sequence[Signature], lines: list[_Line]) -> Failure | None:
    for signature in table:
        for i, line in enumerate(lines):
            if signature.pattern.search(line.text) and not NOISE.search(line.text):
                following = "\n".join(each.text for each in lines[i : i + 3])
                remedy = _remedy(signature, line.text, following, lines)
                stage = signature.stage or line.stage
                return Failure(signature.kind, stage, _short(line.text), remedy)
    return None


def _remedy(signature: Signature, line: str, following: str, lines: list[_Line]) -> str:
    if signature.kind is FailureKind.BAD_FLAG:
        return signature.remedy + _nearest_flag(line, lines)
    bound = RAISE_ABOVE.search(following)
    return signature.remedy.replace("{above}", f" above {bound[1]}" if bound else "")


def _nearest_flag(line: str, lines: list[_Line]) -> str:
    """The flag of the printed usage that was probably meant."""
    wrong = re.search(r"unrecognized arguments:.*?(--[\w-]+)", line)
    if wrong is None:
        return ""
    usage = "\n".join(each.text for each in lines if "error:" not in each.text)
    close = get_close_matches(wrong[1], set(re.findall(r"--[a-z0-9][a-z0-9-]+", usage)), n=1)
    return f": did you mean {close[0]}?" if close else ""


def _out_of_memory(lines: list[_Line]) -> Failure | None:
    """GPU memory: which wall it was depends on where it happened."""
    capture_failed = any(CAPTURE_FAILED.search(line.text) for line in lines)
    for i, line in enumerate(lines):
        if SERVING_OUT_OF_MEMORY.search(line.text) and line.has_pool:
            return _memory(FailureKind.RUNTIME_OOM, line, LOWER_AT_RUN_TIME)
        if not OUT_OF_MEMORY.search(line.text) or NOISE.search(line.text):
            continue
        if line.stage in ("start", "serving", "stop"):
            return _memory(FailureKind.RUNTIME_OOM, line, LOWER_AT_RUN_TIME)
        if capture_failed or line.stage == "capture":
            return _memory(FailureKind.GRAPH_CAPTURE_OOM, line, LOWER_AT_CAPTURE, "capture")
        if line.has_pool:
            # Before 0.5.14 the draft model was loaded after the target's pool was taken (#6875).
            return _memory(FailureKind.RUNTIME_OOM, line, LOWER_FOR_DRAFT)
        before = lines[max(0, i - _TRACEBACK_LINES) : i]
        if line.stage == "pool" and any(_POOL_ALLOCATION.search(each.text) for each in before):
            return _memory(FailureKind.RUNTIME_OOM, line, LOWER_AT_POOL)
        return _memory(FailureKind.WEIGHTS_DO_NOT_FIT, line, WEIGHTS_TOO_LARGE, "load")
    return None


def _memory(kind: FailureKind, line: _Line, remedy: str, stage: str | None = None) -> Failure:
    return Failure(kind, stage or line.stage, _short(line.text), remedy)


def _capture_without_memory(lines: list[_Line]) -> Failure | None:
    for line in lines:
        if CAPTURE_FAILED.search(line.text):
            remedy = (
                "read the traceback above: the capture of CUDA graphs failed for another reason "
                "than memory, often a kernel that cannot be built or does not fit this backend"
            )
            return Failure(FailureKind.CRASHED, "capture", _short(line.text), remedy)
    return None


def _rejected(lines: list[_Line]) -> Failure | None:
    """SGLang's own resolution of the flags raised: a traceback before anything is loaded."""
    raised = [line for line in lines if line.stage == "parse" and EXCEPTION.match(line.text)]
    if not raised or any(line.stage != "parse" for line in lines):
        return None
    last = raised[-1].text
    if not re.search(r"\b(?:Value|Assertion|NotImplemented|Type)Error\b", last):
        return None
    remedy = "choose another combination: SGLang refuses this one before it loads anything"
    if re.fullmatch(r".*AssertionError:?", last):
        # speculative_hook.py:1159 @0.5.23 asserts without a word.
        remedy += (
            "; speculative_num_steps, speculative_eagle_topk and speculative_num_draft_tokens go "
            "together"
        )
    return Failure(FailureKind.REJECTED_COMBINATION, "parse", _short(last), remedy)


def _crashed(lines: list[_Line], exit_status: int | None, ready: bool) -> Failure:
    stage = lines[-1].stage if lines else "serving" if ready else "parse"
    words = last_words("\n".join(line.text for line in lines[-_TRACEBACK_LINES:]))
    raised = [line for line in lines if EXCEPTION.match(line.text) and not NOISE.search(line.text)]
    if exit_status == 2 and any(line.text.startswith("usage: ") for line in lines):
        remedy = "correct the flags for this version of SGLang"
        return Failure(FailureKind.BAD_FLAG, "parse", words, remedy)
    if raised:
        remedy = "read the traceback in the log; a second launch tells whether the flags cause it"
        return Failure(FailureKind.CRASHED, raised[-1].stage, _short(raised[-1].text), remedy)
    signum = _signal_of(exit_status)
    if stage == "stop" or signum == signal.SIGTERM:
        remedy = TOLD_TO_STOP
    elif signum == signal.SIGKILL:
        remedy = KILLED
    else:
        remedy = NATIVE_CRASH if signum is not None else "read the end of the log"
    ending = _ending(exit_status)
    evidence = f"{ending}; last line: {words}" if words else f"{ending}; the log is empty"
    return Failure(FailureKind.CRASHED, stage, evidence[:_EVIDENCE_CHARS], remedy)


def _ending(exit_status: int | None) -> str:
    if exit_status is None:
        return "exit status unknown"
    signum = _signal_of(exit_status)
    if signum is None:
        return f"exit status {exit_status}"
    try:
        return f"ended by {signal.Signals(signum).name}"
    except ValueError:
        return f"ended by signal {signum}"


def _signal_of(exit_status: int | None) -> int | None:
    """The signal that ended the process, as Popen (−9) or as a shell (137) reports it."""
    if exit_status is None or 0 <= exit_status <= 128:
        return None
    return -exit_status if exit_status < 0 else exit_status - 128


def _says(text: str) -> bool:
    return bool(text.strip()) and not NOISE.search(text)


def _short(text: str) -> str:
    return text.strip()[:_EVIDENCE_CHARS]
