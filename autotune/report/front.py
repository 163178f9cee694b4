"""The Pareto front as a figure: every measured configuration with its intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from autotune.core.ranking import Ranking, Standing
from autotune.report.figure import AMBER, BLUE, GREEN, GREY, TEAL, VIOLET, Figure, bars, canvas
from autotune.report.labels import Frame, spots
from autotune.space.rules import SHORT_NAMES
from autotune.study import words

_STYLES: dict[str, dict[str, Any]] = {
    "infeasible": {"color": GREY, "size": 9, "symbol": "x"},
    "dominated": {"color": TEAL, "size": 8, "symbol": "circle-open"},
    "perhaps": {"color": BLUE, "size": 11, "symbol": "circle-open"},
    "front": {"color": BLUE, "size": 12, "symbol": "circle"},
    "knee": {"color": VIOLET, "size": 14, "symbol": "square"},
    "baseline": {"color": AMBER, "size": 15, "symbol": "diamond"},
    "reference": {"color": AMBER, "size": 12, "symbol": "triangle-down-open"},
    "best": {"color": GREEN, "size": 19, "symbol": "star"},
}  # fmt: skip
_Group = tuple[str, str, list[Standing]]
"""Name in the legend, style, and members."""
_NAMED = ("front", "knee", "baseline", "best", "reference")
_FIRST_LABELS = ("best", "baseline", "knee", "front")
"""Whose words are placed first; the others' find what room is left."""
_MOST_LABELS = 24
_MOST_BARS = 100
"""More points than these hide each other under their error bars: only named ones keep theirs."""


def front_figure(ranking: Ranking) -> Figure:
    """Latency against throughput; the front as steps."""
    figure = canvas(
        "one agent turn at C=1, seconds (left is better)",
        "serving throughput, tokens/s (up is better)",
        hovermode="closest",
        yaxis_tickformat=",",
    )
    import plotly.graph_objects as go

    front = ranking.front
    figure.add_trace(
        go.Scatter(
            x=[s.latency_s.value for s in front], y=[s.throughput_tok_s.value for s in front],
            mode="lines", line={"color": BLUE, "width": 2, "shape": "hv", "dash": "dot"},
            hoverinfo="skip", showlegend=False, name="front",
        )
    )  # fmt: skip
    few = len(ranking.standings) <= _MOST_BARS
    groups = [group for group in _groups(ranking) if group[2]]
    labels = _labels(ranking, groups)
    for label, kind, members in groups:
        with_bars = few or kind in _NAMED
        figure.add_trace(_points(label, kind, members, labels, ranking.rival, with_bars=with_bars))
    label = (
        f"Pareto front: {len(front)} of {len(ranking.standings)} measured configurations, "
        "latency of one turn against serving throughput"
    )
    return Figure("front", label, figure, height_px=520)


def _groups(ranking: Ranking) -> Iterable[_Group]:
    """Those drawn last lie on top."""
    best, baseline, knee = ranking.best, ranking.baseline, ranking.knee
    front, perhaps = {s.trial for s in ranking.front}, {s.trial for s in ranking.perhaps}
    named = {s.trial for s in (best, baseline, knee) if s is not None}
    rest = [s for s in ranking.standings if s.trial not in named]
    inside = [s for s in rest if s.feasible and s.trial not in front]
    yield "outside a constraint", "infeasible", [s for s in rest if not s.feasible]
    yield "dominated", "dominated", [s for s in inside if s.trial not in perhaps]
    yield "off the front by noise only", "perhaps", [s for s in inside if s.trial in perhaps]
    yield "front", "front", [s for s in rest if s.trial in front]
    if ranking.reference is not None:
        yield "speculation off (click to show)", "reference", [ranking.reference]
    if knee is not None and knee.trial not in {s.trial for s in (best, baseline) if s}:
        yield f"knee (trial {knee.trial})", "knee", [knee]
    if baseline is not None and (best is None or baseline.trial != best.trial):
        outside = "" if baseline.feasible else ", outside a constraint"
        kind = "baseline" if baseline.feasible else "infeasible"
        yield f"baseline (trial {baseline.trial}{outside})", kind, [baseline]
    if best is not None:
        also = [
            word
            for word, other in (("baseline", baseline), ("knee", knee))
            if other is not None and other.trial == best.trial
        ]
        extra = f", also {' and '.join(also)}" if also else ""
        yield (
            f"best for {escape(ranking.objective.name)} (trial {best.trial}{extra})",
            "best",
            [best],
        )


def _labels(ranking: Ranking, groups: Sequence[_Group]) -> dict[int, str]:
    """Where the flags of a trial stand beside its point; those without room are not there."""
    shown = [s for s in ranking.standings if s is not ranking.reference]
    if not shown:
        return {}
    by_kind = {kind: members for _, kind, members in groups}
    named = [s for kind in _FIRST_LABELS for s in by_kind.get(kind, [])][:_MOST_LABELS]
    xs, ys = [s.latency_s for s in shown], [s.throughput_tok_s for s in shown]
    frame = Frame(
        min(v.low for v in xs), max(v.high for v in xs),
        min(v.low for v in ys), max(v.high for v in ys),
    )  # fmt: skip
    others = [s.point for s in shown if s not in named]
    found = spots([s.point for s in named], [_short(s) for s in named], frame, others)
    return {s.trial: spot for s, spot in zip(named, found, strict=True) if spot is not None}


def _short(standing: Standing) -> str:
    """The flags that the field knows by heart; all of them where there are none of those."""
    known = {name: value for name, value in standing.flags.items() if name in SHORT_NAMES}
    return words.tree(known or standing.flags)


def _points(
    label: str,
    kind: str,
    members: Sequence[Standing],
    labels: Mapping[int, str],
    rival: str,
    *,
    with_bars: bool,
) -> Any:  # noqa: ANN401
    import plotly.graph_objects as go

    latency = [s.latency_s for s in members]
    throughput = [s.throughput_tok_s for s in members]
    style = _STYLES[kind]
    named = any(s.trial in labels for s in members)
    return go.Scatter(
        name=label,
        x=[v.value for v in latency],
        y=[v.value for v in throughput],
        mode="markers+text" if named else "markers",
        text=[escape(_short(s)) if s.trial in labels else "" for s in members] if named else None,
        textposition=[labels.get(s.trial, "top center") for s in members] if named else None,
        textfont={"size": 11},
        marker=style,
        error_x=bars(latency, style["color"]) if with_bars else None,
        error_y=bars(throughput, style["color"]) if with_bars else None,
        customdata=[_told(s) for s in members],
        meta=kind,
        # Speculation off lies so far away that it would squeeze all others into a corner.
        visible="legendonly" if kind == "reference" else True,
        hovertemplate=(
            "<b>trial %{customdata[0]}</b>: %{customdata[1]}<br>"
            "turn at C=1: %{x:.3f} s (%{customdata[3]})<br>"
            "throughput: %{y:,.0f} tok/s (%{customdata[4]})<br>"
            f"%{{customdata[2]}} against {rival}<extra></extra>"
        ),
    )


def _told(s: Standing) -> list[Any]:
    lat, thr = s.latency_s, s.throughput_tok_s
    flags = escape(words.flags(s.flags)) or "speculation off"
    return [
        s.trial, flags if s.feasible else f"{flags} (outside a constraint)",
        words.gain(s.gain_vs_baseline_pct), f"{lat.low:.3f} to {lat.high:.3f}",
        f"{thr.low:,.0f} to {thr.high:,.0f}",
    ]  # fmt: skip
