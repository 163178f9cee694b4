"""Accept length and KV pressure against steps, with what the search's models believe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from autotune.core.trial import Flags, FlagValue, Interval
from autotune.report.figure import BLUE, GREY, SERIES, Figure, canvas, faint
from autotune.report.section import Section, side_by_side
from autotune.report.subject import Configuration, Subject
from autotune.search.curves import Curves, chain_curves
from autotune.space.rules import MEMORY, STEPS, TOPK
from autotune.study import words

_MORE_STEPS = 2


def section(subject: Subject) -> Section | None:
    chains = [c for c in subject.configurations if _steps(c) is not None]
    if not chains:
        return None
    last = max(_steps(c) or 0 for c in chains) + _MORE_STEPS
    curves = chain_curves(subject.knowledge, range(1, last + 1), _like(subject))
    like = words.flags({k: v for k, v in _like(subject).items() if k == MEMORY})
    at = f" at {like}" if like else ""
    figures = []
    most = max(subject.serving, default=1)
    for name, title, value, band in (
        ("accept", "accept length, tokens per verify pass", lambda c: c.accept_length,
         curves.accept_length),
        ("pressure", "requests that run at once",
         lambda c: c.effective("max_running_requests"), curves.running_limit),
        ("kv", f"share of the KV pool in use at C={most}", lambda c: _kv_used(c, most), ()),
    ):  # fmt: skip
        figure = _figure(subject, chains, curves, name, title, value, band)
        if figure is not None:
            figures.append(figure)
    if not figures:
        return None
    model = (
        f" The line is what the search's model believes of a chain (topk 1){at}, with its 95 % band"
        if curves.accept_length or curves.running_limit
        else " The search's model has nothing to say here"
    )
    lead = (
        "A deeper draft is accepted for longer, with less gain at each step, and takes memory from "
        f"the requests.{model}. Points with other flags may lie off it."
    )
    body = (side_by_side(figures),)
    return Section("steps", "What a step brings and costs", lead, body, tuple(figures))


def _steps(c: Configuration) -> int | None:
    value = c.standing.flags.get(STEPS)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _kv_used(c: Configuration, concurrency: int) -> float | None:
    share = c.kv_used_frac(concurrency)
    return None if share is None else 100 * share


def _like(subject: Subject) -> Flags:
    chosen = subject.ranking.best or subject.ranking.baseline or subject.ranking.standings[0]
    return chosen.flags


def _figure(
    subject: Subject,
    chains: Sequence[Configuration],
    curves: Curves,
    name: str,
    title: str,
    value: Callable[[Configuration], float | None],
    band: Sequence[Interval],
) -> Figure | None:
    import plotly.graph_objects as go

    known = [(c, v) for c in chains if (v := value(c)) is not None]
    if not known:
        return None
    figure = canvas("speculative_num_steps", title, hovermode="closest", xaxis_dtick=1)
    if band:
        _draw_band(figure, curves.steps, band)
    if name == "kv":
        figure.update_yaxes(rangemode="tozero", ticksuffix=" %")
    if name == "pressure":
        for concurrency in subject.serving:
            figure.add_hline(
                y=concurrency, line={"color": GREY, "dash": "dot"},
                annotation_text=f"C={concurrency} queues below", annotation_font_size=11,
            )  # fmt: skip
    topks: dict[FlagValue, list[tuple[Configuration, float]]] = {}
    for c, v in known:
        topks.setdefault(c.standing.flags.get(TOPK, 1), []).append((c, v))
    ordered = sorted(topks.items(), key=lambda item: str(item[0]))
    for (topk, points), colour in zip(ordered, SERIES[1:] * len(ordered), strict=False):
        figure.add_trace(
            go.Scatter(
                x=[_steps(c) for c, _ in points], y=[v for _, v in points], mode="markers",
                name=f"topk {topk}, measured", marker={"color": colour, "size": 9},
                customdata=[
                    [c.standing.trial, escape(words.flags(c.standing.flags))] for c, _ in points
                ],
                hovertemplate="trial %{customdata[0]}: %{customdata[1]}<br>%{y:.3g}<extra></extra>",
            )
        )  # fmt: skip
    label = f"{title[0].upper()}{title[1:]}, against steps"
    return Figure(name, label, figure, height_px=360)


def _draw_band(figure: Any, steps: Sequence[int], band: Sequence[Interval]) -> None:  # noqa: ANN401
    import plotly.graph_objects as go

    there_and_back = [*steps, *reversed(steps)]
    edge = [b.high for b in band] + [b.low for b in reversed(band)]
    figure.add_trace(
        go.Scatter(x=there_and_back, y=edge, fill="toself", fillcolor=faint(BLUE, 0.18),
                   mode="lines", line={"width": 0},
                   hoverinfo="skip", name="95 % band")
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(x=list(steps), y=[b.value for b in band], mode="lines", line={"color": BLUE},
                   name="model", hovertemplate="model: %{y:.3g}<extra></extra>")
    )  # fmt: skip
