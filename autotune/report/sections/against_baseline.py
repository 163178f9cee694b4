"""Winner against baseline, metric by metric, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.core.compare import ratio_change, verdict_of
from autotune.core.trial import Interval
from autotune.report.html import Child, Safe, scrolling, tag
from autotune.report.section import Section
from autotune.report.subject import Configuration, Subject
from autotune.study import words

_METRICS = (
    ("output_tok_s", "throughput of all requests", "tok/s", True),
    ("decode_tok_s", "decode speed of one request", "tok/s", True),
    ("ttft_s", "time to first token", "s", False),
    ("tpot_s", "time per output token", "ms", False),
    ("turn_latency_s", "one turn", "s", False),
)
"""Metric of a phase, its name for people, unit, and whether more is better."""
_SERVER = (
    ("max_running_requests", "requests that run at once"),
    ("max_total_num_tokens", "tokens in the KV pool"),
)


def section(subject: Subject) -> Section | None:
    best, base = subject.ranking.best, subject.ranking.baseline
    if best is None or base is None or best.trial == base.trial:
        return None
    baseline, winner = subject.compared
    n = len(winner.records)
    launches = f"{n} fresh launch" if subject.is_confirmed_on else f"{n} launch"
    caption = f"Winner measured on {launches}{'es' if n > 1 else ''}"
    if subject.is_confirmed_on:
        caption += ", in turns with the baseline, on prompts new to the search"
    lead = (
        "The same prompts on both. ± is half of the 95 % interval; a change whose interval holds "
        "zero, or of less than half a percent, is a tie."
    )
    titles = ("", f"baseline (trial {base.trial})", f"winner (trial {best.trial})", "change",
              "95 % interval", "")  # fmt: skip
    head = tag("thead", tag("tr", [tag("th", title, scope="col") for title in titles]))
    groups = [_group(f"C={c}", list(_rows(baseline, winner, c))) for c in subject.concurrencies]
    groups.append(_group("server", list(_server(baseline, winner, subject.serving))))
    whole = scrolling(caption, head, groups, class_="grouped")
    return Section("against", "Winner against baseline", lead, (whole,))


def _group(title: str, rows: list[list[Child]]) -> Safe | None:
    """The rows of one load under its name."""
    if not rows:
        return None
    head = tag("tr", tag("th", title, colspan=6, scope="rowgroup"), class_="group")
    body = [
        tag("tr", tag("th", first, scope="row"), [tag("td", cell) for cell in rest])
        for first, *rest in rows
    ]
    return tag("tbody", head, body)


def _rows(
    baseline: Configuration, winner: Configuration, concurrency: int
) -> Iterator[list[Child]]:
    for metric, title, unit, more_is_better in _METRICS:
        if metric == "output_tok_s" and concurrency == 1:
            continue
        values = baseline.pooled(concurrency, metric), winner.pooled(concurrency, metric)
        if values[0] is not None and values[1] is not None:
            change = _change(values[0], values[1], more_is_better)
            yield [title, _value(values[0], unit), _value(values[1], unit), *change]


def _server(
    baseline: Configuration, winner: Configuration, serving: Sequence[int]
) -> Iterator[list[Child]]:
    told = [("accept length", ".2f", baseline.accept_length, winner.accept_length)]
    told += [(title, ",.0f", baseline.effective(n), winner.effective(n)) for n, title in _SERVER]
    if serving:
        of_pool = [100 * (c.kv_used_frac(serving[-1]) or 0.0) for c in (baseline, winner)]
        told.append((f"KV pool in use at C={serving[-1]}, %", ".1f", of_pool[0], of_pool[1]))
    for title, digits, before, after in told:
        if before and after:
            change = words.gain(100 * (after / before - 1))
            yield [title, f"{before:{digits}}", f"{after:{digits}}", change, "", ""]


def _value(interval: Interval, unit: str) -> str:
    scaled = interval.value * (1000 if unit == "ms" else 1)
    digits = f"{scaled:.3f}" if unit == "s" else f"{scaled:,.{0 if scaled >= 100 else 1}f}"
    return f"{digits} {unit} {words.spread(interval)}"


def _change(before: Interval, after: Interval, more_is_better: bool) -> tuple[Child, ...]:
    change = ratio_change(before, after)
    told = words.gain(100 * change.value)
    ends = f"{words.gain(100 * change.low)} to {words.gain(100 * change.high)}"
    word = verdict_of(before, after, more_is_better=more_is_better)
    return told, ends, tag("span", word, class_=word)
