"""When a number of a phase should be read with care, and when it must not be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autotune.core.trial import Caveat, Failure, FailureKind, Phase
from autotune.measure.records import SILENT

_BUSY_CLIENT = 0.7
"""Above this share of a core the client delays what it measures."""
_SATURATED_CLIENT = 0.97
_LATE_CLIENT_S = 0.02
"""Event-loop delay (99th percentile) that shows in a time to first token."""
_LATE_OF_TTFT = 0.25
"""The same as a share of the time to first token that makes it worthless."""
_FEW_REQUESTS = 5
FAILED_FRAC = 0.05
"""A phase with a larger share of failed requests carries no value."""
_NEAR_CEILING = 0.92
"""The highest share published for real text is 0.905: 3.62 of 4 on HumanEval, with the draft layer
of Qwen3.5-397B."""
_HARDLY_ACCEPTS = 1.1
_LOOPING_FRAC = 0.1
_CACHED_FRAC = 0.9
"""A session that begins finds no more than the shared prefix in a clean cache: up to 70 % here."""
_CACHE_APART = 0.10
"""Cache hit rates of the same load on two launches that differ by more are another load."""
_SHORT_TOK = 16
"""Median answers below this give the time per token only a few events to show itself."""
_DRIFT_FRAC = 0.05
_FOREIGN = 0.5
_WIDE_FRAC = 0.05
"""Half-width of a headline interval that no comparison of a few percent survives."""
_REPEATED_FRAC = 0.05


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What the server says of itself, as far as it does.

    Attributes:
        running: requests it runs at once.
        graph_batch: largest batch with a CUDA graph.
        accept_length: most tokens one verify pass can yield; None without speculation.
        fakes_acceptance: its environment makes it simulate its accept length.
    """

    running: int | None = None
    graph_batch: int | None = None
    accept_length: int | None = None
    fakes_acceptance: bool = False


def caveats(
    phases: Sequence[Phase], limits: ServerLimits, reference: Sequence[Phase] = ()
) -> list[Caveat]:
    """Reasons to read the phases of one launch with care; none is said twice.

    Args:
        reference: phases of another launch under the same load, to compare with.
    """
    found = list(_of_fakes(limits))  # first, as it takes the meaning of all the rest
    found += [
        caveat
        for phase in phases
        for source in (_of_server(phase, limits), _of_client(phase), _of_sample(phase))
        for caveat in source
    ]
    found += _of_acceptance(phases, limits)
    found += _of_cache(phases, reference)
    return found


def _of_server(phase: Phase, limits: ServerLimits) -> Iterator[Caveat]:
    """What the server did with the load."""
    at = phase.load
    if limits.running is not None and limits.running < phase.concurrency:
        yield Caveat(
            "concurrency_above_running_limit",
            f"{at} queues: {limits.running} run at once",
            "free KV memory (fewer draft tokens, a larger fraction) or raise "
            "--max-running-requests",
        )
    batch = min(phase.concurrency, limits.running or phase.concurrency)
    if limits.graph_batch is not None and limits.graph_batch < batch:
        yield Caveat(
            "graph_below_batch",
            f"{at}: CUDA graphs end at batch {limits.graph_batch}, and larger ones run without",
            "raise the largest graph batch size",
        )
    if phase.n_retractions:
        yield Caveat(
            "retractions",
            f"{at}: the KV cache ran full and {_n(phase.n_retractions, 'request')} had to begin "
            "again",
            "lower the concurrency, or free KV memory",
        )
    if phase.n_aborted:
        yield Caveat(
            "requests_aborted",
            f"{at}: the server aborted {_n(phase.n_aborted, 'request')}",
            "look for the reason in the server log",
        )
    if phase.n_failed:
        yield Caveat(
            "requests_failed",
            f"{at}: {_n(phase.n_failed, 'request')} failed"
            + (f": {phase.first_error}" if phase.first_error else ""),
        )
    if phase.foreign_mean is not None and phase.foreign_mean >= _FOREIGN:
        yield Caveat(
            "foreign_load",
            f"{at}: {phase.foreign_mean:.1f} requests of others were on the server",
            "measure a server that nobody else uses",
        )


def _of_client(phase: Phase) -> Iterator[Caveat]:
    """Whether the client itself disturbed what it measured."""
    cpu_frac, lag_s = phase.client_cpu_frac, phase.client_lag_s
    is_busy = cpu_frac is not None and cpu_frac > _BUSY_CLIENT
    is_late = lag_s is not None and lag_s > max(_LATE_CLIENT_S, 0.05 * phase.ttft_s.value)
    if is_busy or is_late:
        why = [f"used {cpu_frac:.0%} of a core"] if is_busy else []
        why += [f"was up to {1e3 * (lag_s or 0):.0f} ms late"] if is_late else []
        yield Caveat(
            "client_busy",
            f"{phase.load}: the client {' and '.join(why)} and may have slowed what it measured",
            "run it on a machine with a free core",
        )


def _of_sample(phase: Phase) -> Iterator[Caveat]:
    """Whether the requests are many, long, fresh and steady enough."""
    at = phase.load
    if phase.n_requests < _FEW_REQUESTS:
        yield Caveat(
            "few_requests",
            f"{at}: only {_n(phase.n_requests, 'request')} ended in the window",
            "give the phase more time",
        )
    elif phase.headline.half_width_frac > _WIDE_FRAC:
        yield Caveat(
            "wide_interval",
            f"{at}: known to {phase.headline.half_width_frac:.0%} only, after "
            f"{_n(phase.n_requests, 'request')} in {phase.duration_s:.0f} s",
            "differences below that are noise",
        )
    short = phase.percentiles.get("output_tok", {}).get("p50", _SHORT_TOK)
    if short < _SHORT_TOK:
        yield Caveat(
            "answers_short",
            f"{at}: half of the answers have {short:.0f} tokens or fewer, too few for a speed",
            "use prompts that ask for longer answers, or watch TTFT instead",
        )
    if phase.n_repeated > _REPEATED_FRAC * phase.n_sent:
        same = "word for word at temperature 0" if phase.temperature == 0 else "to be cached"
        yield Caveat(
            "repeated_prompts",
            f"{at}: {phase.n_repeated} of {phase.n_sent} prompts were sent before, {same}",
            "use a workload with more sessions",
        )
    elif phase.cache_first_frac is not None and phase.cache_first_frac > _CACHED_FRAC:
        yield Caveat(
            "prompts_cached",
            f"{at}: {phase.cache_first_frac:.0%} of the prompts that begin a session were cached, "
            "as after an earlier run",
            "flush the cache or use another --seed",
        )
    if phase.drift_frac is not None and abs(phase.drift_frac) > _DRIFT_FRAC:
        yield Caveat(
            "drift",
            f"{at}: the second half of the window was {abs(phase.drift_frac):.0%} "
            f"{'faster' if phase.drift_frac > 0 else 'slower'} than the first",
            "look for clocks, heat or other work on the machine, and measure again",
        )


def _of_fakes(limits: ServerLimits) -> Iterator[Caveat]:
    if limits.fakes_acceptance:
        yield Caveat(
            "simulated_acceptance",
            "the server's environment makes it fake its accept length",
            "unset SGLANG_SIMULATE_ACC_LEN and start it again",
        )


def _of_acceptance(phases: Sequence[Phase], limits: ServerLimits) -> Iterator[Caveat]:
    """What the accept lengths say about the text and the draft model."""
    lengths = [phase.accept_length for phase in phases if phase.accept_length is not None]
    loops = max((phase.loop_frac or 0.0 for phase in phases), default=0.0)
    if loops > _LOOPING_FRAC:
        yield Caveat(
            "answers_loop",
            f"{loops:.0%} of the answers repeat themselves, which inflates acceptance",
            "look at the temperature and the chat template",
        )
    if not lengths or limits.accept_length is None or limits.accept_length < 2:
        return
    ceiling = limits.accept_length
    if max(lengths) >= _NEAR_CEILING * ceiling and ceiling > 2:
        yield Caveat(
            "accept_length_at_ceiling",
            f"accept length {max(lengths):.2f} of {ceiling}: easy text, real use may accept less",
            "measure with your own traffic",
        )
    if min(lengths) <= _HARDLY_ACCEPTS:
        yield Caveat(
            "accept_length_about_one",
            f"accept length {min(lengths):.2f}: the draft model hardly guesses",
            "see that it is the one for this model, and the chat template right",
        )


def _of_cache(phases: Sequence[Phase], reference: Sequence[Phase]) -> Iterator[Caveat]:
    """Whether the prefix cache helped this launch as much as the one it is compared with."""
    before = {(p.role, p.load): p.cache_hit_frac for p in reference}
    for phase in phases:
        hits, other = phase.cache_hit_frac, before.get((phase.role, phase.load))
        if hits is not None and other is not None and abs(hits - other) > _CACHE_APART:
            yield Caveat(
                "cache_hit_differs",
                f"{phase.load}: {hits:.0%} of the prompt tokens were cached, {other:.0%} with the "
                "baseline",
                "a smaller KV cache may drop prefixes; or the cache was not empty at the start",
            )


def fatal(phase: Phase) -> Failure | None:
    """Why this phase carries no value at all; None where it does."""
    n_sent = phase.n_requests + phase.n_failed
    if phase.first_error.startswith(SILENT):
        return Failure(
            FailureKind.HANG,
            "serving",
            f"{phase.first_error} at {phase.load}, with {_n(phase.n_failed, 'request')} waiting",
            "look at the last lines of the server log; the same flags may work a second time",
        )
    if not phase.n_requests or phase.n_failed > FAILED_FRAC * n_sent:
        return Failure(
            FailureKind.REQUEST_ABORTED,
            "serving",
            f"{phase.n_failed} of {n_sent} requests failed at {phase.load}"
            + (f": {phase.first_error}" if phase.first_error else ""),
            "look at the server log of this trial; the requests themselves were refused or cut off",
        )
    if phase.turn_latency_s.value <= 0 or phase.output_tok_s.value <= 0:
        return Failure(
            FailureKind.REQUEST_ABORTED,
            "serving",
            f"none of {phase.n_requests} answers at {phase.load} came in two events and "
            "8 tokens or more: nothing to time",
            "see that the server streams its answers and that the prompts ask for longer ones",
        )
    lag_s, cpu_frac = phase.client_lag_s or 0.0, phase.client_cpu_frac or 0.0
    if cpu_frac > _SATURATED_CLIENT and lag_s > max(
        _LATE_CLIENT_S, _LATE_OF_TTFT * phase.ttft_s.value
    ):
        return Failure(
            FailureKind.CLIENT_SATURATED,
            "serving",
            f"the client used {cpu_frac:.0%} of a core at {phase.load} and was {1e3 * lag_s:.0f} "
            "ms late: it measured itself",
            "run it on a machine with a free core, or at a lower concurrency",
        )
    return None


def _n(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
