"""When a number of a phase should be read with care, and when it must not be used."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.trial import Caveat, Failure, FailureKind, Phase

_BUSY_CLIENT = 0.7
"""Above this share of a core the client delays what it measures."""
_FEW_REQUESTS = 5
FAILED_FRAC = 0.05
"""A phase with a larger share of failed requests carries no value."""


def caveats(phase: Phase, running_limit: int | None) -> Iterator[Caveat]:
    """Reasons to read this phase with care.

    Args:
        phase: what was measured.
        running_limit: requests the server runs at once, as it reported; None: unknown.
    """
    at = f"C={phase.concurrency}"
    if running_limit is not None and running_limit < phase.concurrency:
        yield Caveat(
            "concurrency_above_running_limit",
            f"{at} queues: {running_limit} run at once",
        )
    if phase.client_cpu_frac is not None and phase.client_cpu_frac > _BUSY_CLIENT:
        yield Caveat(
            "client_busy",
            f"{at}: the client used {phase.client_cpu_frac:.0%} of a core and may have slowed it",
        )
    if phase.n_failed:
        yield Caveat("requests_failed", f"{at}: {phase.n_failed} requests failed")
    if phase.n_requests < _FEW_REQUESTS:
        yield Caveat("few_requests", f"{at}: only {phase.n_requests} requests were measured")


def fatal(phase: Phase) -> Failure | None:
    """Why this phase carries no value at all; None where it does."""
    n_sent = phase.n_requests + phase.n_failed
    if not phase.n_requests or phase.n_failed > FAILED_FRAC * n_sent:
        return Failure(
            FailureKind.REQUEST_ABORTED,
            "serving",
            f"{phase.n_failed} of {n_sent} requests failed at C={phase.concurrency}"
            + (f": {phase.first_error}" if phase.first_error else ""),
            "look at the server log of this trial; the requests themselves were refused or cut off",
        )
    if phase.turn_latency_s.value <= 0 or phase.output_tok_s.value <= 0:
        return Failure(
            FailureKind.REQUEST_ABORTED,
            "serving",
            f"none of {phase.n_requests} answers at C={phase.concurrency} came in two events and "
            "8 tokens or more: nothing to time",
            "see that the server streams its answers and that the prompts ask for longer ones",
        )
    return None
