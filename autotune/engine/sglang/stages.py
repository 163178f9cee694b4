"""How far the server had come at each line of its log, rank by rank."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from autotune.engine.sglang.logfile import LogLine
from autotune.engine.sglang.logtext import rank_of
from autotune.engine.sglang.signatures import (
    FIRED_UP,
    LIFE,
    NOISE,
    REQUEST_ERROR,
    SCHEDULER_EXCEPTION,
    TRACEBACK,
)

Block = Literal["", "scheduler", "uncaught", "survived"]

_OF_A_RANK = (
    ("load", re.compile(r"Load weight begin|Init (?:torch distributed|parallel) begin")),
    ("pool", re.compile(r"Load weight end")),
    ("capture", re.compile(r"Memory pool end|KV Cache is allocated|Capture .*graph.* begin")),
)
_OF_ALL = (
    # Printed by one rank, when all of them have captured their graphs.
    ("start", re.compile(r"\bmax_total_num_tokens=\d+, |Application startup complete")),
    ("serving", FIRED_UP),
    ("stop", re.compile(r"SIGTERM received|Gracefully exiting")),
)
_USED = re.compile(r"\"POST /v1/\S+ HTTP/[\d.]+\" 200")
_OWN_PREFIX = re.compile(r"^\[\d{4}-|^(?:INFO|WARNING|ERROR|CRITICAL):|^usage: ")


@dataclass(frozen=True, slots=True)
class Staged:
    """A line, and the stage of its rank there.

    Attributes:
        has_pool: the KV pool of the rank existed.
        block: the traceback it is in: of a scheduler, which ends the server; one nobody caught;
            or one the server wrote down and went on.
    """

    number: int
    text: str
    stage: str
    has_pool: bool
    block: Block


class _Walk:
    def __init__(self, *, ready: bool) -> None:
        self._ready = ready
        self._common = "serving" if ready else ""
        self._ranks: dict[str, tuple[str, bool]] = {}
        self._speaker = ""
        self._block: Block = ""
        self._last = ""

    def step(self, line: LogLine) -> Staged:
        text = line.text
        if _OWN_PREFIX.match(text):
            self._speaker = rank_of(text)
        self._mark(text)
        self._enter(text)
        stage, has_pool = self._ranks.get(self._speaker, self._ranks.get("", ("", False)))
        if self._speaker == "" and not stage and self._ranks:
            stage, has_pool = next(reversed(self._ranks.values()))
        found = Staged(
            line.number,
            text,
            self._common or stage or "parse",
            has_pool or bool(self._common),
            self._block,
        )
        self._last = text
        return found

    def _mark(self, text: str) -> None:
        if LIFE.search(text):
            # A log whose start is cut off: what handles batches has its pool and its graphs.
            if _USED.search(text) and self._common in ("", "start"):
                self._common = "serving"
            self._common = self._common or "start"
        if NOISE.search(text):
            return
        for stage, mark in _OF_ALL:
            if mark.search(text) and not (self._ready and stage != "stop"):
                self._common = stage
        if self._common:  # once it serves, a draft model that loads again changes nothing
            return
        for stage, mark in _OF_A_RANK:
            if mark.search(text):
                had_pool = self._ranks.get(self._speaker, ("", False))[1]
                self._ranks.pop(self._speaker, None)
                self._ranks[self._speaker] = (stage, had_pool or stage == "capture")

    def _enter(self, text: str) -> None:
        if SCHEDULER_EXCEPTION.search(text):
            self._block = "scheduler"
        elif TRACEBACK.match(text):
            if self._block == "" or _OWN_PREFIX.match(text):
                known = REQUEST_ERROR.search(self._last) and _OWN_PREFIX.match(self._last)
                self._block = "survived" if known else "uncaught"
        elif _OWN_PREFIX.match(text):
            # A message of a request error may go on over lines before its traceback.
            self._block = "survived" if REQUEST_ERROR.search(text) else ""


def walk(lines: Iterable[LogLine], *, ready: bool = False) -> list[Staged]:
    """The lines with the stage that was reached at each.

    Args:
        ready: the server had answered requests before the first line.
    """
    walker = _Walk(ready=ready)
    return [walker.step(line) for line in lines]
