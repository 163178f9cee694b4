"""Our own panels among the dashboard's plots, each a plotly figure under an id that stays."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from autotune.report.figure import AMBER, BLUE, canvas
from autotune.report.front import front_figure
from autotune.report.sections import progress
from autotune.report.subject import Configuration, Subject
from autotune.space.rules import STEPS
from autotune.study import words

INK = "#6b7a90"
"""Letters with a contrast above 4 to 1 on the dashboard's white and on its dark ground."""
_GRID = "rgba(128,140,160,0.25)"
_TITLE_PX = 15
_AREA = "area-minutes"
_PROGRESS = ("best-launches", _AREA)


def panels(subject: Subject) -> list[dict[str, str]]:
    """As the dashboard's JSON lists them; none of a study without values."""
    if not subject.ranking.standings:
        return []
    simulated = " (SIMULATED)" if subject.view.is_simulated else ""
    front = front_figure(subject.ranking).drawing
    front.update_yaxes(title_text="throughput, tokens/s")  # longer words run into the title
    drawn: list[tuple[str, str, Any]] = [("autotune-front", "Front with 95 % intervals", front)]
    told = progress.section(subject)
    for figure in told.figures if told else ():
        if figure.name in _PROGRESS:
            if figure.name == _AREA:
                figure.drawing.update_yaxes(rangemode="nonnegative")
            drawn.append((f"autotune-{figure.name}", figure.label, figure.drawing))
    drawn.append(
        ("autotune-acceptance", "Accept length and KV pressure, by steps", _acceptance(subject))
    )
    return [
        {"id": name, "graph_object": _on_dashboard(figure, title + simulated).to_json()}
        for name, title, figure in drawn
        if figure is not None
    ]


def _on_dashboard(figure: Any, title: str) -> Any:  # noqa: ANN401 (plotly has no types)
    """With a title and colours for light and dark: the page gives a figure none of its own."""
    figure.update_layout(
        title={"text": title, "x": 0.01, "y": 0.98, "yanchor": "top",
               "font": {"size": _TITLE_PX}},
        font={"color": INK, "size": 11},
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        legend={"orientation": "h", "y": -0.18, "yanchor": "top", "x": 0, "font": {"size": 11}},
    )  # fmt: skip
    axes = {"gridcolor": _GRID, "zerolinecolor": _GRID, "linecolor": _GRID, "automargin": True}
    figure.update_xaxes(**axes)
    figure.update_yaxes(**axes)
    figure.update_traces(mode="markers", selector={"mode": "markers+text"})  # no room for words
    return figure


# ---- accept length and KV pressure ------------------------------------------------------------


def _acceptance(subject: Subject) -> Any:  # noqa: ANN401
    """What deeper drafts bring and what they cost; None where steps are not searched."""
    found = [c for c in subject.configurations if STEPS in c.standing.flags]
    if not found:
        return None
    figure = canvas(
        "draft steps",
        "accept length, tokens per verify pass",
        hovermode="closest",
        yaxis2={
            "title": {"text": "tokens in the KV pool"}, "overlaying": "y", "side": "right",
            "showgrid": False, "rangemode": "tozero", "tickformat": ",",
        },
        yaxis_rangemode="tozero",
        xaxis_dtick=1,
    )  # fmt: skip
    accepted = [(c, c.accept_length) for c in found if c.accept_length is not None]
    pools = [(c, c.effective("max_total_num_tokens")) for c in found]
    figure.add_trace(_by_steps("accept length", BLUE, "circle", accepted))
    pooled = [(c, tokens) for c, tokens in pools if tokens is not None]
    figure.add_trace(_by_steps("KV pool", AMBER, "square-open", pooled, yaxis="y2"))
    return figure


def _by_steps(
    name: str,
    colour: str,
    symbol: str,
    values: Sequence[tuple[Configuration, float]],
    yaxis: str = "y",
) -> Any:  # noqa: ANN401
    import plotly.graph_objects as go

    return go.Scatter(
        x=[c.standing.flags[STEPS] for c, _ in values],
        y=[value for _, value in values],
        name=name, yaxis=yaxis, mode="markers",
        marker={"color": colour, "symbol": symbol, "size": 9},
        customdata=[[c.standing.trial, escape(words.flags(c.standing.flags)), _pressure(c)]
                    for c, _ in values],
        hovertemplate=(
            "trial %{customdata[0]}: %{customdata[1]}<br>"
            f"{name} %{{y:,.4~g}}<br>%{{customdata[2]}}<extra></extra>"
        ),
    )  # fmt: skip


def _pressure(configuration: Configuration) -> str:
    """How many requests the KV memory lets run, and what happened for want of it."""
    phases = [phase for record in configuration.records for phase in record.phases]
    limit = configuration.effective("max_running_requests")
    waiting = [p.waiting_mean for p in phases if p.waiting_mean is not None]
    retracted = [p.n_retractions for p in phases if p.n_retractions is not None]
    used = [p.kv_used_frac for p in phases if p.kv_used_frac is not None]
    parts = []
    if limit is not None:
        parts.append(f"{limit:,.0f} requests run at once")
    if used:
        parts.append(f"up to {100 * max(used):.0f} % of the pool in use")
    if waiting:
        parts.append(f"up to {max(waiting):.1f} waited")
    if retracted:
        parts.append(f"{sum(retracted)} retractions")
    return ", ".join(parts)
