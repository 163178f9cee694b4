"""``autotune pareto``: the front, under any weight."""

from __future__ import annotations

import click

from autotune.cli import options


@click.command(short_help="the front of a study")
@options.study
@click.option("--weight", metavar="latency=0.7", help="Another weight than the study's own.")
@options.as_json
def command(study: str | None, weight: str | None, as_json: bool) -> None:
    """The front of a study. The weight may change after the run: both raw values are kept."""
    from autotune.cli.summary import front_table
    from autotune.study.config import parse_weight
    from autotune.study.reading import read_study

    view = read_study(study, objective=parse_weight(weight) if weight else None)
    ranking = view.ranking
    if as_json:
        options.print_json(ranking.to_dict(view.name))
        return
    click.echo(f"study {view.name} · objective {ranking.objective.describe()}\n")
    for line in front_table(view, ranking):
        click.echo(line)
