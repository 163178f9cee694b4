"""Workloads by name."""

from __future__ import annotations

from autotune.errors import WorkloadError, nearest
from autotune.workload.agentic import agentic, agentic_short
from autotune.workload.model import Workload

_BUILT_IN = {"agentic": agentic, "agentic-short": agentic_short}


def workload_named(name: str, *, seed: int = 0) -> Workload:
    """A built-in workload by name.

    Raises:
        WorkloadError: no workload has this name.
    """
    try:
        return _BUILT_IN[name](seed)
    except KeyError:
        raise WorkloadError(
            f"there is no workload named {name!r}: {nearest(name, _BUILT_IN)}"
        ) from None
