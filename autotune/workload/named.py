"""Workloads by name."""

from __future__ import annotations

from pathlib import Path

from autotune.errors import WorkloadError, nearest
from autotune.workload.agentic import agentic, agentic_short
from autotune.workload.chat import chat
from autotune.workload.code_complete import code_complete
from autotune.workload.model import Workload

_BUILT_IN = {
    "agentic": agentic,
    "agentic-short": agentic_short,
    "chat": chat,
    "code-complete": code_complete,
}


def workload_named(name: str, *, seed: int = 0) -> Workload:
    """A built-in workload by its name, or the sessions of a file by its path.

    Args:
        name: a path if it holds a slash or a suffix, or if there is such a file.
        seed: of texts, and of the sample and the order of a file's sessions.

    Raises:
        WorkloadError: no workload has this name; or the file cannot be read, with file and line.
    """
    if name in _BUILT_IN:
        return _BUILT_IN[name](seed)
    if is_path(name):
        from autotune.workload.from_file import workload_from

        return workload_from(Path(name), seed=seed)
    raise unknown_workload(name)


def built_in_names() -> tuple[str, ...]:
    """The names of the built-in workloads, the default first."""
    return tuple(_BUILT_IN)


def is_path(name: str) -> bool:
    """Whether a name means a file."""
    path = Path(name)
    return "/" in name or path.suffix != "" or path.exists()


def unknown_workload(name: str) -> WorkloadError:
    """There is no workload of this name."""
    return WorkloadError(
        f"there is no workload named {name!r}: {nearest(name, _BUILT_IN)}",
        hint="a file of sessions works too; see: autotune workload list",
    )
