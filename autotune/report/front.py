"""``pareto.html``: the front as one self-contained page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autotune.core.ranking import Ranking, Standing
from autotune.core.trial import Flags
from autotune.space.rules import MEMORY, SHORT_NAMES

_STYLES = {
    "dominated": {"color": "#9aa5b1", "size": 9, "symbol": "circle"},
    "front": {"color": "#2563eb", "size": 12, "symbol": "circle"},
    "baseline": {"color": "#111827", "size": 14, "symbol": "diamond"},
    "best": {"color": "#16a34a", "size": 18, "symbol": "star"},
    "infeasible": {"color": "#d1d5db", "size": 9, "symbol": "x"},
}


_UNNAMED = ("dominated", "infeasible")


def short_flags(flags: Flags) -> str:
    """``4-1-5 · 0.91``: steps, topk and draft tokens as the field writes them, then the rest."""
    tree_names = [name for name in SHORT_NAMES if name != MEMORY]
    tree = "-".join(str(flags[name]) for name in tree_names if name in flags)
    rest = [str(value) for name, value in flags.items() if name not in tree_names]
    return " · ".join(part for part in (tree, *rest) if part)


def describe_flags(flags: Flags) -> str:
    """``steps 4 · topk 1 · draft 5 · mem 0.91``; other flags by their full names."""
    return " · ".join(f"{SHORT_NAMES.get(name, name)} {value}" for name, value in flags.items())


def front_figure(ranking: Ranking, title: str) -> Any:  # noqa: ANN401 (plotly has no types)
    """A plotly figure: every measured configuration with its interval, the front as a line."""
    import plotly.graph_objects as go

    figure = go.Figure()
    front = list(ranking.front)
    figure.add_trace(
        go.Scatter(
            x=[s.latency_s.value for s in front],
            y=[s.throughput_tok_s.value for s in front],
            mode="lines",
            line={"color": "#2563eb", "width": 2, "shape": "hv", "dash": "dot"},
            hoverinfo="skip",
            showlegend=False,
        )
    )
    for label, kind, members in _groups(ranking):
        if members:
            figure.add_trace(_points(go, label, kind, members))
    figure.update_layout(
        title={"text": title, "x": 0.02, "xanchor": "left"},
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 14},
        xaxis={"title": "one agent turn at C=1, seconds  (left is better)", "ticksuffix": " s"},
        yaxis={"title": "serving throughput, tokens/s  (up is better)", "tickformat": ","},
        legend={"orientation": "h", "y": -0.18},
        margin={"l": 80, "r": 30, "t": 80, "b": 90},
    )
    return figure


def _groups(ranking: Ranking) -> Iterable[tuple[str, str, list[Standing]]]:
    best, baseline = ranking.best, ranking.baseline
    special = [s for s in (best, baseline) if s is not None]
    front = [s for s in ranking.front if s not in special]
    rest = [s for s in ranking.standings if s not in special and s not in ranking.front]
    yield "outside a constraint", "infeasible", [s for s in rest if not s.feasible]
    yield "dominated", "dominated", [s for s in rest if s.feasible]
    yield "front", "front", front
    if baseline is not None and baseline is not best:
        yield f"baseline (trial {baseline.trial})", "baseline", [baseline]
    if best is not None:
        yield f"best for {ranking.objective.name} (trial {best.trial})", "best", [best]


def _points(go: Any, label: str, kind: str, members: list[Standing]) -> Any:  # noqa: ANN401
    latency = [s.latency_s for s in members]
    throughput = [s.throughput_tok_s for s in members]
    return go.Scatter(
        name=label,
        x=[v.value for v in latency],
        y=[v.value for v in throughput],
        mode="markers" if kind in _UNNAMED else "markers+text",
        text=[short_flags(s.flags) for s in members],
        textposition="top center",
        textfont={"size": 12, "color": "#334155"},
        marker=_STYLES[kind] | {"line": {"width": 1, "color": "white"}},
        error_x=_bars([v.high - v.value for v in latency], [v.value - v.low for v in latency]),
        error_y=_bars(
            [v.high - v.value for v in throughput], [v.value - v.low for v in throughput]
        ),
        customdata=[[s.trial, describe_flags(s.flags), s.gain_vs_baseline_pct] for s in members],
        hovertemplate=(
            "trial %{customdata[0]}: %{customdata[1]}<br>%{x:.3f} s · %{y:,.0f} tok/s<br>"
            "%{customdata[2]:+.1f} % against the baseline<extra></extra>"
        ),
    )


def _bars(above: list[float], below: list[float]) -> dict[str, Any]:
    return {
        "type": "data", "symmetric": False, "array": above, "arrayminus": below,
        "color": "rgba(100,116,139,0.35)", "thickness": 1.2, "width": 3,
    }  # fmt: skip


def front_page(ranking: Ranking, study: str, *, simulated: bool) -> str:
    """The whole HTML document, plotly included: it needs no network."""
    note = " · simulated server" if simulated else ""
    title = f"{study}{note}<br><sup>{_headline(ranking)}</sup>"
    page: str = front_figure(ranking, title).to_html(
        include_plotlyjs=True, full_html=True, default_height="100vh", config={"displaylogo": False}
    )
    head = f"<head><title>{study}: Pareto front</title><style>body {{ margin: 0 }}</style>"
    return page.replace("<head>", head, 1).replace("<html>", '<html lang="en">', 1)


def _headline(ranking: Ranking) -> str:
    best = ranking.best
    if best is None:
        return "no feasible configuration yet"
    gain = f"{best.gain_vs_baseline_pct:+.1f} % against the baseline"
    return f"best for {ranking.objective.name}: {describe_flags(best.flags)} ({gain})"
