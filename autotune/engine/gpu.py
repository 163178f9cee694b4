"""What ``nvidia-smi`` tells of the GPUs: which there are, what their memory holds, who uses them.

The tool comes with the driver, so nothing has to be installed; without it nothing is known, and
nothing is checked.
"""

from __future__ import annotations

import csv
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_TIMEOUT_S = 10.0
_LEVEL_MB = 1024.0
"""Memory that may remain above the level before a launch: a context of another tool, rounding."""
_FOREIGN_FRAC = 0.05
"""Share of a GPU that others may use: a desktop takes some; SGLang sizes its pool by the rest."""
_POLL_S = 0.25

Run = Callable[[Sequence[str]], str]
"""Runs a command where the server will run; what it wrote, empty where it failed."""


def run_here(command: Sequence[str]) -> str:
    """Runs a command on this machine; see ``Run``."""
    try:
        told = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return told.stdout


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as it is now; memory in MiB."""

    index: int
    uuid: str
    name: str
    memory_mb: float
    used_mb: float


def visible_gpus(env: Mapping[str, str], run: Run = run_here) -> list[Gpu]:
    """The GPUs a process with this environment may use; empty where none is known."""
    rows = _query(run, "--query-gpu=index,uuid,name,memory.total,memory.used")
    try:
        gpus = [Gpu(int(i), uuid, name, float(m), float(u)) for i, uuid, name, m, u in rows]
    except ValueError:  # a GPU without memory of its own says [N/A]
        return []
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return gpus
    wanted = [word.strip() for word in visible.split(",") if word.strip()]
    return [g for g in gpus if any(w == str(g.index) or g.uuid.startswith(w) for w in wanted)]


def driver_version(run: Run = run_here) -> str | None:
    """Of the GPUs' driver; None where it is not known."""
    rows = _query(run, "--query-gpu=driver_version")
    return rows[0][0] if rows and len(rows[0]) == 1 else None


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A process that holds memory of a GPU."""

    pid: int
    name: str
    gpu: int
    used_mb: float

    def __str__(self) -> str:
        held = f"{self.used_mb / 1024:.1f} GB of GPU {self.gpu}"
        return f"{self.name} (process {self.pid}) holds {held}"


def foreign_users(gpus: list[Gpu], run: Run = run_here) -> list[GpuUser]:
    """Processes that hold so much of these GPUs that a server would find too little left."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    found = []
    for row in _query(run, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory"):
        uuid, pid, name, used = row[:4] if len(row) >= 4 else ("", "0", "", "")
        gpu = by_uuid.get(uuid)
        amount = float(used) if used.replace(".", "", 1).isdigit() else 0.0
        if gpu is not None and amount > _FOREIGN_FRAC * gpu.memory_mb:
            found.append(GpuUser(int(pid), name, gpu.index, amount))
    return found


class MemoryGate:
    """Waits until the GPUs hold no more than before a launch.

    The driver gives memory back a moment after the processes have ended; a launch in that moment
    finds too little and fails, or sizes a smaller KV pool than the trial before.

    Args:
        env: environment of the server.
        run: asks the machine whose GPUs they are.
    """

    def __init__(self, env: Mapping[str, str], run: Run = run_here) -> None:
        self._env = dict(env)
        self._run = run
        self._before = {gpu.uuid: gpu.used_mb for gpu in visible_gpus(env, run)}

    def wait(self, limit_s: float) -> list[Gpu]:
        """Polls until the level is reached or the time is up; the GPUs that are still above it."""
        if not self._before:
            return []
        deadline = time.monotonic() + limit_s
        while (above := self._above()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        return above

    def _above(self) -> list[Gpu]:
        gpus = visible_gpus(self._env, self._run)
        return [g for g in gpus if g.used_mb > self._before.get(g.uuid, g.used_mb) + _LEVEL_MB]


def _query(run: Run, query: str) -> list[list[str]]:
    """Rows of one ``nvidia-smi`` query; empty without the tool, or where it fails."""
    told = run(["nvidia-smi", query, "--format=csv,noheader,nounits"])
    return [row for row in csv.reader(told.splitlines(), skipinitialspace=True) if row]
