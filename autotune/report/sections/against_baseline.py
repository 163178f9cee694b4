"""Winner against baseline, metric by metric, with intervals."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.compare import is_tie, ratio_change
from autotune.core.trial import Interval
from autotune.report.html import Child, table, tag
from autotune.report.section import Section
from autotune.report.subject import Configuration, Subject

_METRICS = (
    ("output_tok_s", "throughput of all requests", "tok/s", True),
    ("decode_tok_s", "decode speed of one request", "tok/s", True),
    ("ttft_s", "time to first token", "s", False),
    ("tpot_s", "time per output token", "ms", False),
    ("turn_latency_s", "one turn", "s", False),
)
"""Metric of a phase, its name for people, unit, and whether more is better."""


def section(subject: Subject) -> Section | None:
    best, base = subject.ranking.best, subject.ranking.baseline
    if best is None or base is None or best.trial == base.trial:
        return None
    winner, baseline = subject.of(best), subject.of(base)
    rows = list(_rows(subject, winner, baseline))
    accept = winner.accept_length, baseline.accept_length
    if all(accept):
        rows.append(["accept length", f"{accept[1]:.2f}", f"{accept[0]:.2f}", "", ""])
    for name, title in (
        ("max_running_requests", "requests that run at once"),
        ("max_total_num_tokens", "tokens in the KV pool"),
    ):
        values = baseline.effective(name), winner.effective(name)
        if values[0] is not None and values[1] is not None:
            rows.append([title, f"{values[0]:,.0f}", f"{values[1]:,.0f}", "", ""])
    lead = (
        "The same prompts on both. ± is half of the 95 % interval; a change whose interval holds "
        "zero, or of less than half a percent, is a tie."
    )
    n = len(best.trials)
    head = ("", f"baseline (trial {base.trial})", f"winner (trial {best.trial})", "change", "")
    caption = f"Winner measured on {n} launch{'es' if n > 1 else ''}"
    return Section("against", "Winner against baseline", lead, (table(head, rows, caption),))


def _rows(
    subject: Subject, winner: Configuration, baseline: Configuration
) -> Iterator[list[Child]]:
    for concurrency in subject.concurrencies:
        for metric, title, unit, more_is_better in _METRICS:
            if metric == "output_tok_s" and concurrency == 1:
                continue
            values = baseline.pooled(concurrency, metric), winner.pooled(concurrency, metric)
            if values[0] is None or values[1] is None:
                continue
            yield [
                f"C={concurrency}: {title}", _value(values[0], unit), _value(values[1], unit),
                *_change(values[0], values[1], more_is_better),
            ]  # fmt: skip


def _value(interval: Interval, unit: str) -> str:
    percent = 100 * interval.half_width_frac
    scaled = interval.value * (1000 if unit == "ms" else 1)
    digits = f"{scaled:.3f}" if unit == "s" else f"{scaled:,.{0 if scaled >= 100 else 1}f}"
    return f"{digits} {unit} ± {percent:.{1 if percent < 1 else 0}f} %"


def _change(before: Interval, after: Interval, more_is_better: bool) -> tuple[Child, Child]:
    change = ratio_change(before, after)
    told = f"{100 * change.value:+.1f} % ({100 * change.low:+.1f} to {100 * change.high:+.1f})"
    if is_tie(before, after):
        return told, tag("span", "tie", class_="tie")
    better = (change.value > 0) == more_is_better
    word = "better" if better else "worse"
    return told, tag("span", word, class_=word)
