"""The best configuration for each concurrency, and where two of them cross."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from html import escape

from autotune.core.compare import is_tie
from autotune.core.trial import Interval
from autotune.report.figure import SERIES, Figure, bars, canvas
from autotune.report.html import Child, table, tag
from autotune.report.section import Section
from autotune.report.subject import Configuration, Subject
from autotune.study import words

_MOST = 6


def section(subject: Subject) -> Section | None:
    loads = subject.concurrencies
    configurations = [c for c in subject.configurations if c.standing.feasible]
    if len(loads) < 2 or len(configurations) < 2:
        return None
    winners = {load: _best_at(configurations, load) for load in loads}
    rows: list[list[Child]] = []
    for load, winner in winners.items():
        value = winner.pooled(load, "output_tok_s") if winner else None
        if winner is None or value is None:
            continue
        rivals = [
            c.standing.trial
            for c in configurations
            if c is not winner and (v := c.pooled(load, "output_tok_s")) and is_tie(value, v)
        ]
        tied = f"ties with {', '.join(map(str, rivals[:6]))}" if rivals else "alone"
        flags = tag("td", words.flags(winner.standing.flags), class_="words")
        told = f"{value.value:,.0f} tok/s ± {100 * value.half_width_frac:.0f} %"
        rows.append([f"C={load}", str(winner.standing.trial), flags, told, tied])
    drawn = _drawn(subject, [w for w in winners.values() if w])
    figure = _figure(drawn, loads)
    crossings = [tag("p", text, class_="note") for text in _crossings(drawn, loads)]
    flags = tag("th", "flags", scope="col", class_="words")
    head = ("", "trial", flags, "throughput", "within the noise")
    body = (table(head, rows, "Most tokens/s in all"), figure.place(), *crossings)
    lead = "A deep draft helps one user and costs slots under load: the best flags depend on C."
    return Section("crossing", "Best for each concurrency", lead, body, (figure,))


def _best_at(configurations: Sequence[Configuration], load: int) -> Configuration | None:
    known = [(v.value, c) for c in configurations if (v := c.pooled(load, "output_tok_s"))]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def _drawn(subject: Subject, winners: Sequence[Configuration]) -> list[Configuration]:
    """The winners, the recommended one and the baseline, once each."""
    more = [subject.of(s) for s in (subject.ranking.best, subject.ranking.baseline) if s]
    return list({c.standing.trial: c for c in [*winners, *more]}.values())[:_MOST]


def _figure(drawn: Sequence[Configuration], loads: Sequence[int]) -> Figure:
    import plotly.graph_objects as go

    figure = canvas(
        "concurrency", "throughput against the best at this load",
        yaxis_ticksuffix=" %", hovermode="x unified",
        xaxis={"title": {"text": "concurrency"}, "type": "log", "tickvals": list(loads),
               "ticktext": [f"C={n}" for n in loads]},
    )  # fmt: skip
    most = {load: max(_values(drawn, load), default=1.0) for load in loads}
    for c, colour in zip(drawn, SERIES, strict=False):
        known = [(n, v) for n in loads if (v := c.pooled(n, "output_tok_s"))]
        scaled = [_percent_of(most[n], v) for n, v in known]
        figure.add_trace(
            go.Scatter(
                x=[n for n, _ in known], y=[v.value for v in scaled], mode="lines+markers",
                name=f"trial {c.standing.trial}: {escape(words.tree(c.standing.flags))}",
                line={"color": colour}, error_y=bars(scaled, colour),
                customdata=[v.value for _, v in known],
                hovertemplate="%{customdata:,.0f} tok/s (%{y:.0f} % of the best)",
            )
        )  # fmt: skip
    return Figure("crossing", "Throughput of the winners at each concurrency", figure)


def _percent_of(most: float, v: Interval) -> Interval:
    return Interval(*(100 * x / most for x in (v.value, v.low, v.high)))


def _values(drawn: Sequence[Configuration], load: int) -> list[float]:
    return [v.value for c in drawn if (v := c.pooled(load, "output_tok_s"))]


def _crossings(drawn: Sequence[Configuration], loads: Sequence[int]) -> list[str]:
    """Where the lead changes between neighbouring loads, interpolated on the log scale."""
    told = []
    for low, high in itertools.pairwise(loads):
        first, second = _best_at(drawn, low), _best_at(drawn, high)
        if first is None or second is None or first is second:
            continue
        gaps = []
        for load in (low, high):
            values = first.pooled(load, "output_tok_s"), second.pooled(load, "output_tok_s")
            if values[0] is None or values[1] is None:
                break
            gaps.append(math.log(values[0].value / values[1].value))
        if len(gaps) == 2 and gaps[0] > gaps[1]:
            share = gaps[0] / (gaps[0] - gaps[1])
            at = math.exp(math.log(low) + share * math.log(high / low))
            told.append(
                f"Trials {first.standing.trial} and {second.standing.trial} cross near C={at:.0f} "
                f"(between the loads measured, C={low} and C={high})."
            )
    return told
