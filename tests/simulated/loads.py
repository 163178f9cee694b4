"""Loads made by hand for a simulated server, and how a user would measure them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from autotune.core.trial import Phase
from autotune.engine.attached import AttachedServer
from autotune.engine.sglang.retractions import RetractionLog
from autotune.engine.simulated import text
from autotune.events import ignore
from autotune.measure.plan import PhasePlan
from autotune.study.evaluate import measure
from autotune.workload import Session, Turn, Workload, workload_named

SHORT = workload_named("agentic-short")


def prompts(
    n_tok: Callable[[int], int] = lambda number: 300,
    *,
    max_output_tok: int = 256,
    n_sessions: int | None = None,
    temperature: float = 0.6,
    extra: dict[str, Any] | None = None,
) -> Workload:
    """Single turns: prompt ``n`` has some ``n_tok(n)`` tokens that no other prompt shares."""

    def session(number: int, context_tok: int | None) -> Session:
        words = "".join(text.answer_tokens(Random(number).getrandbits(40), n_tok(number)))
        turn = Turn(({"role": "user", "content": f"{number} {words}"},), max_output_tok)
        return Session((turn,), extra=extra or {})

    return Workload("prompts", "single turns", 200, temperature, session, n_sessions)


class _Checked(AttachedServer):
    """Also asks ``check`` whether it lives, as a server that we started is asked."""

    check: Callable[[], None] = staticmethod(lambda: None)
    log: RetractionLog | None = None

    def failure(self) -> None:
        self.check()

    def retractions(self) -> int | None:
        return None if self.log is None else self.log.count()


def measure_at(
    url: str,
    concurrency: int = 8,
    n_requests: int = 24,
    *,
    workload: Workload = SHORT,
    first_session: int = 0,
    check: Callable[[], None] = lambda: None,
    **plan: Any,  # noqa: ANN401 (whatever a plan has)
) -> tuple[Phase, AttachedServer]:
    """One phase on a running server, and the server as it describes itself."""
    load = PhasePlan("serving", concurrency, n_requests, first_session)
    return measure_plan(url, replace(load, **plan), workload=workload, check=check)


def measure_plan(
    url: str,
    plan: PhasePlan,
    *,
    workload: Workload = SHORT,
    check: Callable[[], None] = lambda: None,
    log: Path | None = None,
    **more: Any,  # noqa: ANN401 (whatever else ``measure`` takes)
) -> tuple[Phase, AttachedServer]:
    """As ``measure_at``, with a plan of one's own.

    Args:
        log: of the server, as one that we started has.
    """
    server = _Checked(url)
    server.check = check
    server.log = None if log is None else RetractionLog(log)
    (phase,) = measure(server, workload, [plan], listener=ignore, **more)
    return phase, server
