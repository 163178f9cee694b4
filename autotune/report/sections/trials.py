"""All trials as a table that sorts."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.core.ranking import Ranking
from autotune.core.trial import Interval, TrialRecord
from autotune.report.html import Child, Safe, scrolling, tag
from autotune.report.section import Section
from autotune.report.subject import Subject
from autotune.study import words


def section(subject: Subject) -> Section | None:
    records, foreign = subject.by_number.values(), words.foreign(subject.view.n_foreign)
    if not records:
        return Section("trials", "All trials", foreign) if foreign else None
    names = list(dict.fromkeys(name for r in records for name in r.flags))
    latency = f"one turn at C={subject.view.config.latency_concurrency}, s"
    titles = [
        "trial", "role", "status", *map(words.short, names), latency,
        *(f"C={c}, tok/s" for c in subject.serving), "gain, %", "accept length", "runs at once",
        "remark",
    ]  # fmt: skip
    rows = [_row(subject, record, names) for record in records]
    caption = f"All {len(rows)} trials; click a title to sort"
    in_words = {"role", "status", "remark"}
    heads = [
        tag("th", title, scope="col", class_="words" if title in in_words else None)
        for title in titles
    ]
    whole = scrolling(
        caption,
        tag("thead", tag("tr", heads)),
        tag("tbody", rows),
        tall=True,
        class_="sortable",
        id="all-trials",
    )
    lead = f"± is half of the 95 % interval; ★ is the recommended configuration. {foreign}".strip()
    return Section("trials", "All trials", lead, (whole,))


def _row(subject: Subject, record: TrialRecord, names: Sequence[str]) -> Safe:
    standing = subject.ranking.standing_of(record)
    latency = record.objectives.get("latency_s") if record.objectives else None
    served = {p.concurrency: p.output_tok_s for p in record.phases if p.role == "serving"}
    accept = next((p.accept_length for p in record.phases if p.accept_length), None)
    is_compared = standing is not None and record.number in standing.trials
    gain = standing.gain_vs_baseline_pct if standing and is_compared else None
    limit = record.effective.get("max_running_requests")
    cells: list[Child] = [
        tag("td", record.role, class_="word"), tag("td", record.status, class_="word"),
        *(_plain(record.flags.get(name)) for name in names),
        _measured(latency, ".3f"), *(_measured(served.get(c), ",.0f") for c in subject.serving),
        _gain(gain), _number(accept, ".2f"),
        _number(limit if isinstance(limit, int | float) else None, ".0f"),
        tag("td", _remark(record), class_="words remark"),
    ]  # fmt: skip
    star = " ★" if _is_best(subject.ranking, record) else ""
    number = tag("th", f"{record.number}{star}", scope="row", data_key=record.number)
    return tag("tr", number, cells, class_=f"{record.status}{' best' if star else ''}")


def _is_best(ranking: Ranking, record: TrialRecord) -> bool:
    return ranking.best is not None and record.number in ranking.best.trials


def _remark(record: TrialRecord) -> str:
    if record.failure is not None:
        return words.failure(record)
    if record.pruned:
        return words.pruned(record)
    if record.same_as is not None:
        return words.same_as(record)
    return "; ".join(words.cautions(record))


def _plain(value: object) -> Safe:
    return tag("td", "" if value is None else words.value(value))


def _gain(percent: float | None) -> Safe:
    text = "" if percent is None else words.gain(percent).removesuffix(" %")
    return tag("td", text, data_key="" if percent is None else percent)


def _number(value: float | None, digits: str) -> Safe:
    if value is None:
        return tag("td", "", data_key="")
    return tag("td", format(value, digits), data_key=value)


def _measured(interval: Interval | None, digits: str) -> Safe:
    if interval is None:
        return tag("td", "", data_key="")
    shown = f"{format(interval.value, digits)} {words.spread(interval)}"
    return tag("td", shown, data_key=interval.value)
