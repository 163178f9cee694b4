"""Latency distributions of winner and baseline: what the slow requests see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from autotune.core.trial import Phase
from autotune.report.figure import AMBER, GREEN, Figure, canvas
from autotune.report.html import Child, tag
from autotune.report.section import Section, side_by_side
from autotune.report.subject import Configuration, Subject

_METRICS = {
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "turn_latency_s": "one turn",
}
_SHARES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}
_TICKS = (0, 25, 50, 75, 90, 100)
_SECONDS_FROM = 2.0
"""From here on a figure counts in seconds, below in milliseconds."""

_Shown = tuple[str, str, Configuration]
"""Name, colour, and the launches."""
_Curve = Mapping[float, float]
"""Percent of the requests to the seconds that they took at most."""


def section(subject: Subject) -> Section | None:
    shown = list(_shown(subject))
    body: list[Child] = []
    figures: list[Figure] = []
    for concurrency in subject.concurrencies:
        row = [
            figure
            for metric in _METRICS
            if (figure := _figure(shown, concurrency, metric)) is not None
        ]
        if row:
            body.append(side_by_side(row, in_three=True))
            figures += row
    if not figures:
        return None
    lead = (
        "How many of the requests were served in so much time or less: further left is better, "
        "and what reaches far to the right at the top is what a few had to wait for."
    )
    if not all(p.quantiles for _, _, c in shown for r in c.records for p in r.phases):
        note = "Records of earlier versions keep four percentiles: their curves begin at half."
        body.append(tag("p", note, class_="note"))
    return Section("latency", "Latency distributions", lead, tuple(body), tuple(figures))


def _shown(subject: Subject) -> Iterator[_Shown]:
    best, base = subject.ranking.best, subject.ranking.baseline
    if best is None:
        return
    if base is None or base.trial == best.trial:
        name = "winner" if base is None else "baseline, the winner"
        yield f"{name} (trial {best.trial})", GREEN, subject.of(best)
        return
    baseline, winner = subject.compared
    yield f"winner (trial {best.trial})", GREEN, winner
    yield f"baseline (trial {base.trial})", AMBER, baseline


def _figure(shown: Sequence[_Shown], concurrency: int, metric: str) -> Figure | None:
    import plotly.graph_objects as go

    curves = [(name, colour, _curve(c.phases(concurrency), metric)) for name, colour, c in shown]
    known = [(name, colour, curve) for name, colour, curve in curves if curve]
    if not known:
        return None
    most = max(value for _, _, curve in known for value in curve.values())
    scale, unit, digits = (1.0, "s", ".3~f") if most >= _SECONDS_FROM else (1e3, "ms", ",.3~r")
    figure = canvas(
        unit, "requests", hovermode="closest", xaxis_rangemode="tozero",
        yaxis={"range": [0, 102], "tickvals": _TICKS, "ticktext": [f"{n} %" for n in _TICKS]},
    )  # fmt: skip
    for name, colour, curve in known:
        figure.add_trace(
            go.Scatter(
                x=[scale * value for value in curve.values()], y=list(curve), name=name,
                mode="lines" if 0.0 in curve else "lines+markers",
                line={"color": colour, "width": 2},
                hovertemplate=f"%{{y:.0f}} % in %{{x:{digits}}} {unit} or less"
                              f"<extra>{name}</extra>",
            )
        )  # fmt: skip
    label = f"{_METRICS[metric].capitalize()} at C={concurrency}"
    return Figure(f"latency-{metric.removesuffix('_s')}-{concurrency}", label, figure, 260)


def _curve(phases: Sequence[Phase], metric: str) -> _Curve:
    """The distribution, quantile by quantile the mean over launches; of old records its top."""
    whole = [p.quantiles[metric] for p in phases if p.quantiles.get(metric)]
    if whole:
        last = len(whole[0]) - 1
        means = [fmean(column) for column in zip(*whole, strict=False)]
        return {100.0 * i / last: value for i, value in enumerate(means)}
    tops = [p.percentiles[metric] for p in phases if p.percentiles.get(metric)]
    return {
        share: fmean(top[mark] for top in tops)
        for mark, share in _SHARES.items()
        if tops and all(mark in top for top in tops)
    }
