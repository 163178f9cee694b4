"""Why these flags: what ``autotune explain`` says, with what its words mean."""

from __future__ import annotations

from autotune.explain import explain
from autotune.explain.glossary import meanings
from autotune.explain.said import unbroken
from autotune.report.html import Child, tag
from autotune.report.section import Section
from autotune.report.subject import Subject


def section(subject: Subject) -> Section | None:
    found = explain(subject.view, subject.knowledge).findings
    if not found or found[0].code == "nothing":
        return None  # the verdict says so
    told = [(finding.title, finding.text) for finding in found]
    body: list[Child] = [_pairs(told)]
    known = meanings(" ".join(text for _, text in told))
    if known:
        body.append(tag("details", tag("summary", "What these words mean"), _pairs(known)))
    lead = (
        "Which limit decides, and what the next step would do. Each number says where it comes "
        "from: measured by the client, told by the server at its start, or the search's own model."
    )
    return Section("why", "Why", lead, tuple(body))


def _pairs(pairs: list[tuple[str, str]]) -> Child:
    return tag("dl", [[tag("dt", title), tag("dd", unbroken(text))] for title, text in pairs])
