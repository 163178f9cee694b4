"""The dashboard as its readers see it: the real pages, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from ..browser import quickest_s
from .conftest import Served, serving
from .studies import add, made

pytestmark = pytest.mark.filterwarnings("ignore:Some regimes for parameter")  # of few trials
WAIT_MS = 60_000
INFEASIBLE = "#cccccc"
PANELS = ("front", "best-launches", "area-minutes", "acceptance")
FRONT = '[id="user-defined-plot:autotune-front"]'

TRACES = """document.getElementById('graph-pareto-front').data.map(t => ({
    x: [...t.x].filter(v => v !== null), y: [...t.y], color: t.marker.color,
    scale: t.marker.colorscale || ''}))"""
STATES = """Object.fromEntries(document.body.innerText.split(/^Trial (?=\\d+$)/m).slice(1)
    .map(part => [parseInt(part), part.includes('Best Trial')]))"""


@pytest.fixture(scope="module", params=["journal", "sqlite"])
def shown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A study of 12 trials that no test changes, on each kind of storage."""
    folder: Path = tmp_path_factory.mktemp("shown")
    storage = f"sqlite:///{folder / 's.db'}" if request.param == "sqlite" else None
    with serving(made(folder, storage=storage)) as running:
        yield running


def opened(page: Page, served: Served) -> Page:
    """The page of the study, its own plots and ours drawn."""
    page.goto(served.page)
    for name in PANELS:
        page.wait_for_selector(
            f'[id="user-defined-plot:autotune-{name}"] .main-svg', timeout=WAIT_MS
        )
    page.wait_for_selector("#graph-pareto-front .main-svg", timeout=WAIT_MS)
    return page


def drawn(page: Page) -> tuple[dict[int, tuple[float, float]], set[tuple[float, float]]]:
    """Of the dashboard's own front: the best by trial, and the points that are infeasible."""
    best: dict[int, tuple[float, float]] = {}
    outside: set[tuple[float, float]] = set()
    traces: list[dict[str, Any]] = page.evaluate(TRACES)
    for trace in traces:
        points = list(zip(trace["x"], trace["y"], strict=False))
        if trace["scale"] == "Reds":
            best |= dict(zip(trace["color"], points, strict=True))
        elif trace["color"] == INFEASIBLE:
            outside |= set(points)
    return best, outside


def test_it_opens_with_our_panels_and_the_best_are_those_of_optuna(
    page: Page, shown: Served
) -> None:
    best, outside = drawn(opened(page, shown))
    optuna_says = {t.number: t.values for t in shown.study.best_trials}
    assert set(best) == set(optuna_says) and best
    for number, point in best.items():
        assert point == pytest.approx(optuna_says[number], rel=1e-3)
    violating = [t for t in shown.study.trials if any(v > 0 for v in t.constraints.values())]
    assert len(outside) == len(violating) == 3, "drawn in grey"
    assert outside.isdisjoint(best.values())


def test_our_front_shows_the_same_points(page: Page, shown: Served) -> None:
    opened(page, shown)
    line = page.evaluate(
        f"(t => [...t.x].map((x, i) => [x, t.y[i]]))(document.querySelector('{FRONT}').data[0])"
    )
    expected = sorted(tuple(t.values) for t in shown.study.best_trials)
    assert sorted(map(tuple, line)) == expected


def test_a_narrow_page_shows_each_panel_whole_and_breaks_commands(
    page: Page, shown: Served
) -> None:
    page.set_viewport_size({"width": 600, "height": 900})
    opened(page, shown)
    boxes = [
        page.locator(f'[id="user-defined-plot:autotune-{name}"]').bounding_box() for name in PANELS
    ]
    known = [box for box in boxes if box is not None]
    assert len(known) == len(PANELS)
    assert all(box["width"] > 400 and box["x"] + box["width"] <= 600 for box in known)
    assert len({round(box["y"]) for box in known}) == len(PANELS), "one below the other"
    page.goto(f"{shown.page}/note")
    page.wait_for_selector("main pre code", timeout=WAIT_MS)
    assert page.eval_on_selector("main pre", "e => e.scrollWidth <= e.clientWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_letters_of_our_plots_are_those_of_the_page(page: Page, shown: Served, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    opened(page, shown)
    fill = page.eval_on_selector(f"{FRONT} svg text", "e => getComputedStyle(e).fill")
    assert fill == ("rgb(255, 255, 255)" if scheme == "dark" else "rgba(0, 0, 0, 0.87)")


def test_a_narrow_page_shows_the_values_of_a_trial_whole(page: Page, shown: Served) -> None:
    page.set_viewport_size({"width": 600, "height": 900})
    page.goto(f"{shown.page}/trials?numbers=3")
    page.wait_for_selector("text=mem_fraction_static", timeout=WAIT_MS)
    box = page.locator("p:has-text('mem_fraction_static')").first
    assert box.evaluate("e => e.getBoundingClientRect().right <= innerWidth")


def test_no_trial_outside_a_constraint_is_called_best_in_the_list(
    page: Page, shown: Served
) -> None:
    page.goto(f"{shown.page}/trials")
    page.wait_for_selector("text=12 Trials", timeout=WAIT_MS)
    page.wait_for_selector("text=Best Trial", timeout=WAIT_MS)
    states: dict[str, bool] = page.evaluate(STATES)
    named = {int(number) for number, is_best in states.items() if is_best}
    assert named >= {t.number for t in shown.study.best_trials} - {0}
    outside = {t.number for t in shown.study.trials if any(v > 0 for v in t.constraints.values())}
    assert outside and not outside & named


@pytest.mark.parametrize(
    ("method", "path"), [("DELETE", "/api/studies/{id}"), ("POST", "/api/studies")]
)
def test_its_own_page_can_change_nothing(
    page: Page, complaints: Any, shown: Served, method: str, path: str  # noqa: ANN401
) -> None:  # fmt: skip
    page.goto(f"{shown.url}/dashboard")
    status = page.evaluate(
        "([method, path]) => fetch(path, {method, body: method === 'POST' ? '{}' : undefined,"
        " headers: {'content-type': 'application/json'}}).then(r => r.status)",
        [method, path.format(id=shown.study._study_id)],
    )
    assert status == 405
    complaints.expect("405")
    assert len(shown.store.open().trials) == 12


def test_a_reader_sees_no_button_that_writes(page: Page, shown: Served) -> None:
    page.goto(f"{shown.url}/dashboard")
    page.wait_for_selector("text=MINIMIZE, MAXIMIZE", timeout=WAIT_MS)
    for kind in ("DeleteIcon", "AddBoxIcon", "DriveFileRenameOutlineIcon"):
        for button in page.locator(f'button:has([data-testid="{kind}"])').all():
            assert not button.is_visible(), kind


def test_the_note_says_which_flags_to_use(page: Page, shown: Served) -> None:
    page.goto(f"{shown.page}/note")
    page.wait_for_selector("text=Use these flags", timeout=WAIT_MS)
    assert "--speculative-num-steps" in page.inner_text("main")


@pytest.mark.parametrize("width", [1400, 600])
def test_nothing_is_cut_off_at_the_side(page: Page, shown: Served, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    opened(page, shown)
    overflow = page.evaluate(
        "Math.max(...[...document.querySelectorAll('main, main .js-plotly-plot')]"
        ".map(e => e.getBoundingClientRect().right)) - window.innerWidth"
    )
    assert overflow <= 1


def test_a_page_that_is_open_follows_a_running_study(page: Page, served: Served) -> None:
    page.goto(f"{served.page}/trials")
    page.wait_for_selector("text=12 Trials", timeout=WAIT_MS)
    tuner = served.store.open()
    for number in (12, 13):
        add(served.store, tuner, number=number)
    page.wait_for_selector("text=14 Trials", timeout=WAIT_MS)


@pytest.mark.alone
def test_two_hundred_trials_open_in_three_seconds(page: Page, tmp_path: Path) -> None:
    store = made(tmp_path, 200)
    with serving(store) as long_study:

        def opens() -> None:
            page.goto(long_study.page)
            page.wait_for_selector("#graph-pareto-front .main-svg", timeout=WAIT_MS)
            page.wait_for_selector(f"{FRONT} .main-svg", timeout=WAIT_MS)

        assert quickest_s(opens, before=lambda: page.goto("about:blank")) < 3.0
        page.goto("about:blank")
