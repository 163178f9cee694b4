"""One launch in a log: the first cause of its failure, and what that means."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise

from autotune.core.trial import Bound, Failure, FailureKind
from autotune.engine.sglang import remedies as words
from autotune.engine.sglang.bounds import bound_of
from autotune.engine.sglang.logfile import as_lines, may_matter
from autotune.engine.sglang.signatures import (
    CAPTURE_FAILED,
    CAUSES,
    CONSEQUENCES,
    DEATH,
    EXCEPTION,
    FIRED_UP,
    HINTS,
    LIFE,
    NOISE,
    OUT_OF_MEMORY,
    SCHEDULER_EXCEPTION,
    STARTING,
    TRACEBACK,
    Signature,
)
from autotune.engine.sglang.stages import Staged

_EVIDENCE_CHARS = 400
_TRACEBACK_LINES = 60
_WENT_ON, _GOES_ON = 20, 3
"""So many batches and answers later, an error was not the end. Other ranks finish a few, so it
takes more of them where the server is known to have died."""
_HOLE = 200
"""Lines that the reader left out were ordinary ones: the server went on."""

_POOL_ALLOCATION = re.compile(r"memory_pool\.py|_create_buffers|init_kv_cache")
_FRAMES = (
    ("capture", re.compile(r"cuda_graph_runner\.py|graph_capture|capture_one_batch_size")),
    ("pool", _POOL_ALLOCATION),
    ("load", re.compile(r"model_loader|load_weights|load_model\b")),
    ("serving", re.compile(r"\bevent_loop_|in forward_batch_generation")),
)
"""For a traceback alone, without the lines of a start before it: where its frames are."""

_CHAIN = re.compile(r"^(?:The above exception was|During handling of the above)")
_ARGUMENT_FRAME = re.compile(r"server_args\.py\", line|arg_groups/\w+\.py\", line")
_REJECTION = re.compile(r"\b(?:Value|Assertion|NotImplemented|Type)Error\b")
_SHAPES = re.compile(r"shapes cannot be multiplied|must match the size of tensor")
_DRAFT_FRAME = re.compile(r"models/\w*(?:eagle|nextn|mtp)\w*\.py\", line")
"""Shapes that do not fit inside a draft model: its hidden states are those of another target."""
_ECHO = re.compile(
    r"(?:EOF|BrokenPipe|ConnectionReset|ConnectionRefused)Error|Please see the error messages above"
)
"""What the other processes say when one has died."""
_STAGES = ("parse", "load", "pool", "capture", "start", "serving", "stop")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a log tells of a failure.

    Attributes:
        line: number of the line of the evidence; None where that is how the process ended.
    """

    failure: Failure
    line: int | None


@dataclass(frozen=True, slots=True)
class _Found:
    """A line that tells of a failure."""

    at: int
    failure: Failure
    tentative: bool


class Launch:
    """One launch in a log."""

    def __init__(self, lines: list[Staged], exit_status: int | None, *, failed: bool) -> None:
        self._lines = lines
        self._status = exit_status
        self._failed = failed
        self._matter = [i for i, line in enumerate(lines) if may_matter(line.text)]
        self._deaths = [
            i for i in self._matter
            if lines[i].stage != "stop" and DEATH.search(lines[i].text)
        ]  # fmt: skip
        self._fired = [i for i in self._matter if FIRED_UP.search(lines[i].text)]
        arguments = (lines[i].text for i in self._matter if "server_args=" in lines[i].text)
        self._arguments = next(arguments, "")

    @property
    def fired_up(self) -> bool:
        return bool(self._fired)

    def cause(self) -> Diagnosis | None:
        """The first cause of a failure that the log shows; None where it shows none."""
        if self._ended_by_request():
            tables = [self._causes()]
        else:
            tables = [self._causes(), self._consequences(), self._table(HINTS)]
        for only_sure in (True, False):
            for found in tables:
                for each in sorted(found, key=lambda f: f.at):
                    if each.tentative != only_sure and not self._survived(each):
                        return Diagnosis(each.failure, self._lines[each.at].number)
            if not self._failed and not self._deaths:
                break
        if self._deaths and not self._failed:
            return self._bare_death()
        return None

    def ending(self) -> Diagnosis:
        """All that can be said where the log gives no reason: how the process ended."""
        lines = self._lines
        stage = lines[-1].stage if lines else "parse"
        said = last_words("\n".join(line.text for line in lines[-_TRACEBACK_LINES:]))
        if self._status == 2 and any(line.text.startswith("usage: ") for line in lines):
            return Diagnosis(Failure(FailureKind.BAD_FLAG, "parse", said, words.CORRECT_FLAG), None)
        signum = _signal_of(self._status)
        if stage == "stop" or signum == signal.SIGTERM:
            remedy = words.TOLD_TO_STOP
        elif signum == signal.SIGKILL:
            remedy = words.KILLED
        else:
            remedy = words.NATIVE_CRASH if signum is not None else words.END_OF_LOG
        how = _ending(self._status)
        evidence = f"{how}; last line: {said}" if said else f"{how}; the log is empty"
        failure = Failure(FailureKind.CRASHED, stage, evidence[:_EVIDENCE_CHARS], remedy)
        return Diagnosis(failure, None)

    # ---- what the log complains about ---------------------------------------------------------

    def _causes(self) -> list[_Found]:
        found = self._table(CAUSES)
        captures = [i for i in self._matter if CAPTURE_FAILED.search(self._lines[i].text)]
        for i in self._matter:
            if OUT_OF_MEMORY.search(self._lines[i].text) and self._counts(i):
                failed_here = any(i <= at <= i + _TRACEBACK_LINES for at in captures)
                found.append(self._found(i, self._out_of_memory(i, capture_failed=failed_here)))
        return found

    def _consequences(self) -> list[_Found]:
        found = self._table(CONSEQUENCES)
        told = {each.at for each in (*found, *self._table(HINTS))}
        for block in self._tracebacks():
            raised = [i for i in block if EXCEPTION.match(self._lines[i].text) and self._counts(i)]
            if raised and told.isdisjoint(block):
                echo = _ECHO.search(self._lines[raised[-1]].text) is not None
                each = self._found(raised[-1], self._raised(raised[-1], block))
                found.append(replace(each, tentative=each.tentative or echo))
        return found

    def _table(self, table: Sequence[Signature]) -> list[_Found]:
        found = []
        for i in self._matter:
            line = self._lines[i]
            signature = next((s for s in table if s.matches(line.text, line.stage)), None)
            if signature is not None and self._counts(i):
                found.append(self._found(i, self._signed(i, signature)))
        return found

    def _counts(self, i: int) -> bool:
        return NOISE.search(self._lines[i].text) is None

    def _found(self, i: int, failure: Failure) -> _Found:
        # Who lost a request is told, although the server goes on.
        lost = failure.kind is FailureKind.REQUEST_ABORTED
        return _Found(i, failure, self._lines[i].block == "survived" and not lost)

    def _tracebacks(self) -> list[range]:
        """The lines of each traceback that ended something."""
        starts = [
            i for i in self._matter
            if SCHEDULER_EXCEPTION.search(self._lines[i].text)
            or (TRACEBACK.match(self._lines[i].text) and not self._chained(i))
        ]  # fmt: skip
        blocks = []
        for start in starts:
            stop = start + 1
            block = self._lines[start].block
            while (
                stop < len(self._lines) and self._lines[stop].block == block and stop not in starts
            ):
                stop += 1
            blocks.append(range(start, stop))
        return blocks

    def _chained(self, i: int) -> bool:
        """Whether this traceback goes on with the one before ("During handling of …")."""
        return i > 0 and _CHAIN.match(self._lines[i - 1].text) is not None

    def _survived(self, found: _Found) -> bool:
        """Whether the server went on as if nothing had been."""
        if found.failure.kind is FailureKind.REQUEST_ABORTED:
            return False  # the request did not survive
        at, line = found.at, self._lines[found.at]
        if self._fired and self._fired[-1] > at:
            return True
        reached = _STAGES.index(self._lines[-1].stage)
        if line.block == "uncaught" and not self._failed and reached > _STAGES.index(line.stage):
            return True
        death = next((i for i in self._deaths if i > at), None)
        n_alive = self._signs_of_life(at, len(self._lines) if death is None else death)
        may_be_fatal = line.block in ("scheduler", "uncaught") and self._failed
        return n_alive >= (_WENT_ON if death is not None or may_be_fatal else _GOES_ON)

    def _signs_of_life(self, start: int, stop: int) -> int:
        lines = self._lines[start:stop]
        holes = sum(b.number - a.number > _HOLE for a, b in pairwise(lines))
        return sum(bool(LIFE.search(line.text)) for line in lines) + holes * _WENT_ON

    def _ended_by_request(self) -> bool:
        return bool(self._lines) and self._lines[-1].stage == "stop"

    def _bare_death(self) -> Diagnosis:
        line = self._lines[self._deaths[0]]
        failure = Failure(FailureKind.CRASHED, line.stage, _short(line.text), words.END_OF_LOG)
        return Diagnosis(failure, line.number)

    # ---- what it means ------------------------------------------------------------------------

    def _signed(self, i: int, signature: Signature) -> Failure:
        line = self._lines[i]
        bound = self._bound(i, signature.kind)
        remedy = signature.remedy
        if signature.kind is FailureKind.BAD_FLAG:
            remedy += self._nearest_flag(line.text)
        remedy = remedy.replace("{above}", f" above {bound.value:g}" if bound else "")
        remedy = remedy.replace("{most}", f" = {bound.value:g}" if bound else "")
        stage = signature.stage or self._stage(i)
        return Failure(signature.kind, stage, _short(line.text), remedy, bound)

    def _stage(self, i: int) -> str:
        """The stage at a line; where the log tells none, that of the frames before it."""
        stage = self._lines[i].stage
        if stage != "parse" or self._lines[i].block == "":
            return stage
        return _stage_of_frames([e.text for e in self._lines[max(0, i - _TRACEBACK_LINES) : i]])

    def _bound(self, i: int, kind: FailureKind) -> Bound | None:
        return bound_of(kind, [line.text for line in self._lines[i : i + 4]], self._arguments)

    def _out_of_memory(self, i: int, *, capture_failed: bool) -> Failure:
        """GPU memory: which wall it was depends on where it happened."""
        line = self._lines[i]
        before = [each.text for each in self._lines[max(0, i - _TRACEBACK_LINES) : i]]
        stage = self._stage(i)
        kind, remedy = FailureKind.RUNTIME_OOM, words.LOWER_AT_RUN_TIME
        if stage in ("start", "serving", "stop"):
            pass
        elif capture_failed or stage == "capture":
            kind, stage = FailureKind.GRAPH_CAPTURE_OOM, "capture"
            remedy = words.LOWER_AT_CAPTURE
        elif line.has_pool:
            # Before 0.5.14 the draft model was loaded after the target's pool was taken (#6875).
            remedy = words.LOWER_FOR_DRAFT
        elif stage == "pool" and any(_POOL_ALLOCATION.search(text) for text in before):
            remedy = words.LOWER_AT_POOL
        else:
            kind, stage = FailureKind.WEIGHTS_DO_NOT_FIT, "load"
            remedy = words.WEIGHTS_TOO_LARGE
        return Failure(kind, stage, _short(line.text), remedy)

    def _raised(self, i: int, block: range) -> Failure:
        """An exception that no signature knows."""
        line = self._lines[i]
        of_draft = any(_DRAFT_FRAME.search(self._lines[j].text) for j in block)
        if of_draft and line.stage in STARTING and _SHAPES.search(line.text):
            kind, stage = FailureKind.DRAFT_MISMATCH, self._stage(i)
            return Failure(kind, stage, _short(line.text), words.OTHER_DRAFT)
        if CAPTURE_FAILED.search(line.text):
            return Failure(FailureKind.CRASHED, "capture", _short(line.text), words.CAPTURE_FAILED)
        of_arguments = any(_ARGUMENT_FRAME.search(self._lines[j].text) for j in block)
        at_parse = line.stage == "parse" and all(each.stage == "parse" for each in self._lines)
        if (of_arguments or at_parse) and _REJECTION.search(line.text):
            remedy = words.OTHER_BEFORE_LOAD
            if re.fullmatch(r".*AssertionError:?", line.text):
                # speculative_hook.py:1159 @0.5.23 asserts without a word.
                remedy += f"; {words.ALL_OR_NONE}"
            kind = FailureKind.REJECTED_COMBINATION
            bound = self._bound(i, kind)
            return Failure(kind, "parse", _short(line.text), remedy, bound)
        return Failure(FailureKind.CRASHED, self._stage(i), _short(line.text), words.TRACEBACK)

    def _nearest_flag(self, text: str) -> str:
        """The flag of the printed usage that was probably meant."""
        wrong = re.search(r"unrecognized arguments:.*?(--[\w-]+)", text)
        if wrong is None:
            return ""
        usage = "\n".join(line.text for line in self._lines if "error:" not in line.text)
        close = get_close_matches(wrong[1], set(re.findall(r"--[a-z0-9][a-z0-9-]+", usage)), n=1)
        return f": did you mean {close[0]}?" if close else ""


def last_words(log: str) -> str:
    """The last line of the log that says something; empty where there is none."""
    said = (line.text for line in reversed(as_lines(log)))
    return next((_short(text) for text in said if _says(text)), "")


def _stage_of_frames(before: Sequence[str]) -> str:
    for text in reversed(before):
        for stage, frame in _FRAMES:
            if frame.search(text):
                return stage
    return "parse"


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
