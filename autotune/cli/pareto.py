"""``autotune pareto``: the front, under any weight."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from autotune.cli import options

if TYPE_CHECKING:
    from autotune.core.ranking import Ranking


@click.command(short_help="the front of a study")
@options.study
@click.option("--weight", metavar="latency=0.7", help="Another weight than the study's own.")
@options.as_json
def command(study: str | None, weight: str | None, as_json: bool) -> None:
    """The front of a study. The weight may change after the run: both raw values are kept."""
    from autotune.cli.summary import foreign_line, front_table, off_line
    from autotune.study.config import parse_weight
    from autotune.study.reading import read_study

    view = read_study(study, objective=parse_weight(weight) if weight else None)
    ranking = view.ranking
    if as_json:
        options.print_json(options.document(view))
        return
    click.echo(f"{options.heading(view)}\n")
    for line in (*off_line(view, ranking), *front_table(view, ranking)):
        click.echo(line)
    for line in (*_how_sure(ranking), *foreign_line(view)):
        click.echo(line)


def _how_sure(ranking: Ranking) -> Iterator[str]:
    """Which members are the same within the noise, and which weight each would win under."""
    from autotune.study import words

    ranges = ranking.weight_ranges()
    if len(ranges) > 1:
        yield "\nHighest measured score by the weight of latency"
        for standing, low, high in ranges:
            yield f"  {low:.2f} to {high:.2f}  trial {standing.trial}"
    if ranking.ties:
        pairs = words.first_of([f"{a.trial} and {b.trial}" for a, b in ranking.ties])
        yield f"\nThe same within the noise: {pairs}"
    if ranking.perhaps:
        others = words.first_of([s.trial for s in ranking.perhaps])
        yield f"\nOff the front by no more than the noise: {others}"
