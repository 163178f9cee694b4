"""Failures by kind, with the line that shows each and what would help."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.core.trial import TrialRecord
from autotune.report.html import Child, tag
from autotune.report.section import Section
from autotune.report.subject import Subject
from autotune.study import words

_MOST = 5
"""So many are told with their flags; of the next their numbers."""
_MOST_NUMBERS = 40


def section(subject: Subject) -> Section | None:
    kinds: dict[str, list[TrialRecord]] = {}
    for record in subject.records:
        if record.failure is not None:
            kinds.setdefault(str(record.failure.kind), []).append(record)
    if not kinds:
        return None
    ordered = sorted(kinds.items(), key=lambda item: -len(item[1]))
    lead = "A launch that failed carries no number; the search stays away from what it rules out."
    body = tuple(_kind(kind, records) for kind, records in ordered)
    return Section("failures", "Failures", lead, body)


def _kind(kind: str, records: Sequence[TrialRecord]) -> Child:
    first = records[0].failure
    assert first is not None
    n = len(records)
    trials = [
        tag("li", f"trial {r.number}: {words.flags(r.flags)} (while {_stage(r)})")
        for r in records[:_MOST]
    ]
    if n > _MOST:
        rest = ", ".join(str(r.number) for r in records[_MOST:_MOST_NUMBERS])
        more = f" and {n - _MOST_NUMBERS} more" if n > _MOST_NUMBERS else ""
        trials.append(tag("li", f"and trials {rest}{more}"))
    return tag(
        "div",
        tag("h3", f"{words.failure_kind(kind)}: {n} launch{'es' if n > 1 else ''}"),
        tag("pre", tag("code", first.evidence)) if first.evidence else None,
        tag("p", f"What would help: {first.remedy}.") if first.remedy else None,
        tag("p", f"The server itself said: {first.bound}.") if first.bound else None,
        tag("ul", trials),
        class_="failure",
    )


def _stage(record: TrialRecord) -> str:
    assert record.failure is not None
    return words.stage(record.failure.stage)
