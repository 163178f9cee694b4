"""All trials as a table that sorts."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.core.trial import Interval, TrialRecord
from autotune.report.html import Child, Safe, tag
from autotune.report.section import Section
from autotune.report.subject import Subject
from autotune.study import words


def section(subject: Subject) -> Section | None:
    if not subject.records:
        return None
    names = list(dict.fromkeys(name for r in subject.records for name in r.flags))
    titles = [
        "trial", "role", "status", *map(words.short, names), "one turn, s",
        *(f"C={c}, tok/s" for c in subject.serving), "gain, %", "accept", "running", "remark",
    ]  # fmt: skip
    rows = [_row(subject, record, names) for record in subject.records]
    caption = f"All {len(rows)} trials; click a title to sort"
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", [tag("th", title, scope="col") for title in titles])),
        tag("tbody", rows),
        class_="sortable",
        id="all-trials",
    )
    scroll = tag("div", whole, class_="scroll tall", tabindex="0", role="region",
                 aria_label=caption)  # fmt: skip
    return Section("trials", "All trials", "± is half of the 95 % interval.", (scroll,))


def _row(subject: Subject, record: TrialRecord, names: Sequence[str]) -> Safe:
    standing = subject.ranking.standing_of(record)
    latency = record.objectives.get("latency_s") if record.objectives else None
    served = {p.concurrency: p.output_tok_s for p in record.phases if p.role == "serving"}
    accept = next((p.accept_length for p in record.phases if p.accept_length), None)
    gain = standing.gain_vs_baseline_pct if standing and record.objectives else None
    limit = record.effective.get("max_running_requests")
    cells: list[Child] = [
        tag("td", record.role), tag("td", record.status),
        *(_plain(record.flags.get(name)) for name in names),
        _measured(latency, ".3f"), *(_measured(served.get(c), ",.0f") for c in subject.serving),
        _number(gain, "+.1f"), _number(accept, ".2f"),
        _number(limit if isinstance(limit, int | float) else None, ".0f"),
        tag("td", _remark(record), class_="words"),
    ]  # fmt: skip
    number = tag("th", str(record.number), scope="row", data_key=record.number)
    return tag("tr", number, cells, class_=record.status)


def _remark(record: TrialRecord) -> str:
    if record.failure is not None:
        return words.failure(record)
    if record.same_as is not None:
        return words.same_as(record)
    return "; ".join(words.cautions(record))


def _plain(value: object) -> Safe:
    return tag("td", "" if value is None else words.value(value))


def _number(value: float | None, digits: str) -> Safe:
    if value is None:
        return tag("td", "", data_key="")
    return tag("td", format(value, digits), data_key=value)


def _measured(interval: Interval | None, digits: str) -> Safe:
    if interval is None:
        return tag("td", "", data_key="")
    shown = f"{format(interval.value, digits)} {words.spread(interval)}"
    return tag("td", shown, data_key=interval.value)
