"""Request records to the numbers of one phase. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from math import inf, nextafter
from statistics import fmean
from typing import Any

from autotune.core.stats import (
    drift,
    mean_interval,
    median_interval,
    percentiles,
    quantiles,
    rate_interval,
    ratio_interval,
    share_interval,
    time_average,
)
from autotune.core.trial import Interval, Phase
from autotune.measure.observe import Observations
from autotune.measure.plan import PhasePlan
from autotune.measure.records import RequestRecord

_MEDIANS = ("ttft_s", "tpot_s", "e2e_s", "turn_latency_s")
_DRAWN = ("ttft_s", "tpot_s", "turn_latency_s")
"""Of these the record keeps the whole distribution, in a few numbers."""
Limits = Mapping[str, float]
"""What one request may take at most: ``ttft_s``, ``tpot_s``, ``e2e_s``, ``turn_latency_s``."""

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
    plan: PhasePlan,
    window: tuple[float, float],
    in_flight: Sequence[tuple[float, int]],
    reference_output_tok: int,
    temperature: float,
    client_cpu_frac: float,
    seen: Observations,
    workload: str = "",
    n_repeated: int = 0,
    limits: Limits | None = None,
) -> Phase:
    """The phase as the requests of ``window`` show it: those that ended in it (closed loop), or
    that were due in it (open loop).

    Latencies are medians over requests. Throughput counts every token that arrived inside the
    window, also of requests that began before it or ended after it.

    Args:
        window: begin and end in server seconds.
        in_flight: ``(time, requests in flight from then on)``.
        reference_output_tok: n_ref of the turn latency ``TTFT + TPOT * n_ref``.
    """
    records = counted(records)
    inside = [r for r in records if _is_inside(r, window)]
    good = [r for r in inside if r.ok]
    samples = _samples(good, reference_output_tok)
    in_flight_mean = time_average(in_flight, *window)
    return Phase(
        role=plan.role,
        concurrency=max(1, round(in_flight_mean)) if plan.open_loop else plan.concurrency,
        n_requests=len(good),
        n_failed=sum(r.failed for r in records),
        duration_s=window[1] - window[0],
        **_latencies(samples),
        **_throughput(records, window),
        **_goodput(inside, window, limits, reference_output_tok),
        **_acceptance(good),
        **_gaps(good),
        in_flight_mean=in_flight_mean,
        rate_req_s=plan.rate_req_s,
        replay=plan.replay,
        gaps=plan.gaps,
        workload=workload,
        cache_hit_frac=_cache_hits(good),
        cache_first_frac=_cache_hits(_openings(records)),
        queue_s=_queue(good),
        **_seen(records, seen),
        n_repeated=n_repeated,
        client_cpu_frac=client_cpu_frac,
        loop_frac=_loops(good),
        drift_frac=_drift(records, good, plan, window),
        temperature=temperature,
        percentiles=_percentiles(samples, good),
        quantiles={name: quantiles(samples[name]) for name in _DRAWN if samples[name]},
    )


def _latencies(samples: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    medians = {name: median_interval(samples[name]) for name in _MEDIANS}
    return medians | {"decode_tok_s": mean_interval(samples["decode_tok_s"])}


def _throughput(records: Sequence[RequestRecord], window: tuple[float, float]) -> dict[str, Any]:
    """Output and input, in the window and over the whole run."""
    whole = _span(records)
    return {
        "output_tok_s": _rate(records, window, _output),
        "input_tok_s": _rate(records, window, _input),
        "output_run_tok_s": _rate(records, whole, _output),
        "input_run_tok_s": _rate(records, whole, _input),
    }


def _seen(records: Sequence[RequestRecord], seen: Observations) -> dict[str, Any]:
    """What was seen beside the requests that ended well."""
    by_weight = sorted(records, key=lambda record: not record.hung)
    return {
        "waiting_mean": seen.waiting_mean,
        "kv_used_frac": seen.kv_used_frac,
        "foreign_mean": seen.foreign_mean,
        "client_lag_s": seen.lag_p99_s,
        "n_sent": len(records),
        "n_aborted": sum(r.aborted for r in records),
        "n_retractions": _retractions(records, seen),
        "first_error": next((r.error for r in by_weight if r.error), ""),
    }


def _is_inside(record: RequestRecord, window: tuple[float, float]) -> bool:
    begin_s, end_s = window
    if record.due_s is not None:
        return begin_s <= record.due_s <= end_s
    return begin_s < record.done_s <= end_s  # the one that opened the window is outside


def _span(records: Sequence[RequestRecord]) -> tuple[float, float]:
    """From the first request sent to the last one ended."""
    if not records:
        return 0.0, 0.0
    return min(r.sent_s for r in records), max(r.done_s for r in records)


def counted(records: Sequence[RequestRecord]) -> Sequence[RequestRecord]:
    """The records, with the tokens of those that broke off before the server told any.

    Servers that tell usage at the end alone (SGLang before 0.5.6) would else lose what was in
    flight when the window closed. Their text is there: tokens per character are those of the
    answers that were told.
    """
    if not any(record.uncounted for record in records):
        return records
    told = [r for r in records if r.arrivals and not r.uncounted and r.text]
    n_chars = sum(len(r.text) for r in told)
    tok_per_char = sum(r.n_output_tok for r in told) / n_chars if n_chars else 0.0
    return [_estimated(r, tok_per_char) if r.uncounted else r for r in records]


def _estimated(record: RequestRecord, tok_per_char: float) -> RequestRecord:
    arrivals, n_chars, told = list(record.arrivals), 0, record.n_output_tok
    for at_s, more in record.uncounted:
        n_chars += more
        so_far = told + round(n_chars * tok_per_char)
        if so_far > (arrivals[-1][1] if arrivals else 0):
            arrivals.append((at_s, so_far))
    return replace(record, arrivals=tuple(arrivals), uncounted=())


def headline(
    records: Sequence[RequestRecord],
    plan: PhasePlan,
    window: tuple[float, float],
    reference_output_tok: int,
) -> Interval:
    """The one value a phase is measured for: the turn latency, or the output throughput."""
    if plan.role == "serving":
        return _rate(counted(records), window, _output)
    good = [r for r in records if r.ok and window[0] < r.done_s <= window[1]]
    return median_interval(_samples(good, reference_output_tok)["turn_latency_s"])


def _samples(good: Sequence[RequestRecord], reference_output_tok: int) -> dict[str, list[float]]:
    """One value for each request that has one."""
    paced = [(r, tpot) for r in good if (tpot := _tpot(r)) is not None]
    return {
        "ttft_s": [r.ttft_s for r in good],
        "tpot_s": [tpot for _, tpot in paced],
        "e2e_s": [r.e2e_s for r in good],
        "turn_latency_s": [r.ttft_s + tpot * reference_output_tok for r, tpot in paced],
        "decode_tok_s": [1.0 / tpot for _, tpot in paced],
        "accept_length": [r.n_output_tok / r.n_verify for r in good if r.n_verify],
        "output_tok": [float(r.n_output_tok) for r in good],
        "input_tok": [float(r.n_prompt_tok) for r in good if r.n_prompt_tok],
    }


def _percentiles(
    samples: dict[str, list[float]], good: Sequence[RequestRecord]
) -> dict[str, dict[str, float]]:
    """Of requests; and of tokens and events, for the gaps between them."""
    gaps = [gap for record in good for gap in _steps(record)]
    found = {name: percentiles(values) for name, values in samples.items() if values}
    if gaps:
        found["itl_s"] = percentiles([gap_s / n for gap_s, n in gaps], [n for _, n in gaps])
        found["chunk_gap_s"] = percentiles([gap_s for gap_s, _ in gaps])
    return found


def _tpot(record: RequestRecord) -> float | None:
    tpot = record.tpot_s if record.n_output_tok >= _SHORTEST_TOK else None
    return tpot if tpot is not None and tpot > 0 else None


def _steps(record: RequestRecord) -> Iterator[tuple[float, int]]:
    """``(seconds since the event before, new tokens)`` of each event but the first.

    An event whose count did not grow is none: where a total is spread over the events by their
    text, a short piece may be given no token of its own.
    """
    before_s, before_tok = record.arrivals[0]
    for at_s, so_far in record.arrivals[1:]:
        if so_far > before_tok:
            yield at_s - before_s, so_far - before_tok
            before_s, before_tok = at_s, so_far


def _gaps(good: Sequence[RequestRecord]) -> dict[str, Any]:
    """Mean gap between tokens, and between events."""
    sums = [
        (sum(gap for gap, _ in steps), sum(n for _, n in steps), len(steps))
        for steps in (list(_steps(record)) for record in good)
        if steps
    ]
    spans = [span for span, _, _ in sums]
    return {
        "itl_s": ratio_interval(spans, [n_tok for _, n_tok, _ in sums]),
        "chunk_gap_s": ratio_interval(spans, [n_events for _, _, n_events in sums]),
    }


def _output(record: RequestRecord) -> Iterator[tuple[float, int]]:
    return record.increments()


def _input(record: RequestRecord) -> Iterator[tuple[float, int]]:
    """A prompt counts once its first answer token has come."""
    if record.arrivals:
        yield record.arrivals[0][0], record.n_prompt_tok


def _rate(
    records: Sequence[RequestRecord],
    window: tuple[float, float],
    amounts_of: Callable[[RequestRecord], Iterable[tuple[float, int]]],
) -> Interval:
    """Amounts per second inside the window, with an interval over equal slices of it."""
    amounts, width_s = _sliced(records, window, amounts_of)
    return rate_interval(amounts, width_s) if width_s > 0 else Interval(0.0, 0.0, 0.0)


def _sliced(
    records: Sequence[RequestRecord],
    window: tuple[float, float],
    amounts_of: Callable[[RequestRecord], Iterable[tuple[float, int]]],
) -> tuple[list[float], float]:
    """What came in each of the equal slices of the window, and their width in seconds."""
    begin_s, end_s = window
    width_s = (end_s - begin_s) / _N_SLICES
    amounts = [0.0] * _N_SLICES
    if width_s <= 0:
        return amounts, 0.0
    for record in records:
        for at_s, amount in amounts_of(record):
            if begin_s < at_s <= end_s:
                amounts[min(_N_SLICES - 1, int((at_s - begin_s) / width_s))] += amount
    return amounts, width_s


def _goodput(
    inside: Sequence[RequestRecord],
    window: tuple[float, float],
    limits: Limits | None,
    reference_output_tok: int,
) -> dict[str, Any]:
    """Requests that kept every limit: how many a second, and which share of all that ended."""
    if not limits:
        return {}
    counted = [r for r in inside if not r.cut]
    kept = [r for r in counted if r.ok and _keeps(r, limits, reference_output_tok)]

    after_begin_s = nextafter(window[0], inf)  # what is due as the window opens is inside

    def one(record: RequestRecord) -> Iterator[tuple[float, int]]:
        yield max(after_begin_s, record.done_s if record.due_s is None else record.due_s), 1

    return {
        "goodput_req_s": _rate(kept, window, one),
        "good_frac": share_interval(len(kept), len(counted)),
    }


def _keeps(record: RequestRecord, limits: Limits, reference_output_tok: int) -> bool:
    values = _samples([record], reference_output_tok)
    return all(value <= limits[name] for name in limits for value in values[name])


def _acceptance(good: Sequence[RequestRecord]) -> dict[str, Any]:
    """Sum of output tokens over sum of verify passes, the one formula good for all versions."""
    told = [r for r in good if r.n_verify]
    if not told:
        return {"accept_length": None}
    overall = ratio_interval([r.n_output_tok for r in told], [r.n_verify for r in told])
    columns = list(zip_longest(*(r.accept_histogram for r in told), fillvalue=0))
    total = sum(map(sum, columns))
    return {
        "accept_length": overall.value,
        "accept_length_interval": overall,
        "accept_histogram": tuple(sum(column) / total for column in columns) if total else (),
    }


def _queue(good: Sequence[RequestRecord]) -> Interval | None:
    told = [r.queue_s for r in good if r.queue_s is not None]
    return mean_interval(told) if told else None


def _retractions(records: Sequence[RequestRecord], seen: Observations) -> int | None:
    """What the server counted, or what the answers tell, whichever is more."""
    told = sum(r.n_retractions for r in records)
    return max(told, seen.n_retractions) if seen.n_retractions is not None else told or None


def _drift(
    records: Sequence[RequestRecord],
    good: Sequence[RequestRecord],
    plan: PhasePlan,
    window: tuple[float, float],
) -> float | None:
    """Second half of the window against the first, as a fraction, where noise does not explain it.

    Welch's t over the slices of each half (throughput), or over its requests (decode speed): the
    throughput of an open loop is that of its arrivals.
    """
    if plan.role == "serving" and not plan.open_loop:
        amounts, width_s = _sliced(records, window, _output)
        series = [amount / width_s for amount in amounts] if width_s > 0 else []
    else:
        ordered = sorted(good, key=lambda r: r.done_s)
        series = [1.0 / tpot for r in ordered if (tpot := _tpot(r)) is not None]
    half = len(series) // 2
    return drift(series[:half], series[half:])


def _cache_hits(records: Sequence[RequestRecord]) -> float | None:
    """Share of the prompt tokens that the prefix cache held; None where the server is silent.

    Silence beside answers that tell is none: SGLang without speculation tells hits only.
    """
    total = sum(r.n_prompt_tok for r in records)
    if not total or all(r.n_cached_tok is None for r in records):
        return None
    return sum(r.n_cached_tok or 0 for r in records) / total


def _openings(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """The first request of each session: all it can find in a clean cache is a shared prefix."""
    first: dict[int, RequestRecord] = {}
    for record in sorted((r for r in records if r.ok), key=lambda r: r.sent_s):
        first.setdefault(record.session, record)
    return list(first.values())


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
