"""``autotune show``: every trial of a study, then its front."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from autotune.cli import options

if TYPE_CHECKING:
    from autotune.study.reading import StudyView


@click.command(short_help="trials and front of a study")
@options.study
@options.as_json
@click.option("--csv", "as_csv", is_flag=True, help="One row per trial, raw values, on stdout.")
def command(study: str | None, as_json: bool, as_csv: bool) -> None:
    """Trials and feasible front of a study, with intervals and the change against the baseline."""
    from autotune.cli.summary import (
        confirm_table,
        edge_lines,
        foreign_line,
        front_table,
        off_line,
        table_of,
    )
    from autotune.study import words
    from autotune.study.reading import read_study

    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    view = read_study(study)
    if as_csv:
        from autotune.cli.trial_rows import as_csv as rows

        click.echo(rows(view), nl=False)
        return
    ranking = view.ranking
    if as_json:
        options.print_json(options.document(view) | _records(view))
        return
    click.echo(f"{options.heading(view)}\n")
    if not view.records:
        click.echo(words.foreign(view.n_foreign) or "no trial has ended yet")
        return
    table = table_of(view)
    click.echo(table.header())
    for record in view.records:
        standing = ranking.standing_of(record)
        click.echo(table.row(record, standing.gain_vs_baseline_pct if standing else None))
    click.echo()
    for line in (*off_line(view, ranking), *front_table(view, ranking)):
        click.echo(line)
    for line in confirm_table(view):
        click.echo(line)
    for line in edge_lines(view):
        click.echo(line)
    for line in (*_adaptive(view), *foreign_line(view)):
        click.echo(line)
    click.echo("".join(f"\n{line}" for line in _cautions(view)), nl=False)


def _adaptive(view: StudyView) -> Iterator[str]:
    """What steps that follow the batch were worth, where they were launched."""
    from autotune.cli.adaptive_table import comparison_lines
    from autotune.study.adaptive_verdict import compared

    comparison = compared(view)
    if comparison is not None:
        yield ""
        yield from comparison_lines(comparison)


def _records(view: StudyView) -> dict[str, Any]:
    """Every record; of launches after the search only where there are some."""
    afterwards = {
        "confirm_launches": [launch.record.to_dict() for launch in view.confirm_launches],
        "adaptive_launches": [launch.record.to_dict() for launch in view.adaptive_launches],
    }
    told = {name: records for name, records in afterwards.items() if records}
    return {"trials": [record.to_dict() for record in view.records], **told}


def _cautions(view: StudyView) -> Iterator[str]:
    """What the rows of the front had no room for, a line each."""
    from autotune.study import words

    trials = {standing.trial for standing in view.ranking.front}
    rows = [
        (record.number, caution)
        for record in view.records
        if record.number in trials
        for caution in words.cautions(record)[1:]
    ]
    if rows:
        yield "More to mind"
        yield from (f"{number:>3}  {caution}" for number, caution in rows)
        yield ""
