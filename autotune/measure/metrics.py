"""Request records to the numbers of one phase. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from autotune.core.stats import mean_interval, median_interval, percentiles, rate_interval
from autotune.core.trial import Interval, Phase, Role
from autotune.measure.records import RequestRecord

_N_SLICES = 6
"""Slices of the window that give throughput its interval. Measured on five simulated machines at
C=16 and 32, 60 windows each: six slices cover the true value in 85 to 98 % of windows (94 % on
average), twelve in 77 to 98 %, and a bootstrap over requests in 42 to 100 %, as requests that share
a batch are not independent.
"""
_LOOP_CHARS = 400
_LOOP_RATIO = 0.2
_SHORTEST_TOK = 8
"""Answers below this length say little about the time per token."""


def summarize(
    records: Sequence[RequestRecord],
    *,
    plan_role: Role,
    concurrency: int,
    window: tuple[float, float],
    in_flight: Sequence[tuple[float, int]],
    reference_output_tok: int,
    client_cpu_frac: float,
) -> Phase:
    """The phase as the requests that ended inside ``window`` show it.

    Latencies are medians over requests. Throughput counts every token that arrived inside the
    window, also of requests that began before it or ended after it.

    Args:
        window: begin and end in server seconds.
        in_flight: ``(time, requests in flight from then on)``.
        reference_output_tok: n_ref of the turn latency ``TTFT + TPOT * n_ref``.
    """
    begin_s, end_s = window
    inside = [r for r in records if begin_s < r.done_s <= end_s]
    good = [r for r in inside if r.ok]
    paced = [(r, tpot) for r in good if (tpot := _tpot(r)) is not None]
    samples = {
        "ttft_s": [r.ttft_s for r in good],
        "tpot_s": [tpot for _, tpot in paced],
        "e2e_s": [r.e2e_s for r in good],
        "turn_latency_s": [r.ttft_s + tpot * reference_output_tok for r, tpot in paced],
        "decode_tok_s": [1.0 / tpot for _, tpot in paced],
    }
    return Phase(
        role=plan_role,
        concurrency=concurrency,
        n_requests=len(good),
        n_failed=sum(r.failed for r in records),
        duration_s=end_s - begin_s,
        ttft_s=median_interval(samples["ttft_s"]),
        tpot_s=median_interval(samples["tpot_s"]),
        e2e_s=median_interval(samples["e2e_s"]),
        turn_latency_s=median_interval(samples["turn_latency_s"]),
        decode_tok_s=mean_interval(samples["decode_tok_s"]),
        output_tok_s=_throughput(records, begin_s, end_s),
        accept_length=_accept_length(good),
        in_flight_mean=_time_average(in_flight, begin_s, end_s),
        cache_hit_frac=_cache_hits(good),
        client_cpu_frac=client_cpu_frac,
        loop_frac=_loops(good),
        first_error=next((r.error for r in records if r.error), ""),
        percentiles={name: percentiles(values) for name, values in samples.items() if values},
    )


def _tpot(record: RequestRecord) -> float | None:
    tpot = record.tpot_s if record.n_output_tok >= _SHORTEST_TOK else None
    return tpot if tpot is not None and tpot > 0 else None


def _throughput(records: Sequence[RequestRecord], begin_s: float, end_s: float) -> Interval:
    """Output tokens per second in the window, with an interval over equal slices of it."""
    width_s = (end_s - begin_s) / _N_SLICES
    if width_s <= 0:
        return Interval(0.0, 0.0, 0.0)
    amounts = [0.0] * _N_SLICES
    for record in records:
        for at_s, n_tok in record.increments():
            if begin_s < at_s <= end_s:
                amounts[min(_N_SLICES - 1, int((at_s - begin_s) / width_s))] += n_tok
    return rate_interval(amounts, width_s)


def _accept_length(records: Sequence[RequestRecord]) -> float | None:
    """Sum of output tokens over sum of verify passes, the one formula good for all versions."""
    told = [r for r in records if r.n_verify]
    n_verify = sum(r.n_verify for r in told)
    return sum(r.n_output_tok for r in told) / n_verify if n_verify else None


def _cache_hits(records: Sequence[RequestRecord]) -> float | None:
    """Share of the prompt tokens that the prefix cache held; None where the server is silent."""
    told = [r for r in records if r.n_cached_tok is not None and r.n_prompt_tok]
    total = sum(r.n_prompt_tok for r in told)
    return sum(r.n_cached_tok or 0 for r in told) / total if total else None


def _loops(records: Sequence[RequestRecord]) -> float | None:
    """Share of the answers whose second half repeats itself; None where all are too short.

    Compression tells: prose and code of this length shrink to 35 to 60 %, a loop to below 15 %.
    """
    long_enough = [r.text for r in records if len(r.text) >= _LOOP_CHARS]
    if not long_enough:
        return None
    return fmean(_compressed_frac(text[len(text) // 2 :]) < _LOOP_RATIO for text in long_enough)


def _compressed_frac(text: str) -> float:
    raw = text.encode()
    return len(zlib.compress(raw, 6)) / len(raw)


def _time_average(steps: Sequence[tuple[float, int]], begin_s: float, end_s: float) -> float:
    """Average of a step function over ``[begin_s, end_s]``."""
    if end_s <= begin_s:
        return 0.0
    area = 0.0
    for (from_s, level), (to_s, _) in pairwise((*steps, (end_s, 0))):
        area += level * max(0.0, min(to_s, end_s) - max(from_s, begin_s))
    return area / (end_s - begin_s)
