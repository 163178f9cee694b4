"""From the log of a server that failed to a ``Failure``: kind, stage, evidence, remedy, bound.

The log decides, not the exit status: SGLang ends itself with SIGKILL after nearly every failure
of a child, so −9 says little (``kill_process_tree``, 0.4.3 to 0.5.23).

Of all that a log complains about, the first cause counts: what ranks that were left alone say
later (NCCL, watchdogs, children that died) is a consequence. What a server survived is no failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from autotune.core.trial import Failure
from autotune.engine.sglang.causes import Diagnosis, Launch, last_words
from autotune.engine.sglang.logfile import LogLine, as_lines, may_matter, read_lines, read_log
from autotune.engine.sglang.signatures import DEATH, FIRED_UP
from autotune.engine.sglang.stages import walk
from autotune.errors import UsageError

__all__ = [
    "Diagnosis",
    "diagnose",
    "diagnose_file",
    "examine",
    "last_words",
    "read_log",
    "stage_of",
]

_NEW_LAUNCH = re.compile(r"^(?:\[\d{4}-[^]]*\] )?server_args=|^usage: ")
_ENDED = re.compile(r"^\S+(?: \S+)?: error: ")


def diagnose(log: str | Iterable[str], exit_status: int | None, ready: bool) -> Failure:
    """Why the server failed, of which it is known that it did.

    Args:
        log: text or lines of the log.
        exit_status: of the first process: negative or above 128 for a signal, None if unknown.
        ready: the server had answered requests before.
    """
    return _known(as_lines(log), exit_status, ready)


def diagnose_file(path: Path, exit_status: int | None, ready: bool) -> Failure:
    """As ``diagnose``, of a log of any size; one that cannot be read counts as empty."""
    try:
        with path.open("rb") as file:
            lines = read_lines(file, path.name)
    except (OSError, UsageError):
        lines = []
    return _known(lines, exit_status, ready)


def examine(
    lines: Sequence[LogLine],
    exit_status: int | None,
    *,
    ready: bool = False,
    failed: bool = False,
) -> Diagnosis | None:
    """What a log tells; None where it shows no failure and the exit status tells none.

    A log of several launches is that of the last one, unless that one is still on its way.

    Args:
        failed: it is known that the server failed, whatever it says.
    """
    failed = failed or exit_status not in (None, 0)
    launches = _launches(lines)
    last = Launch(walk(launches[-1], ready=ready), exit_status, failed=failed)
    if found := last.cause():
        return found
    if len(launches) > 1 and not last.fired_up:
        before = Launch(walk(launches[-2]), None, failed=False).cause()
        if before is not None:
            return before
    return last.ending() if failed else None


def _known(lines: Sequence[LogLine], exit_status: int | None, ready: bool) -> Failure:
    found = examine(lines, exit_status, ready=ready, failed=True)
    assert found is not None  # what failed has at least an ending
    return found.failure


def stage_of(log: str | Sequence[LogLine], *, ready: bool = False) -> str:
    """The last stage that the log shows: one of those of ``Failure.stage``."""
    lines = walk(as_lines(log) if isinstance(log, str) else log, ready=ready)
    return lines[-1].stage if lines else "parse"


def _launches(lines: Sequence[LogLine]) -> list[Sequence[LogLine]]:
    """The launches that follow each other in one log, as where a container is restarted."""
    starts, went_somewhere = [0], False
    for i, line in enumerate(lines):
        if not may_matter(line.text):
            continue
        if _NEW_LAUNCH.match(line.text):
            # Several nodes that start together also print their arguments one after the other.
            if went_somewhere:
                starts.append(i)
            went_somewhere = False
        elif DEATH.search(line.text) or FIRED_UP.search(line.text) or _ENDED.search(line.text):
            went_somewhere = True
    return [
        lines[start:stop] for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]
