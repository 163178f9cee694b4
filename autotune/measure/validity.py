"""When a number of a phase should be read with care, and when it must not be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.core.trial import Caveat, Failure, FailureKind, Phase

_BUSY_CLIENT = 0.7
"""Above this share of a core the client delays what it measures."""
_FEW_REQUESTS = 5
FAILED_FRAC = 0.05
"""A phase with a larger share of failed requests carries no value."""
_NEAR_CEILING = 0.92
"""The highest share published for real text is 0.905: 3.62 of 4 on HumanEval, with the draft layer
of Qwen3.5-397B."""
_HARDLY_ACCEPTS = 1.1
_LOOPING_FRAC = 0.1
_CACHED_FRAC = 0.95
"""The built-in sessions find 70 to 80 % of their prompts in a cache that starts empty."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What the server says of itself, as far as it does.

    Attributes:
        running: requests it runs at once.
        graph_batch: largest batch with a CUDA graph.
        accept_length: most tokens one verify pass can yield; None without speculation.
    """

    running: int | None = None
    graph_batch: int | None = None
    accept_length: int | None = None


def caveats(phases: Sequence[Phase], limits: ServerLimits) -> list[Caveat]:
    """Reasons to read the phases of one launch with care; none is said twice."""
    found = [caveat for phase in phases for caveat in _of_phase(phase, limits)]
    found += _of_acceptance(phases, limits)
    return found


def _of_phase(phase: Phase, limits: ServerLimits) -> Iterator[Caveat]:
    at = f"C={phase.concurrency}"
    if limits.running is not None and limits.running < phase.concurrency:
        yield Caveat(
            "concurrency_above_running_limit", f"{at} queues: {limits.running} run at once"
        )
    batch = min(phase.concurrency, limits.running or phase.concurrency)
    if limits.graph_batch is not None and limits.graph_batch < batch:
        yield Caveat(
            "graph_below_batch",
            f"{at}: CUDA graphs end at batch {limits.graph_batch}, and larger ones run without: "
            "raise the largest graph batch size",
        )
    if phase.client_cpu_frac is not None and phase.client_cpu_frac > _BUSY_CLIENT:
        yield Caveat(
            "client_busy",
            f"{at}: the client used {phase.client_cpu_frac:.0%} of a core and may have slowed it",
        )
    if phase.n_failed:
        plural = "s" if phase.n_failed > 1 else ""
        yield Caveat("requests_failed", f"{at}: {phase.n_failed} request{plural} failed")
    if phase.cache_hit_frac is not None and phase.cache_hit_frac > _CACHED_FRAC:
        yield Caveat(
            "prompts_cached",
            f"{at}: {phase.cache_hit_frac:.0%} of the prompt tokens were cached, as after an "
            "earlier run: flush the cache or use another --seed",
        )
    if phase.n_requests < _FEW_REQUESTS:
        yield Caveat("few_requests", f"{at}: only {phase.n_requests} requests were measured")


def _of_acceptance(phases: Sequence[Phase], limits: ServerLimits) -> Iterator[Caveat]:
    """What the accept lengths say about the text and the draft model."""
    lengths = [phase.accept_length for phase in phases if phase.accept_length is not None]
    loops = max((phase.loop_frac or 0.0 for phase in phases), default=0.0)
    if loops > _LOOPING_FRAC:
        yield Caveat(
            "answers_loop",
            f"{loops:.0%} of the answers repeat themselves, which inflates acceptance: "
            "look at the temperature and the chat template",
        )
    if not lengths or limits.accept_length is None or limits.accept_length < 2:
        return
    ceiling = limits.accept_length
    if max(lengths) >= _NEAR_CEILING * ceiling and ceiling > 2:
        yield Caveat(
            "accept_length_at_ceiling",
            f"accept length {max(lengths):.2f} of {ceiling}: easy text, real use may accept less",
        )
    if min(lengths) <= _HARDLY_ACCEPTS:
        yield Caveat(
            "accept_length_about_one",
            f"accept length {min(lengths):.2f}: the draft model hardly guesses; is it the one for "
            "this model, and the chat template right?",
        )


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
