"""The report as its readers open it: a file, in a real browser, with no network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from autotune.core.objective import Objective
from autotune.core.trial import TrialRecord
from autotune.report.page import report_page
from autotune.study import words
from autotune.study.reading import StudyView, read_study

from ..browser import quickest_s
from ..core.samples import measured
from .studies import dead, launch, mixed, store, subject_of, view_of

WAIT_MS = 60_000
CHOSEN = ("best", "front", "knee", "baseline")


def opened(page: Page, view: StudyView, folder: Path) -> Page:
    path = folder / "report.html"
    path.write_text(report_page(subject_of(view)), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-drawn]", timeout=WAIT_MS)
    return page


def points(page: Page) -> dict[str, dict[int, dict[str, Any]]]:
    """Of the front's figure as it is drawn: kind, trial, place and colour."""
    traces = page.evaluate(
        "document.getElementById('figure-front').data.filter(t => t.meta).map(t => ({kind: t.meta,"
        " x: [...t.x], y: [...t.y], told: t.customdata, colour: t.marker.color, name: t.name}))"
    )
    return {
        trace["kind"]: {
            told[0]: {"x": x, "y": y, "colour": trace["colour"], "name": trace["name"]}
            for told, x, y in zip(trace["told"], trace["x"], trace["y"], strict=True)
        }
        for trace in traces
    }


def weigh(page: Page, weight: int) -> str:
    page.eval_on_selector(
        "#weight",
        "(s, v) => { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})) }",
        weight,
    )
    return page.inner_text("#winner")


def test_the_front_is_the_one_that_optuna_finds_under_the_constraints(
    page: Page, tmp_path: Path
) -> None:
    study = store(mixed(60), tmp_path)
    opened(page, read_study("made-up", root=tmp_path / "studies"), tmp_path)
    line = page.evaluate(
        "(t => [...t.x].map((x, i) => [x, t.y[i]]))"
        "(document.getElementById('figure-front').data[0])"
    )
    assert sorted(map(tuple, line)) == sorted(tuple(t.values) for t in study.best_trials)


def test_what_lies_outside_a_constraint_is_grey_and_never_best(page: Page, tmp_path: Path) -> None:
    view = view_of(mixed(60))
    drawn = points(opened(page, view, tmp_path))
    outside = {r.number for r in view.records if r.status == "infeasible"}
    assert set(drawn["infeasible"]) == outside
    assert {p["colour"] for p in drawn["infeasible"].values()} == {"#8492a6"}
    for kind in CHOSEN:
        assert not outside & set(drawn.get(kind, {})), kind
    for weight in range(0, 101, 5):
        trial = int(weigh(page, weight).split("trial ")[1].split(":")[0])
        assert trial not in outside


def test_the_slider_names_the_winner_of_each_weight(page: Page, tmp_path: Path) -> None:
    view = view_of(mixed(40))
    opened(page, view, tmp_path)
    named = set()
    for weight in (0, 20, 50, 70, 100):
        best = view.ranking.under(Objective("other", weight / 100)).best
        assert best is not None
        text = weigh(page, weight)
        assert f"trial {best.trial}: {words.flags(best.flags)}" in text
        assert ("study's own" in text) == (weight == 70)
        named.add(best.trial)
    assert len(named) > 1, "the slider has something to say"


def test_the_slider_moves_with_the_keyboard(page: Page, tmp_path: Path) -> None:
    opened(page, view_of(mixed(40)), tmp_path)
    page.focus("#weight")
    page.keyboard.press("Home")
    assert page.inner_text("#winner").startswith("Latency 0.00, throughput 1.00")


ODD: dict[str, tuple[Sequence[TrialRecord], str]] = {
    "no launch": ([], "No launch has ended yet."),
    "one trial": ([launch(0)], "all that was launched so far"),
    "all failed": ([dead(i) for i in range(5)], "All 5 launches failed"),
    "only the baseline failed": ([dead(0)], "The only launch failed"),
    "no feasible": ([launch(i, feasible=False) for i in range(5)], "No configuration meets"),
    "no baseline": ([dead(0), *(launch(i) for i in range(1, 5))], "The baseline has no value"),
    "three loads": (mixed(20, (16, 32, 64)), "Use steps"),
    "a tie": ([launch(0, half=0.3), launch(1, half=0.3)], "within the noise"),
    "no flag in common": ([measured(0, 3, 1.0, 900.0, baseline=True), launch(1)], "launches"),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("width", [1400, 600])
def test_odd_studies_are_told_without_fault(
    page: Page, tmp_path: Path, name: str, width: int
) -> None:
    records, expected = ODD[name]
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, view_of(records), tmp_path)
    assert expected in page.inner_text("#verdict")
    overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert overflow <= 0


def test_a_crossing_is_named_where_three_loads_were_measured(page: Page, tmp_path: Path) -> None:
    opened(page, view_of(mixed(20, (16, 32, 64))), tmp_path)
    assert "C=64" in page.inner_text("#crossing table")
    assert "cross near C=" in page.inner_text("#crossing")
    assert page.locator("#sweep table").first.locator("th[scope=col]").count() == 5


@pytest.mark.alone
def test_two_hundred_trials_open_at_once_and_two_thousand_open(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_page(subject_of(view_of(mixed(200)))), encoding="utf-8")

    def opens() -> None:
        page.goto(path.as_uri())
        page.wait_for_selector("#figure-front[data-ready]", timeout=WAIT_MS)

    assert quickest_s(opens) < 3.0
    opened(page, view_of(mixed(2000)), tmp_path)
    assert page.locator("#all-trials tbody tr").count() == 2000


def test_the_table_of_trials_sorts_by_its_values(page: Page, tmp_path: Path) -> None:
    opened(page, view_of(mixed(30)), tmp_path)
    page.click("#all-trials th:has-text('one turn') button")
    column = (
        "[...document.querySelectorAll('#all-trials tbody tr')].map(r => r.cells[8].dataset.key)"
    )
    keys = [key for key in page.evaluate(column) if key]
    assert [float(key) for key in keys] == sorted(float(key) for key in keys)
    assert page.get_attribute("#all-trials th:has-text('one turn')", "aria-sort") == "ascending"


def test_letters_of_figures_follow_light_and_dark(page: Page, tmp_path: Path) -> None:
    page.emulate_media(color_scheme="dark")
    opened(page, view_of(mixed(10)), tmp_path)
    ink = "document.getElementById('figure-front')._fullLayout.font.color"
    page.wait_for_function(f"{ink} === '#e4e9ee'")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(16, 22, 29)"
    page.emulate_media(color_scheme="light")
    page.wait_for_function(f"{ink} === '#1f2933'")


def test_it_prints_with_every_figure_drawn(page: Page, tmp_path: Path) -> None:
    opened(page, view_of(mixed(10)), tmp_path)
    assert page.pdf().startswith(b"%PDF")
    assert page.locator(".figure:not(:has(svg))").count() == 0
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    for width in (700, 500):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate(
            "Math.max(...[...document.querySelectorAll('.figure, .main-svg')]"
            ".map(e => e.getBoundingClientRect().right))"
        )
        assert wide <= width
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("svg.main-svg[viewBox]").count() == 0


def test_everything_has_a_name_for_those_who_cannot_see_it(page: Page, tmp_path: Path) -> None:
    opened(page, view_of(mixed(20, (16, 32))), tmp_path)
    assert page.locator(".figure:not([aria-label])").count() == 0
    assert page.locator("table:not(:has(caption))").count() == 0
    assert page.get_by_label("How much one agent's latency counts").count() == 1
    assert page.get_attribute("html", "lang") == "en" and page.title()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


def test_text_of_records_is_never_read_as_html(page: Page, tmp_path: Path) -> None:
    trap = "</script><script>document.title='caught'</script><img src=x onerror=alert(1)>"
    records = [launch(0), launch(1), dead(2, evidence=trap)]
    records[1].flags["speculative_draft_model_path"] = trap
    opened(page, view_of(records, name="a<b>&c"), tmp_path)
    assert page.title() == "a<b>&c: launch flags found by autotune"
    assert trap in page.inner_text("#failures")
    assert page.locator("img").count() == 0
