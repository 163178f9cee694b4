"""Best so far and hypervolume against launches and against GPU-minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autotune.core.ranking import Standing, beyond
from autotune.report.figure import BLUE, GREEN, GREY, RED, Figure, canvas
from autotune.report.section import Section, side_by_side
from autotune.report.subject import Subject
from autotune.study.budget import gpu_hours

_FEW = 12


@dataclass(frozen=True, slots=True)
class Moment:
    """After one launch: its own gain if it has one, the best so far, and the area of the front."""

    trial: int
    minutes: float
    gain_pct: float | None
    best_pct: float | None
    area_frac: float | None
    failed: bool


def section(subject: Subject) -> Section | None:
    if len(subject.records) < 2 or not subject.ranking.standings:
        return None
    story = moments(subject)
    minutes = "simulated GPU-minutes" if subject.view.is_simulated else "GPU-minutes"
    figures = tuple(
        figure
        for against, title in (("launches", "launches"), ("minutes", minutes))
        for figure in (_best(story, against, title), _area(story, against, title))
    )
    lead = (
        "How fast the study got there. The hypervolume is the area of the front beyond the "
        "baseline, as a share of its latency times its throughput: only what beats the baseline at "
        "both goals adds to it."
    )
    return Section("progress", "Progress", lead, (side_by_side(figures),), figures)


def moments(subject: Subject) -> list[Moment]:
    """One for each record, in their order; a configuration counts from its first launch on."""
    base = subject.ranking.baseline
    standings = {t: s for s in subject.ranking.standings for t in s.trials}
    known: list[Standing] = []
    best: float | None = None
    area: float | None = None
    story, minutes = [], 0.0
    for n, record in enumerate(subject.records, start=1):
        minutes += 60 * gpu_hours([record])
        standing = standings.get(record.number)
        gain = standing.gain_vs_baseline_pct if standing else None
        if standing is not None and standing.feasible:
            best = max(standing.gain_vs_baseline_pct, best if best is not None else -1e9)
            known.append(standing)
            area = beyond(known, base.point) if base else None
            known = _front(known)
        story.append(Moment(n, minutes, gain, best, area, record.status == "failed"))
    return story


def _front(standings: Sequence[Standing]) -> list[Standing]:
    """What dominated ones add is nothing: long studies stay quick."""
    from autotune.core import pareto

    return [standings[i] for i in pareto.front([s.point for s in standings])]


def _x(moment: Moment, against: str) -> float:
    return float(moment.trial) if against == "launches" else moment.minutes


def _whole(figure: Any, story: Sequence[Moment], against: str) -> None:  # noqa: ANN401
    """No half launches on an axis of few."""
    if against == "launches" and len(story) <= _FEW:
        figure.update_xaxes(dtick=1)


def _best(story: Sequence[Moment], against: str, title: str) -> Figure:
    import plotly.graph_objects as go

    figure = canvas(title, "gain against the baseline", yaxis_ticksuffix=" %", hovermode="closest")
    _whole(figure, story, against)
    own = [m for m in story if m.gain_pct is not None]
    figure.add_trace(
        go.Scatter(x=[_x(m, against) for m in own], y=[m.gain_pct for m in own], mode="markers",
                   marker={"color": GREY, "size": 7}, name="one launch",
                   hovertemplate="launch %{x:.0f}: %{y:+.1f} %<extra></extra>")
    )  # fmt: skip
    led = [m for m in story if m.best_pct is not None]
    figure.add_trace(
        go.Scatter(x=[_x(m, against) for m in led], y=[m.best_pct for m in led], mode="lines",
                   line={"color": GREEN, "shape": "hv", "width": 2.5}, name="best so far",
                   hovertemplate="best so far %{y:+.1f} %<extra></extra>")
    )  # fmt: skip
    failed = [m for m in story if m.failed]
    if failed:
        floor = min((m.gain_pct for m in own if m.gain_pct is not None), default=0.0)
        figure.add_trace(
            go.Scatter(x=[_x(m, against) for m in failed], y=[floor] * len(failed), mode="markers",
                       marker={"color": RED, "symbol": "x", "size": 8}, name="failed (no value)",
                       hoverinfo="name")
        )  # fmt: skip
    return Figure(f"best-{against}", f"Best so far against {title}", figure, height_px=300)


def _area(story: Sequence[Moment], against: str, title: str) -> Figure:
    import plotly.graph_objects as go

    figure = canvas(title, "hypervolume", yaxis_ticksuffix=" %",
                    yaxis_rangemode="nonnegative")  # fmt: skip
    _whole(figure, story, against)
    known = [m for m in story if m.area_frac is not None]
    figure.add_trace(
        go.Scatter(x=[_x(m, against) for m in known],
                   y=[100 * (m.area_frac or 0.0) for m in known], mode="lines",
                   line={"color": BLUE, "shape": "hv", "width": 2.5}, name="hypervolume",
                   hovertemplate="%{y:.3~g} %<extra></extra>", showlegend=False)
    )  # fmt: skip
    return Figure(f"area-{against}", f"Hypervolume against {title}", figure, height_px=300)
