"""One trial: launch, measure every load on that launch, stop; one record comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs

import autotune
from autotune.core.objective import Slo, broken_for_good, objective_values, violations
from autotune.core.trial import (
    Caveat,
    Failure,
    FailureKind,
    Flags,
    FlagValue,
    Phase,
    Status,
    TrialRecord,
    TrialRole,
)
from autotune.engine.attached import served_model
from autotune.engine.base import Engine, LaunchFailed, RunningServer
from autotune.engine.sglang.environment import EFFECTIVE_FAKE
from autotune.events import Listener, PhaseMeasured, PhaseProgress, StageReached
from autotune.measure.client import Endpoint
from autotune.measure.metrics import Limits
from autotune.measure.phase import measure_phase
from autotune.measure.plan import PhasePlan
from autotune.measure.prompt import Api
from autotune.measure.validity import ServerLimits, caveats, fatal
from autotune.space.rules import DRAFT, STEPS
from autotune.space.server_rules import ADAPTIVE
from autotune.study.reference import Reference, without_speculation
from autotune.study.twins import changes, twin_of
from autotune.workload.model import Workload

STALL_S = 60.0
TRIAL_S = 1800.0
"""Five times what the three usual phases take at most when answers do not take minutes each."""
_AFTER_A_HANG = "what was measured before holds; see the last lines of the server log"

Prune = Callable[[TrialRecord], str | None]
"""Asked after the first phase, with the record so far: why the others are not worth their minutes,
in words; None: they are."""


class CutShort(Exception):
    """Measuring ended early; phases that were done before are not lost."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.evidence)
        self.failure = failure


class ServerDied(CutShort):
    """The server ended while it was measured."""


class OutOfTime(CutShort):
    """The time for the phases of a launch is over, and answers still come."""


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Measures configurations on an engine. The engine may keep per-study state; this does not.

    Attributes:
        searched: flags to complete from what the server reports, where a trial leaves them out.
        base: flags that the launch command itself gives in every trial.
        stall_s: wall seconds without a byte of any answer after which the server counts as hung.
        limit_s: wall seconds that all phases of a launch may take.
        off: how a trial with the role ``reference`` is launched.
    """

    engine: Engine
    workload: Workload
    plans: Sequence[PhasePlan]
    slos: Sequence[Slo]
    searched: Sequence[str]
    listener: Listener
    stall_s: float = STALL_S
    limit_s: float = TRIAL_S
    base: Flags = field(default_factory=dict)
    off: Reference | None = None

    def evaluate(
        self,
        flags: Flags,
        *,
        number: int,
        directory: Path,
        role: TrialRole,
        reference: Sequence[Phase] = (),
        earlier: Sequence[TrialRecord] = (),
        prune: Prune | None = None,
    ) -> TrialRecord:
        """The record of one launch, complete, pruned or failed.

        Args:
            reference: phases of the baseline under the same load, to hold this launch against.
            earlier: records of the study: where one of them measured the very server that these
                flags lead to, nothing is measured, and the record refers to it.
            prune: whether to leave the later phases out; None: never.

        Raises:
            LaunchError: the launch command cannot be run at all.
            Interrupted: a signal came; the server is stopped by then.
        """
        began = time.monotonic()
        off = self.off if role == "reference" else None
        base = without_speculation(self.base) if off else self.base
        try:
            server = self.engine.launch(
                off.launched if off else flags,
                directory=directory,
                number=number,
                announce=lambda text: self.listener(StageReached(number, "launching", text)),
            )
        except LaunchFailed as failed:
            return _never_ready(failed, flags, number, role, time.monotonic() - began)
        with server:
            twin = twin_of(flags, server.effective, base, earlier)
            told = self._so_far(server, flags, number, role, twin)
            phases, failure, timings, pruned = self._measured(server, told, prune)
        timings["wall_s"] = time.monotonic() - began
        whole = failure is None and twin is None and not pruned
        constraints = dict(twin.constraints) if twin else {}
        if whole or pruned:
            judged = violations if whole else broken_for_good
            constraints = dict(judged(self.slos, phases))
        return structs.replace(
            told,
            status=_status(failure, pruned, constraints),
            phases=phases,
            objectives=objective_values(phases) if whole else None,
            constraints=constraints,
            failure=failure,
            pruned=pruned,
            warnings=[
                *caveats(phases, limits_of(server.effective), reference),
                *silent_changes({**base, **flags}, server.effective),
                *_stop_caveats(server),
            ],
            timings=timings,
        )

    def _so_far(
        self,
        server: RunningServer,
        flags: Flags,
        number: int,
        role: TrialRole,
        twin: TrialRecord | None,
    ) -> TrialRecord:
        """The record of a launch that is ready and has measured nothing yet."""
        is_off = self.off is not None and role == "reference"
        return TrialRecord(
            number=number,
            status="pruned",
            role=role,
            flags=dict(flags) if is_off else self._completed(flags, server.effective),
            effective=server.effective,
            machine=server.machine,
            versions=server.versions | {"autotune": autotune.__version__},
            same_as=twin.number if twin else None,
        )

    def _measured(
        self, server: RunningServer, told: TrialRecord, prune: Prune | None
    ) -> tuple[list[Phase], Failure | None, dict[str, float], str]:
        """Every phase until one is worthless or shows that the others are, then the stop.

        No phase at all where a twin was measured.

        Args:
            told: the record as far as it is known before anything is measured.

        Returns:
            The phases, what went wrong, server seconds, and why later phases were left out.
        """
        phases: list[Phase] = []
        failure: Failure | None = None
        number, pruned = told.number, ""
        began = time.monotonic()
        self.listener(StageReached(number, "ready"))
        try:
            for phase in measure(
                server,
                self.workload,
                self.plans if told.same_as is None else (),
                listener=self.listener,
                stall_s=self.stall_s,
                limit_s=self.limit_s,
            ):
                phases.append(phase)
                failure = fatal(phase)
                if failure is not None:
                    break  # the minutes of the other phases could not save the trial
                if prune is not None and len(phases) == 1 < len(self.plans):
                    broken = dict(broken_for_good(self.slos, phases))
                    pruned = prune(structs.replace(told, phases=phases, constraints=broken)) or ""
                    if pruned:
                        break
        except CutShort as cut:
            failure = cut.failure
        measure_s = (time.monotonic() - began) * server.time_scale
        self.listener(StageReached(number, "stopping"))
        timings = {"launch_s": server.launch_s, "measure_s": measure_s, "stop_s": server.stop()}
        return phases, failure, timings, pruned

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
    plans: Sequence[PhasePlan],
    *,
    listener: Listener,
    model: str | None = None,
    api: Api = "chat",
    limits: Limits | None = None,
    stall_s: float = STALL_S,
    limit_s: float | None = None,
) -> Iterator[Phase]:
    """Measures phase after phase on one server.

    Args:
        workload: is made to fit the context length of the server's model.
        model: name sent in the requests; None: what the server says it serves.
        api: which of the server's interfaces takes the requests.
        limits: what a request must keep to count as good.
        stall_s: wall seconds without a byte of any answer after which requests are given up.
        limit_s: wall seconds that all phases may take; None: no limit.

    Raises:
        ServerDied: the server ended meanwhile.
        OutOfTime: the limit is reached.
        WorkloadError: the workload cannot be played as the plans say.
    """
    endpoint, sized = _endpoint(server, model, api, stall_s), _sized(workload, server)
    began, shares = time.monotonic(), dict.fromkeys([plan.load for plan in plans], 0.0)

    def check() -> None:
        failure = server.failure()
        if failure is not None:
            raise ServerDied(failure)
        if limit_s is not None and time.monotonic() - began > limit_s:
            raise OutOfTime(_too_slow(shares, limit_s))

    for plan in plans:

        def progress(share: float, load: str = plan.load) -> None:
            shares[load] = min(share, 0.99)
            listener(PhaseProgress(load, share))

        before = server.retractions()
        phase = measure_phase(endpoint, sized, plan, check=check, progress=progress, limits=limits)
        check()
        phase = _with_retractions(phase, before, server.retractions())
        shares[plan.load] = 1.0
        listener(PhaseMeasured(phase))
        yield phase


def _sized(workload: Workload, server: RunningServer) -> Workload:
    """By the model's context alone: the pool differs between trials, and their load must not."""
    context_tok = server.effective.get("context_len")
    return workload.sized(context_tok if isinstance(context_tok, int) else None)


def _endpoint(server: RunningServer, model: str | None, api: Api, stall_s: float) -> Endpoint:
    limits = map(server.effective.get, ("context_len", "max_total_num_tokens"))
    known = [limit for limit in limits if isinstance(limit, int) and limit > 0]
    return Endpoint(
        server.url,
        model or served_model(server.url, server.api_key),
        server.api_key,
        server.time_scale,
        min(known, default=None),
        api=api,
        stall_s=stall_s,
    )


def _too_slow(shares: Mapping[str, float], limit_s: float) -> Failure:
    """Answers came, but too slowly for a value: it is the value that is missing, not the server."""
    at = next((load for load, share in shares.items() if share < 1), "")
    n_done = sum(share >= 1 for share in shares.values())
    return Failure(
        FailureKind.TOO_NOISY,
        "serving",
        f"still measuring {at} after {limit_s:,.0f} s, {shares.get(at, 1.0):.0%} of its window "
        f"seen; {n_done} of {len(shares)} loads were measured",
        "these flags are too slow under that load; raise trial_timeout_s if they are wanted, or "
        "choose a workload with shorter answers",
    )


def _with_retractions(phase: Phase, before: int | None, after: int | None) -> Phase:
    """The phase with what the server's log counts: its answers and metrics may be silent."""
    if before is None or after is None:
        return phase
    n_retractions = max(after - before, phase.n_retractions or 0)
    return structs.replace(phase, n_retractions=n_retractions)


def limits_of(effective: Mapping[str, Any]) -> ServerLimits:
    """What the server reports of its limits, for judging what was measured on it."""
    steps, draft = effective.get(STEPS), effective.get(DRAFT)
    longest = min(steps + 1, draft) if isinstance(steps, int) and isinstance(draft, int) else None
    if effective.get(ADAPTIVE):  # those are only what it starts with
        longest = None
    return ServerLimits(
        running=effective.get("max_running_requests"),
        graph_batch=effective.get("cuda_graph_max_bs"),
        accept_length=longest,
        fakes_acceptance=EFFECTIVE_FAKE in effective,
    )


def _never_ready(
    failed: LaunchFailed, flags: Flags, number: int, role: TrialRole, wall_s: float
) -> TrialRecord:
    return TrialRecord(
        number=number,
        status="failed",
        role=role,
        flags=dict(flags),
        failure=failed.failure,
        timings={"launch_s": failed.launch_s, "wall_s": wall_s},
        versions={"autotune": autotune.__version__},
    )


def _status(failure: Failure | None, pruned: str, constraints: Mapping[str, float]) -> Status:
    if failure is not None:
        return "failed"
    if pruned:
        return "pruned"
    return "complete" if all(value <= 0 for value in constraints.values()) else "infeasible"


def _stop_caveats(server: RunningServer) -> list[Caveat]:
    trouble = server.stop_trouble
    return [Caveat("hang_at_stop", trouble, _AFTER_A_HANG)] if trouble else []


def silent_changes(flags: Flags, effective: Mapping[str, object]) -> list[Caveat]:
    """What was asked for and what really ran, where they differ."""
    return [
        Caveat("silent_change", f"asked for {name} {flags[name]}, the server runs {ran}")
        for name, ran in changes(flags, effective).items()
    ]
