"""What views say of a trial that was left after its first phase."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from autotune.cli.summary import summary
from autotune.core.trial import TrialRecord
from autotune.dashboard.note import trial_note
from autotune.explain import explain
from autotune.report.page import report_page
from autotune.report.subject import Subject
from autotune.study.learned import knowledge_of

from .worlds import chain, launched, stored

WHY = "less than 0.1 % likely to become the best"


def half(number: int) -> TrialRecord:
    record = launched(number, chain(8))
    return structs.replace(
        record, status="pruned", phases=record.phases[:1], objectives=None, pruned=WHY
    )


def test_each_view_tells_what_it_measured_and_why_it_was_left(tmp_path: Path) -> None:
    records = [launched(0, chain(3), role="baseline"), launched(1, chain(4)), half(2)]
    view, study = stored(tmp_path, records)
    knowledge = knowledge_of(view, study)
    found = explain(view, knowledge, 2).findings
    assert [each.code for each in found] == ["pruned"]
    assert "pruned after C=1" in found[0].text and WHY in found[0].text
    assert found[0].figures["latency_s"].value == records[2].phases[0].turn_latency_s.value
    assert WHY in report_page(Subject(view, study)) and WHY in trial_note(records[2], None)
    assert "after 3 launches, 1 of them pruned" in summary(view, "enough")
    assert explain(view, knowledge).findings[0].code == "choice"
