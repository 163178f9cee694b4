"""The front, and a slider for the weight that names the winner under it."""

from __future__ import annotations

import json
from typing import Any

from autotune.core.objective import PRESETS, Objective
from autotune.core.ranking import Ranking
from autotune.report.front import front_figure
from autotune.report.html import Child, Safe, tag
from autotune.report.section import Section
from autotune.report.subject import Subject
from autotune.study import words

_STEPS = 100


def section(subject: Subject) -> Section | None:
    ranking = subject.ranking
    if not ranking.standings:
        return None
    figure = front_figure(ranking)
    body: list[Child] = [figure.place(), *_remarks(ranking)]
    if ranking.best is not None:
        body.append(_slider(ranking))
    lead = (
        "Each point is a configuration, its bars the 95 % intervals. The front joins those that no "
        "other beats at both goals; left and up is better. Click a name in the legend to hide it."
    )
    return Section("front", "What can be had", lead, tuple(body), (figure,))


def _remarks(ranking: Ranking) -> list[Child]:
    told: list[Child] = []
    if ranking.ties:
        pairs = ", ".join(f"{a.trial} and {b.trial}" for a, b in ranking.ties[:12])
        more = f" and {len(ranking.ties) - 12} more pairs" if len(ranking.ties) > 12 else ""
        told.append(tag("p", f"The same within the noise: trials {pairs}{more}.", class_="note"))
    if ranking.perhaps:
        numbers = words.first_of([s.trial for s in ranking.perhaps])
        s = "" if len(ranking.perhaps) == 1 else "s"
        told.append(
            tag("p", f"Off the front by no more than the noise: trial{s} {numbers}.",
                class_="note")
        )  # fmt: skip
    return told


def _slider(ranking: Ranking) -> Safe:
    own = ranking.objective.latency_weight
    at = round(own * _STEPS)
    presets = ", ".join(f"{o.name} {o.latency_weight:g}" for o in PRESETS.values())
    return tag(
        "div",
        tag("label", "How much one agent's latency counts; the rest is throughput's",
            for_="weight"),
        tag("div",
            tag("span", "full box"),
            tag("input", id="weight", type="range", min="0", max=_STEPS, step="1", value=at,
                aria_describedby="winner", data_own=at),
            tag("span", "fast agent"), class_="range"),
        tag("p", _sentence(_choice(ranking, own, at), at), id="winner", role="status",
            aria_live="polite"),
        tag("p", f"Gains as measured in the search. Presets: {presets}. The same after the run: "
            "autotune pareto --weight latency=W.",
            class_="note"),
        Safe(f'<script type="application/json" id="winners">{_winners(ranking)}</script>'),
        class_="slider",
    )  # fmt: skip


def _winners(ranking: Ranking) -> str:
    """The choice under each weight 0.00, 0.01 … 1.00; that of the study's own stands as it is."""
    own = round(ranking.objective.latency_weight * _STEPS)
    choices = [
        _choice(ranking, ranking.objective.latency_weight if i == own else i / _STEPS, i)
        for i in range(_STEPS + 1)
    ]
    return json.dumps(choices).replace("<", "\\u003c")


def _choice(ranking: Ranking, weight: float, place: int) -> dict[str, Any]:
    is_own = weight == ranking.objective.latency_weight
    seen = ranking if is_own else ranking.under(Objective("custom", weight))
    best = seen.best
    assert best is not None
    return {
        "trial": best.trial,
        "flags": words.flags(best.flags),
        "gain": f"{words.gain(best.gain_vs_baseline_pct)} ± {seen.gain_error_pct(best):.1f}",
        "x": best.latency_s.value,
        "y": best.throughput_tok_s.value,
        "weight": f"{place / _STEPS:.2f}",
        "own": is_own,
        "rival": ranking.rival,
    }


def _sentence(choice: dict[str, Any], place: int) -> list[Child]:
    """As the script writes it, for a page without scripts."""
    return [
        f"Latency {place / _STEPS:.2f}, throughput {1 - place / _STEPS:.2f}: ",
        tag("strong", f"trial {choice['trial']}: {choice['flags']}"),
        f", {choice['gain']} against {choice['rival']} (the study's own weight)",
    ]
