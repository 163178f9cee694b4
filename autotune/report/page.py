"""``report.html``: one file that tells a study to somebody who never saw the tool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files

from autotune.report.figure import Figure
from autotune.report.html import Child, Safe, tag
from autotune.report.section import Section
from autotune.report.sections import (
    adaptive,
    against_baseline,
    crossing,
    distributions,
    effects,
    failures,
    front,
    heatmap,
    progress,
    provenance,
    steps,
    trials,
    verdict,
    why,
)
from autotune.report.subject import Subject
from autotune.study.reading import StudyView

SECTIONS: Sequence[Callable[[Subject], Section | None]] = (
    verdict.section,
    why.section,
    against_baseline.section,
    front.section,
    heatmap.section,
    crossing.section,
    adaptive.section,
    steps.section,
    effects.section,
    progress.section,
    distributions.section,
    failures.section,
    trials.section,
    provenance.section,
)
"""In the order of the page; one that has nothing to say returns None."""


def sections_of(subject: Subject) -> list[Section]:
    """All that this study has something to say in."""
    return [section for make in SECTIONS if (section := make(subject)) is not None]


def figures_of(subject: Subject) -> list[Figure]:
    """Every figure of the report, in its order."""
    return [figure for section in sections_of(subject) for figure in section.figures]


def report_page(subject: Subject, *, cdn: bool = False) -> str:
    """The whole document.

    Args:
        cdn: load plotly from its content network: a small file that needs one.
    """
    view, sections = subject.view, sections_of(subject)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{view.name}: launch flags found by autotune"),
        Safe(f"<style>{_asset('report.css')}</style>"),
    )
    drawn = any(section.figures for section in sections)
    body = tag(
        "body",
        _header(view),
        tag("nav", [tag("a", s.title, href=f"#{s.name}") for s in sections],
            aria_label="Sections"),
        tag("main", [section.render() for section in sections]),
        _plotly(cdn) if drawn else None,
        Safe(f"<script>{_asset('report.js')}</script>"),
    )  # fmt: skip
    return f'<!doctype html>\n<html lang="en">{head}{body}</html>\n'


def _header(view: StudyView) -> Safe:
    told: list[Child] = [
        tag("h1", f"Launch flags for {_model(view)}"),
        tag("p", f"study {view.name} · objective {view.objective.describe()}"),
    ]
    if view.is_simulated:
        told.append(
            tag("p", "SIMULATED: every number on this page comes from the simulated server, "
                "not from a GPU.", class_="banner")
        )  # fmt: skip
    if view.fakes_acceptance:
        told.append(
            tag("p", "FAKED: SGLANG_SIMULATE_ACC_LEN set the accept length, not the draft model.",
                class_="banner")
        )  # fmt: skip
    return tag("header", *told)


def _model(view: StudyView) -> str:
    found = (record.effective.get("model_path") for record in view.records)
    return next((str(name) for name in found if name), "the server")


def _plotly(cdn: bool) -> Safe:
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    if cdn:
        source = f"https://cdn.plot.ly/plotly-{get_plotlyjs_version()}.min.js"
        return Safe(f'<script src="{source}" charset="utf-8"></script>')
    return Safe(f"<script>{get_plotlyjs()}</script>")


def _asset(name: str) -> str:
    return (files("autotune.report") / "assets" / name).read_text(encoding="utf-8")
