"""Latency distributions of winner and baseline: what the slow requests see."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.report.figure import AMBER, GREEN, Figure, canvas
from autotune.report.html import Child, tag
from autotune.report.section import Section
from autotune.report.subject import Configuration, Subject

_METRICS = (
    ("ttft_s", "time to first token"),
    ("tpot_s", "time per output token"),
    ("turn_latency_s", "one turn"),
)
_SHARES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}


def section(subject: Subject) -> Section | None:
    best, base = subject.ranking.best, subject.ranking.baseline
    if best is None:
        return None
    shown = [(f"winner (trial {best.trial})", GREEN, subject.of(best))]
    if base is not None and base.trial != best.trial:
        shown.append((f"baseline (trial {base.trial})", AMBER, subject.of(base)))
    figures = [
        figure
        for concurrency in subject.concurrencies
        if (figure := _figure(shown, concurrency)) is not None
    ]
    if not figures:
        return None
    body: list[Child] = []
    for figure in figures:
        body += [tag("h3", figure.label), figure.place()]
    lead = (
        "Percentiles over the requests of the first launch: the 99th is what one request in a "
        "hundred waits for, or longer."
    )
    return Section("latency", "Latency distributions", lead, tuple(body), tuple(figures))


def _figure(shown: Sequence[tuple[str, str, Configuration]], concurrency: int) -> Figure | None:
    import plotly.graph_objects as go

    figure = canvas("", "", height=None)
    n_drawn = 0
    for name, colour, configuration in shown:
        phases = configuration.phases(concurrency)
        for place, (metric, title) in enumerate(_METRICS, start=1):
            known = phases[0].percentiles.get(metric, {}) if phases else {}
            marks = [share for share in _SHARES if share in known]
            if not marks:
                continue
            n_drawn += 1
            axis = "" if place == 1 else str(place)
            figure.add_trace(
                go.Scatter(
                    x=marks, y=[1000 * known[mark] for mark in marks], mode="lines+markers",
                    name=name, legendgroup=name, showlegend=place == 1, xaxis=f"x{axis}",
                    yaxis=f"y{axis}", line={"color": colour}, marker={"size": 8},
                    hovertemplate=f"{title}, %{{x}}: %{{y:,.1f}} ms<extra>{name}</extra>",
                )
            )  # fmt: skip
    if not n_drawn:
        return None
    for place, (_, title) in enumerate(_METRICS, start=1):
        axis = "" if place == 1 else str(place)
        left = (place - 1) * 0.36
        figure.update_layout(
            {
                f"xaxis{axis}": {"domain": [left, left + 0.28], "anchor": f"y{axis}",
                                 "title": {"text": title}},
                f"yaxis{axis}": {"anchor": f"x{axis}", "rangemode": "tozero", "ticksuffix": " ms",
                                 "title": {"text": ""}, "tickformat": ","},
            }
        )  # fmt: skip
    label = f"Latency percentiles at C={concurrency}"
    return Figure(f"latency-{concurrency}", label, figure, height_px=300)
