"""What stands in the report, without a browser."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from dataclasses import replace as replace_view
from importlib.resources import files
from pathlib import Path

import pytest
from msgspec.structs import replace
from optuna.study import Study

from autotune.core.adaptive import Tier
from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.trial import Interval, TrialRecord
from autotune.errors import UsageError
from autotune.explain import explain
from autotune.explain.said import unbroken
from autotune.report import subject as subjects
from autotune.report.html import Safe, tag, text
from autotune.report.images import FORMATS, write_images
from autotune.report.page import figures_of, report_page
from autotune.report.sections import heatmap
from autotune.report.sections.heatmap import best_by_steps
from autotune.report.sections.progress import moments
from autotune.report.subject import Subject
from autotune.search.knowledge import Knowledge
from autotune.study.adaptation import AdaptiveLaunch, AdaptivePlan
from autotune.study.confirmation import Confirmation, ConfirmLaunch, Finalist, Place
from autotune.study.learned import knowledge_of
from autotune.study.reading import StudyView

from ..browser import chromium
from ..core.samples import exactly
from .studies import dead, launch, mixed, subject_of, view_of


def test_text_is_escaped_and_elements_are_not() -> None:
    assert tag("p", "a < b", tag("b", "c & d"), title='"') == (
        '<p title="&quot;">a &lt; b<b>c &amp; d</b></p>'
    )
    assert text([None, "x", [Safe("<br>")]]) == "x<br>"


def test_the_small_page_names_plotly_and_holds_none() -> None:
    page = report_page(subject_of(view_of(mixed(10))), cdn=True)
    assert len(page) < 400_000
    assert re.findall(r'src="(https://[^"]+)"', page) == [
        next(iter(re.findall(r"https://cdn\.plot\.ly/plotly-[\d.]+\.min\.js", page)))
    ]
    whole = report_page(subject_of(view_of(mixed(10))))
    assert not re.search(r'<(script|link|img|iframe)[^>]*(src|href)="', whole)


def test_simulated_numbers_are_named_before_anything_else() -> None:
    page = report_page(subject_of(view_of(mixed(5), simulated=True)), cdn=True)
    assert page.index("SIMULATED") < page.index("Verdict")
    assert "SIMULATED" not in report_page(subject_of(view_of(mixed(5))), cdn=True)


def test_each_row_of_the_sweep_is_the_best_of_its_steps() -> None:
    subject = Subject(view_of(mixed(40)))
    for steps, configuration in best_by_steps(subject).items():
        rivals = [
            c.standing
            for c in subject.configurations
            if c.standing.flags["speculative_num_steps"] == steps
            and (c.standing.feasible or not configuration.standing.feasible)
        ]
        assert configuration.standing.score == max(s.score for s in rivals)


def test_the_best_so_far_and_the_hypervolume_never_fall() -> None:
    story = moments(Subject(view_of(mixed(40))))
    for values in ([m.best_pct for m in story], [m.area_frac for m in story]):
        known = [value for value in values if value is not None]
        assert known == sorted(known)
    assert [m.minutes for m in story] == sorted(m.minutes for m in story)
    assert [m.failed for m in story] == [i % 7 == 6 for i in range(40)]


def test_the_models_draw_curves_through_the_points() -> None:
    figures = {figure.name: figure.drawing for figure in figures_of(subject_of(view_of(mixed(14))))}
    line = next(t for t in figures["accept"].data if t.name == "model")
    told = dict(zip(line.x, line.y, strict=True))
    for trace in figures["accept"].data:
        for x, y in zip(trace.x, trace.y, strict=True) if "measured" in trace.name else ():
            assert told[x] == pytest.approx(y, rel=0.1)
    assert {"effect-steps", "effect-mem"} <= set(figures)


def contrast(one: str, other: str) -> float:
    """WCAG 2.1 contrast ratio of two colours."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_letters_and_marks_have_contrast_on_light_and_dark() -> None:
    from autotune.report import figure

    css = (files("autotune.report") / "assets" / "report.css").read_text()
    schemes = [
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part)) for part in css.split("@media")
    ]
    for scheme in schemes[:2]:
        for ink in ("ink", "soft", "link", "good", "bad"):
            for back in ("back", "card"):
                assert contrast(scheme[ink], scheme[back]) >= 4.5, (ink, back)
        assert contrast(scheme["alarm-ink"], scheme["alarm-back"]) >= 4.5
        for colour in (*figure.SERIES, figure.GREY):
            assert contrast(colour, scheme["back"]) >= 3.0, colour


@pytest.mark.parametrize("kind", FORMATS)
def test_each_figure_becomes_a_picture(tmp_path: Path, kind: str) -> None:
    required = os.environ.get("BROWSER") == "required"
    if importlib.util.find_spec("kaleido") is None or chromium() is None:
        assert not required, "the extra png, or chromium, is missing"
        pytest.skip("pictures need the extra png and chromium")
    subject = subject_of(view_of([launch(0), launch(1)], simulated=True))
    written = write_images(subject, tmp_path / "figures", kind)
    assert [path.stem for path in written] == [figure.name for figure in figures_of(subject)]
    for path in written:
        data = path.read_bytes()
        if kind == "png":
            assert data.startswith(b"\x89PNG") and len(data) > 5000
            assert int.from_bytes(data[16:20]) == 2000, "sharp on a dense screen"
        else:
            assert b"SIMULATED" in data and b"click" not in data


def test_a_folder_for_pictures_that_cannot_be_is_told(tmp_path: Path) -> None:
    pytest.importorskip("kaleido", reason="pictures need the extra png")
    (tmp_path / "figures").write_text("a file")
    with pytest.raises(UsageError, match="figures cannot be written: File exists"):
        write_images(subject_of(view_of([launch(0)])), tmp_path / "figures", "png")


def test_pictures_without_the_extra_are_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kaleido", None)
    with pytest.raises(UsageError, match="need the extra png"):
        write_images(subject_of(view_of([launch(0)])), tmp_path / "figures", "png")
    assert not (tmp_path / "figures").exists()


def test_a_cell_outside_a_constraint_is_never_framed_as_the_best() -> None:
    subject = Subject(view_of([launch(0), launch(1), launch(4, feasible=False)]))
    told = heatmap.section(subject)
    assert told is not None
    rows = str(told.render()).split("<tr>")
    outside = [row for row in rows if "outside a constraint" in row]
    assert len(outside) == 2 and not any("most" in row for row in outside)
    assert sum(row.count('class="heat most"') for row in rows) >= 4


def fresh(number: int, like: TrialRecord, place: Place, factor: float) -> ConfirmLaunch:
    assert like.objectives is not None
    latency = like.objectives[LATENCY]
    scaled = Interval(*(factor * x for x in (latency.value, latency.low, latency.high)))
    objectives = {**like.objectives, LATENCY: scaled}
    record = replace(like, number=number, role="confirm", objectives=objectives)
    return ConfirmLaunch(place, record)


def test_the_verdict_is_that_of_the_fresh_launches() -> None:
    searched = view_of([launch(0), launch(1)])
    best, base = searched.searched.best, searched.searched.baseline
    assert best is not None and base is not None and best.trial == 1
    launches = tuple(
        fresh(2 + i, searched.record(trial), Place(1, trial, i // 2), 1.0 if trial == 0 else 1.02)
        for i, trial in enumerate((0, 1, 1, 0))
    )
    finalist = Finalist(
        trial=1, launches=(3, 4), gain=Interval(0.021, 0.011, 0.031), verdict="better",
        latency_s=exactly(1.02 * best.latency_s.value), throughput_tok_s=best.throughput_tok_s,
    )  # fmt: skip
    baseline = Finalist(
        trial=0, launches=(2, 5), latency_s=base.latency_s, throughput_tok_s=base.throughput_tok_s
    )
    found = Confirmation(
        winner=1, baseline=baseline, finalists=(finalist,), use=1, latency_weight=0.7, n_each=2
    )
    page = report_page(
        subject_of(replace_view(searched, confirm_launches=launches, found=found)), cdn=True
    )
    assert "2.1 % ± 1.0 better than the baseline" in page
    assert "on fresh launches, which count: better, 2.1" in page.replace("\u00a0", " ")
    assert "confirmed on 2 fresh launches" in page
    assert "2 fresh launches, in turns with the baseline" in page
    assert "All 6 trials" in page and "2 launches and 4 to confirm" in page


def test_distributions_are_whole_where_the_record_has_them() -> None:
    def with_quantiles(number: int) -> TrialRecord:
        record = launch(number)
        rising = tuple(0.05 + 0.01 * i for i in range(21))
        phases = [replace(p, quantiles={"ttft_s": rising}) for p in record.phases]
        return replace(record, phases=phases)

    def curves(*records: TrialRecord) -> list[tuple[float, float]]:
        drawn = {figure.name: figure.drawing for figure in figures_of(subject_of(view_of(records)))}
        trace = drawn["latency-ttft-1"].data[0]
        return list(zip(trace.x, trace.y, strict=True))

    whole = curves(with_quantiles(0), with_quantiles(1))
    assert whole[0] == pytest.approx((50.0, 0.0)) and whole[-1] == pytest.approx((250.0, 100.0))
    assert len(whole) == 21
    assert [share for _, share in curves(launch(0), launch(1))] == [50.0, 90.0, 95.0, 99.0]
    assert "their curves begin at half" in report_page(
        subject_of(view_of([launch(0), launch(1)])), cdn=True
    )


def test_the_kv_pool_in_use_is_drawn_where_it_was_told() -> None:
    def used(number: int) -> TrialRecord:
        record = launch(number)
        return replace(record, phases=[replace(p, kv_used_frac=0.4) for p in record.phases])

    subject = subject_of(view_of([used(0), used(1)]))
    drawn = {figure.name: figure.drawing for figure in figures_of(subject)}
    assert list(drawn["kv"].data[0].y) == [40.0, 40.0]
    assert "KV pool in use at C=16, %" in report_page(subject, cdn=True)
    assert "kv" not in {
        figure.name for figure in figures_of(subject_of(view_of([launch(0), launch(1)])))
    }


def test_it_says_why_as_explain_does_and_what_the_words_mean() -> None:
    subject = subject_of(view_of(mixed(14)))
    page = report_page(subject, cdn=True)
    told = explain(subject.view, subject.knowledge).findings
    assert len(told) > 5
    for finding in told:
        assert str(text(unbroken(finding.text))) in page
    assert "tokens that a pass yields, its own one included" in page
    assert 'href="#why"' not in report_page(subject_of(view_of([dead(0)])), cdn=True)


def test_the_model_is_made_once_and_no_section_changes_what_another_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    def counted(view: StudyView, study: Study) -> Knowledge | None:
        made.append(view)
        return knowledge_of(view, study)

    monkeypatch.setattr(subjects, "knowledge_of", counted)
    subject = subject_of(view_of(mixed(14)))
    pages = {report_page(subject, cdn=True) for _ in range(2)}
    assert len(pages) == len(made) == 1


def adaptive(number: int, factor: float) -> AdaptiveLaunch:
    like = launch(0)
    assert like.objectives is not None
    value = factor * like.objectives[THROUGHPUT].value
    record = replace(
        like, number=number, role="adaptive",
        objectives={**like.objectives, THROUGHPUT: exactly(value, 0.01)},
    )  # fmt: skip
    return AdaptiveLaunch(AdaptivePlan(0, (Tier(1, 5), Tier(9, 3))), record)


def test_steps_that_follow_the_load_stand_against_the_fixed_ones() -> None:
    searched = view_of([launch(0), launch(1)])
    assert "follow the load" not in report_page(subject_of(searched), cdn=True)
    view = replace_view(searched, adaptive_launches=(adaptive(2, 1.5),))
    page = report_page(subject_of(view), cdn=True)
    assert "5 steps · from 9 requests in the batch on: 3 steps" in page
    assert "fixed, trial 0" in page and "adaptive, trial 2" in page
    assert "against the fixed flags of trial 0 on 1 launch: adaptive steps are better." in page
    assert "All 3 trials" in page and "2 launches and 1 with steps" in page
    failed = replace(dead(2), role="adaptive")
    view = replace_view(searched, adaptive_launches=(replace_view(adaptive(2, 1), record=failed),))
    assert "Trial 2, its launch, carries no value" in report_page(subject_of(view), cdn=True)
