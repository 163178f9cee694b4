"""Steps that follow the batch against the best fixed ones, where they were launched."""

from __future__ import annotations

from autotune.report.html import Child, Safe, table, tag
from autotune.report.section import Section
from autotune.report.subject import Subject
from autotune.study import words
from autotune.study.adaptation import in_words
from autotune.study.adaptive_verdict import Comparison, Row, compared


def section(subject: Subject) -> Section | None:
    found = compared(subject.view)
    if found is None:
        return None
    lead = (
        "SGLang can change the number of draft steps while it runs. This table was launched on the "
        f"prompts of the search, against the best fixed flags: {in_words(found.plan.tiers)}."
    )
    body: list[Child] = [tag("p", f"{found.text[0].upper()}{found.text[1:]}.")]
    if found.rows:
        body.append(_table(found))
    return Section("adaptive", "Steps that follow the load", lead, tuple(body))


def _table(found: Comparison) -> Safe:
    adaptive = words.listed(str(record.number) for record in found.records)
    head = ("load", f"fixed, trial {found.static.trial}", f"adaptive, trial {adaptive}", "change")
    return table(head, [_row(row) for row in found.rows], "Adaptive against fixed steps")


def _row(row: Row) -> list[Child]:
    show = words.seconds if row.is_latency else words.tok_s
    change = tag("td", row.text, class_=row.verdict)
    return [row.load, show(row.static), show(row.adaptive), change]
