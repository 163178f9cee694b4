"""One trial: launch, measure every load on that launch, stop; one record comes back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import autotune
from autotune.core.objective import Slo, objective_values, violations
from autotune.core.trial import Caveat, Failure, Flags, FlagValue, Phase, TrialRecord
from autotune.engine.attached import served_model
from autotune.engine.base import Engine, LaunchFailed, RunningServer
from autotune.events import Listener, PhaseMeasured, PhaseProgress, StageReached
from autotune.measure.client import Endpoint
from autotune.measure.phase import PhasePlan, measure_phase
from autotune.measure.validity import ServerLimits, caveats, fatal
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from autotune.workload.model import Workload

TrialRole = Literal["search", "baseline", "replicate"]


class ServerDied(Exception):
    """The server ended while it was measured."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.evidence)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Measures configurations on an engine. The engine may keep per-study state; this does not.

    Attributes:
        searched: flags to complete from what the server reports, where a trial leaves them out.
    """

    engine: Engine
    workload: Workload
    plans: Sequence[PhasePlan]
    slos: Sequence[Slo]
    searched: Sequence[str]
    listener: Listener

    def evaluate(
        self, flags: Flags, *, number: int, directory: Path, role: TrialRole
    ) -> TrialRecord:
        """The record of one launch, complete or failed.

        Raises:
            LaunchError: the launch command cannot be run at all.
            Interrupted: a signal came; the server is stopped by then.
        """
        began = time.monotonic()
        try:
            server = self.engine.launch(
                flags,
                directory=directory,
                number=number,
                announce=lambda text: self.listener(StageReached(number, "launching", text)),
            )
        except LaunchFailed as failed:
            return TrialRecord(
                number=number,
                status="failed",
                role=role,
                flags=dict(flags),
                failure=failed.failure,
                timings={
                    "launch_s": failed.launch_s,
                    "wall_s": time.monotonic() - began,
                },
                versions={"autotune": autotune.__version__},
            )
        phases: list[Phase] = []
        failure: Failure | None = None
        measured = time.monotonic()
        with server:
            self.listener(StageReached(number, "ready"))
            try:
                for phase in measure(server, self.workload, self.plans, listener=self.listener):
                    phases.append(phase)
                    failure = failure or fatal(phases[-1])
            except ServerDied as died:
                failure = died.failure
            measure_s = (time.monotonic() - measured) * server.time_scale
            self.listener(StageReached(number, "stopping"))
            stop_s = server.stop()
        timings = {
            "launch_s": server.launch_s,
            "measure_s": measure_s,
            "stop_s": stop_s,
            "wall_s": time.monotonic() - began,
        }
        return self._record(server, flags, phases, failure, timings, number, role)

    def _record(
        self,
        server: RunningServer,
        flags: Flags,
        phases: list[Phase],
        failure: Failure | None,
        timings: dict[str, float],
        number: int,
        role: TrialRole,
    ) -> TrialRecord:
        warnings = caveats(phases, limits_of(server.effective))
        warnings += _silent_changes(flags, server.effective)
        constraints = {} if failure else dict(violations(self.slos, phases))
        feasible = all(value <= 0 for value in constraints.values())
        return TrialRecord(
            number=number,
            status="failed" if failure else "complete" if feasible else "infeasible",
            role=role,
            flags=self._completed(flags, server.effective),
            effective=server.effective,
            phases=phases,
            objectives=None if failure else objective_values(phases),
            constraints=constraints,
            failure=failure,
            warnings=warnings,
            timings=timings,
            machine=server.machine,
            versions=server.versions | {"autotune": autotune.__version__},
        )

    def _completed(self, flags: Flags, effective: Mapping[str, object]) -> dict[str, FlagValue]:
        """The flags with what the server chose by itself, as a baseline may leave flags out."""
        completed = dict(flags)
        for name in self.searched:
            value = effective.get(name)
            if name not in completed and isinstance(value, int | float | str | bool):
                completed[name] = value
        return completed


def measure(
    server: RunningServer,
    workload: Workload,
    plans: Iterable[PhasePlan],
    *,
    listener: Listener,
    model: str | None = None,
) -> Iterator[Phase]:
    """Measures phase after phase on one server.

    Args:
        model: name sent in the requests; None: what the server says it serves.

    Raises:
        ServerDied: the server ended meanwhile.
    """
    name = model or served_model(server.url, server.api_key)
    endpoint = Endpoint(
        server.url, name, server.api_key, server.time_scale, _context_tok(server.effective)
    )

    def check() -> None:
        failure = server.failure()
        if failure is not None:
            raise ServerDied(failure)

    for plan in plans:

        def progress(share: float, concurrency: int = plan.concurrency) -> None:
            listener(PhaseProgress(concurrency, share))

        phase = measure_phase(endpoint, workload, plan, check=check, progress=progress)
        check()
        listener(PhaseMeasured(phase))
        yield phase


def limits_of(effective: Mapping[str, Any]) -> ServerLimits:
    """What the server reports of its limits, for judging what was measured on it."""
    steps, draft = effective.get(STEPS), effective.get(DRAFT)
    longest = min(steps + 1, draft) if isinstance(steps, int) and isinstance(draft, int) else None
    return ServerLimits(
        running=effective.get("max_running_requests"),
        graph_batch=effective.get("cuda_graph_max_bs"),
        accept_length=longest,
    )


def _context_tok(effective: Mapping[str, object]) -> int | None:
    """Tokens one request may hold: the context length, or the whole KV pool where that is less."""
    limits = [effective.get(name) for name in ("context_len", "max_total_num_tokens")]
    known = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    return min(known, default=None)


_PINNED = (STEPS, TOPK, DRAFT, MEMORY)


def _silent_changes(flags: Flags, effective: Mapping[str, object]) -> list[Caveat]:
    """What was asked for and what really ran, where they differ."""
    return [
        Caveat("silent_change", f"asked for {name} {flags[name]}, the server runs {ran}")
        for name in _PINNED
        if name in flags and (ran := effective.get(name)) is not None and ran != flags[name]
    ]
