"""Steps against concurrency, as the table of a sweep by hand: per request and in all."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.core.trial import FlagValue
from autotune.report.html import Child, Safe, table, tag
from autotune.report.section import Section
from autotune.report.subject import Configuration, Subject
from autotune.space.rules import STEPS

_MOST_ROWS = 40


def section(subject: Subject) -> Section | None:
    by_steps = best_by_steps(subject)
    if len(by_steps) < 2 or not subject.concurrencies:
        return None
    lead = (
        "For each number of steps the configuration with the best score, its trial in brackets. "
        "The framed cell of a column is its best inside the constraints; per request is what one "
        "agent feels, in all is what the box serves."
    )
    grids: list[Child] = []
    for metric, title in (
        ("decode_tok_s", "Per request, tokens/s while decoding"),
        ("output_tok_s", "In all, tokens/s"),
    ):
        grids.append(_grid(subject, by_steps, metric, title))
    return Section("sweep", "Steps against concurrency", lead, (tag("div", grids, class_="row"),))


def best_by_steps(subject: Subject) -> Mapping[FlagValue, Configuration]:
    """The configuration with the best score for each number of steps, feasible ones first."""
    found: dict[FlagValue, Configuration] = {}
    ordered = sorted(subject.configurations, key=lambda c: not c.standing.feasible)
    for configuration in ordered:
        steps = configuration.standing.flags.get(STEPS)
        if steps is not None:
            found.setdefault(steps, configuration)
    return dict(sorted(found.items(), key=lambda item: float(item[0])))


def _grid(
    subject: Subject, by_steps: Mapping[FlagValue, Configuration], metric: str, title: str
) -> Safe:
    columns = []
    shown = list(by_steps.items())[:_MOST_ROWS]
    for concurrency in subject.concurrencies:
        values = [c.pooled(concurrency, metric) for _, c in shown]
        columns.append([value.value if value else None for value in values])
    allowed = [configuration.standing.feasible for _, configuration in shown]
    rows: list[list[Child]] = []
    for i, (steps, configuration) in enumerate(shown):
        mark = "" if configuration.standing.feasible else ", outside a constraint"
        name = f"{steps} steps (trial {configuration.standing.trial}{mark})"
        rows.append([name, *(_heat(column, allowed, i) for column in columns)])
    head = ["", *(f"C={concurrency}" for concurrency in subject.concurrencies)]
    return table(head, rows, title)


def _heat(column: list[float | None], allowed: list[bool], row: int) -> Safe:
    """A cell, darker for more; the best of those that are allowed is framed."""
    value = column[row]
    known = [v for v in column if v is not None]
    if value is None:
        return tag("td", "–")
    low, high = min(known), max(known)
    share = (value - low) / (high - low) if high > low else 1.0
    inside = [v for v, ok in zip(column, allowed, strict=True) if ok and v is not None]
    most = " most" if allowed[row] and value == max(inside) else ""
    return tag("td", f"{value:,.0f}", class_=f"heat{most}", style=f"--heat:{8 + 42 * share:.0f}%")
