"""Which wall binds: for one request alone, and under each serving load."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.trial import Phase
from autotune.explain.document import Figure, Finding
from autotune.explain.model import Learned, Shares
from autotune.explain.said import capital, plain, said, share
from autotune.explain.subject import Subject
from autotune.space.rules import DRAFT, MEMORY

_LONG_START = 0.5
"""Share of a turn before the first token above which decoding is no longer what decides."""
_MUCH_DRAFTING = 0.35
_MORE_MEMORY = 0.02
"""Of a GPU: how much more static memory is thought about."""
_WAITS = 0.9
"""Fewer running requests than this share of those allowed: something else than the limit holds."""


def at_one(subject: Subject, model: Learned | None) -> Finding | None:
    """What decides the time of one turn alone; None where it was not measured."""
    load = subject.latency_load
    turn, ttft = subject.pooled(load, "turn_latency_s"), subject.pooled(load, "ttft_s")
    tpot = subject.pooled(load, "tpot_s")
    if turn is None or ttft is None or tpot is None:
        return None
    figures = {
        "turn_latency_s": Figure.of(turn, "s"),
        "ttft_s": Figure.of(ttft, "s"),
        "tpot_s": Figure.of(tpot, "s"),
    }
    told = [
        f"a turn takes {said(figures['turn_latency_s'])}: {said(figures['ttft_s'])} to its first "
        f"token, then {said(figures['tpot_s'])} for each"
    ]
    accept = subject.accept_length
    if accept is not None:
        figures["accept_length"] = Figure.of(accept, "tokens")
        figures["pass_s"] = Figure(tpot.value * accept.value, "s", "measured")
        told.append(
            f"a pass of {said(figures['pass_s'])} yields {said(figures['accept_length'])}"
            + _of_at_most(subject)
        )
    shares = model.cycle(subject.flags, 1.0) if model is not None else None
    if shares is not None:
        figures["verify_frac"] = Figure(shares.verify, "", "model")
        figures["draft_frac"] = Figure(shares.draft, "", "model")
        told.append(_into(shares))
    starts_long = ttft.value > _LONG_START * turn.value
    verdict, reason = _binds_at_one(subject, starts_long, shares)
    text = f"At {load} {reason}: {'; '.join(told)}."
    return Finding("at_one", load, text, figures, verdict)


def _of_at_most(subject: Subject) -> str:
    ceiling = ceiling_of(subject)
    return f" of {ceiling} at most" if ceiling else ""


def ceiling_of(subject: Subject) -> int | None:
    """Tokens that one pass can yield at most."""
    draft, steps = subject.flags.get(DRAFT, subject.told(DRAFT)), subject.steps
    if steps is None:
        return None
    return min(steps + 1, int(draft)) if isinstance(draft, int | float) else steps + 1


def _into(shares: Shares) -> str:
    limit = "reading memory" if shares.by_memory else "arithmetic"
    return (
        f"of a pass {share(shares.verify)} is verification, limited by {limit}, and "
        f"{share(shares.draft)} drafting (model)"
    )


def _binds_at_one(subject: Subject, starts_long: bool, shares: Shares | None) -> tuple[str, str]:
    if starts_long:
        return "first_token", "the time to the first token binds"
    if subject.warns("accept_length_at_ceiling"):
        return "depth", "the depth of the draft binds, as nearly every guess is accepted"
    if shares is None:
        return "decoding", "decoding binds"
    if shares.draft > _MUCH_DRAFTING:
        return "drafting", "drafting binds"
    if shares.by_memory:
        return "memory_traffic", "reading memory for verification binds"
    return "arithmetic", "the arithmetic of verification binds"


def under_load(subject: Subject, model: Learned | None) -> Iterator[Finding]:
    """For each serving load: what keeps it from more."""
    for phase in subject.serving:
        yield _under(subject, phase, model)


def _under(subject: Subject, phase: Phase, model: Learned | None) -> Finding:
    limit, n_sent = subject.running_limit, phase.concurrency
    flying = Figure(phase.in_flight_mean, "requests", "measured")
    figures = {"in_flight": flying}
    throughput = subject.pooled(phase.load, "output_tok_s")
    if throughput is not None:
        figures["output_tok_s"] = Figure.of(throughput, "tok/s")
    speed = f"{said(figures['output_tok_s'])}" if throughput is not None else "no throughput"
    if phase.waiting_mean is not None:
        figures["waiting"] = Figure(phase.waiting_mean, "requests", "measured")
    if limit is not None and limit < n_sent:
        text = _limit_binds(subject, phase, model, figures)
        return Finding("under_load", phase.load, f"{text}; {speed}.", figures, "running_limit")
    n_running = phase.in_flight_mean - (phase.waiting_mean or 0.0)
    if phase.waiting_mean is not None and n_running < _WAITS * n_sent:
        text = _pool_binds(subject, phase, n_running, figures)
        return Finding("under_load", phase.load, f"{text}; {speed}.", figures, "kv_pool")
    told = f"at {phase.load} nothing has to wait: {said(flying)} in flight"
    if limit is not None:
        figures["running_limit"] = Figure(limit, "requests", "server")
        told += f", and the server would run {limit:.0f} at once (told by the server)"
    verdict = "none"
    if model is not None:
        shares = model.cycle(subject.flags, n_running)
        verdict = "memory_traffic" if shares.by_memory else "arithmetic"
        figures["verify_frac"] = Figure(shares.verify, "", "model")
        figures["draft_frac"] = Figure(shares.draft, "", "model")
        told += f"; {_into(shares)}"
    return Finding("under_load", phase.load, f"{capital(told)}; {speed}.", figures, verdict)


def _limit_binds(
    subject: Subject, phase: Phase, model: Learned | None, figures: dict[str, Figure]
) -> str:
    limit, n_sent = subject.running_limit or 0.0, phase.concurrency
    figures["running_limit"] = Figure(limit, "requests", "server")
    figures["over_the_limit"] = Figure(n_sent - limit, "requests", "server")
    steps = f" at steps {subject.steps}" if subject.steps else ""
    text = (
        f"At {phase.load} the running limit binds{steps}: {n_sent} requests are sent and the "
        f"server runs {limit:.0f} at once (told by the server), {n_sent - limit:.0f} fewer"
    )
    if "waiting" in figures:
        text += f"; {said(figures['waiting'])} wait on average"
    ttft = subject.pooled(phase.load, "ttft_s")
    if ttft is not None:
        figures["ttft_s"] = Figure.of(ttft, "s")
        text += f", so that the first token takes {said(figures['ttft_s'])}"
    if model is not None:
        figures["gain_with_room_pct"] = model.with_room_for_all(
            subject.flags, n_sent, limit, subject.told("max_total_num_tokens")
        )
        text += f"; room for all {n_sent} would bring {said(figures['gain_with_room_pct'])}"
    return text


def _pool_binds(
    subject: Subject, phase: Phase, n_running: float, figures: dict[str, Figure]
) -> str:
    figures["running"] = Figure(n_running, "requests", "measured")
    text = f"At {phase.load} the KV pool binds: only {said(figures['running'])} run on average"
    pool = subject.told("max_total_num_tokens")
    if pool is not None:
        figures["kv_tokens"] = Figure(pool, "tokens", "server")
        text += f" in its {pool:,.0f} tokens (told by the server)"
    n_retractions = sum(p.n_retractions or 0 for p in subject.phases(phase.load))
    if n_retractions:
        figures["retractions"] = Figure(n_retractions, "", "measured")
        text += f"; {n_retractions} had to begin again (measured)"
    return text


def memory(subject: Subject, model: Learned | None) -> Finding | None:
    """How far the memory goes, and what more of it would hold; None: the server told nothing."""
    free, pool = subject.told("available_gpu_mem_gb"), subject.told("max_total_num_tokens")
    figures: dict[str, Figure] = {}
    told = []
    if pool is not None:
        figures["kv_tokens"] = Figure(pool, "tokens", "server")
        told.append(f"the KV pool holds {pool:,.0f} tokens (told by the server)")
    if free is not None:
        figures["free_gb"] = Figure(free, "GB", "server")
        told.append(
            f"{plain(figures['free_gb'])} of each GPU stay free after its start (told by the "
            "server)"
        )
    more = model.with_more_memory(subject.flags, _MORE_MEMORY) if model is not None else None
    if model is not None and more is not None:
        figures["survival"] = Figure(model.survival(more), "", "model")
        chance = share(figures["survival"].value)
        text = f"with {MEMORY} {more[MEMORY]:.2f} the chance that a launch survives is {chance}"
        limit = model.running_limit(more)
        if limit is not None:
            figures["running_limit_then"] = limit
            text += f", and it would run {plain(limit)} at once"
        told.append(f"{text} (model)")
    if not told:
        return None
    return Finding("memory", "Memory", capital(f"{'; '.join(told)}."), figures)
