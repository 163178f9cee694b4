"""What each flag did: how much depends on it, and what it changes when it is moved alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from autotune.core.trial import FlagValue
from autotune.report.figure import BLUE, GREEN, GREY, Figure, canvas, faint
from autotune.report.html import Child, table
from autotune.report.section import Section, side_by_side
from autotune.report.subject import Subject
from autotune.search.curves import Effect, effects
from autotune.space.rules import SHORT_NAMES
from autotune.study import words

_ALIVE = 0.5


def section(subject: Subject) -> Section | None:
    best = subject.ranking.best
    if best is None or len(subject.ranking.standings) < 2:
        return None
    found = effects(subject.knowledge, best.flags)
    total = sum(effect.variance for effect in found)
    if not found or total <= 0:
        return None
    found.sort(key=lambda effect: -effect.variance)
    rows: list[list[Child]] = [_row(effect, total) for effect in found]
    head = ("flag", "importance", "best value", "worst value", "between them")
    figures = tuple(_figure(effect, best.flags.get(effect.flag)) for effect in found)
    lead = (
        f"Each flag moved alone from the recommended ones ({words.flags(best.flags)}), by the "
        "search's model, which has learned from all launches; where a rule ties flags together "
        "(draft tokens to steps, say) the others follow. Importance is the share of the variance "
        "of the score. A wide band means that few launches speak of it."
    )
    body = (table(head, rows, "Importance of the flags"), side_by_side(figures))
    return Section("effects", "What each flag did", lead, body, figures)


def _row(effect: Effect, total: float) -> list[Child]:
    alive = [
        (change.value, value)
        for change, value, p in zip(effect.change, effect.values, effect.survival, strict=True)
        if p >= _ALIVE
    ] or [(change.value, v) for change, v in zip(effect.change, effect.values, strict=True)]
    high, low = max(alive, key=lambda pair: pair[0]), min(alive, key=lambda pair: pair[0])
    return [
        effect.flag, f"{100 * effect.variance / total:.0f} %", str(high[1]), str(low[1]),
        f"{100 * math.expm1(high[0] - low[0]):.1f} %",
    ]  # fmt: skip


def _figure(effect: Effect, chosen: FlagValue | None) -> Figure:
    import plotly.graph_objects as go

    x = _axis(effect.values)
    percent = [
        [100 * math.expm1(getattr(change, side)) for change in effect.change]
        for side in ("low", "value", "high")
    ]
    figure = canvas(
        effect.flag, "change of the score", hovermode="x unified", yaxis_ticksuffix=" %",
        showlegend=True,
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(x=[*x, *reversed(x)], y=[*percent[2], *reversed(percent[0])], fill="toself",
                   fillcolor=faint(BLUE, 0.18), mode="lines", line={"width": 0},
                   hoverinfo="skip",
                   name="95 % band")
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(x=x, y=percent[1], mode="lines+markers", line={"color": BLUE},
                   marker={"color": [BLUE if p >= _ALIVE else GREY for p in effect.survival]},
                   customdata=[100 * p for p in effect.survival], name="model",
                   hovertemplate="%{y:+.1f} %, a launch lives with %{customdata:.0f} %")
    )  # fmt: skip
    if chosen in effect.values:
        at = effect.values.index(chosen)
        figure.add_trace(
            go.Scatter(x=[x[at]], y=[percent[1][at]], mode="markers", name="recommended",
                       marker={"color": GREEN, "size": 14, "symbol": "star"}, hoverinfo="skip")
        )  # fmt: skip
    name = SHORT_NAMES.get(effect.flag, effect.flag)
    return Figure(f"effect-{name}", f"{effect.flag} moved alone", figure, height_px=320)


def _axis(values: Sequence[FlagValue]) -> list[FlagValue]:
    """Numbers as they are; words and switches as labels."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return list(values)
    return [escape(str(value)) for value in values]
