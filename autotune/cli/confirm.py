"""``autotune confirm``: fresh launches of what a study recommends, after the search."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from autotune.cli import options
from autotune.cli.event_file import STDOUT, events_to
from autotune.cli.watching import watched

if TYPE_CHECKING:
    from autotune.study.config import RunConfig

EPILOG = """
\b
Examples:
  autotune confirm
  autotune confirm --study agents --launches 4 --finalists 2
"""


@click.command(short_help="prove what a study recommends", epilog=EPILOG)
@options.study
@click.option(
    "--launches", type=int, metavar="N", help="Of each configuration in all [as the study]."
)
@click.option("--finalists", type=int, metavar="N", help="Configurations besides yours [1].")
@options.events
@options.as_json
@click.argument("command_words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    study: str | None,
    launches: int | None,
    finalists: int | None,
    events: str | None,
    as_json: bool,
    command_words: tuple[str, ...],
) -> None:
    """Launch what a study recommends and your own flags afresh, in turns, on prompts new to it.

    The verdict: better by so many percent, a tie, or inconclusive. Launches made before count.

    The launch command is the study's own; where it holds a secret, which no file keeps, give it
    again after --.
    """
    from autotune.cli.summary import confirm_summary
    from autotune.errors import NoFeasibleConfiguration
    from autotune.study.campaign import Campaign
    from autotune.study.reading import open_store, read_study
    from autotune.study.verdict import none_feasible

    options.check_stdout(events, as_json)
    store = open_store(study)
    campaign = Campaign.prepare(_config_of(study, command_words, launches, finalists))
    with events_to(events, campaign) as told:
        found = watched(campaign, campaign.confirm, told)
        view = read_study(campaign.store.name, storage=store.location)
        if view.searched.best is None:
            raise NoFeasibleConfiguration(none_feasible(view.records))
    if as_json:
        options.print_json(options.document(view))
    elif found is None:
        nothing = "nothing to confirm: nothing measured beats the flags you came with"
        click.echo(nothing, err=events == STDOUT)
    else:
        click.echo(confirm_summary(view), err=events == STDOUT)


def _config_of(
    study: str | None, words: tuple[str, ...], launches: int | None, finalists: int | None
) -> RunConfig:
    """That of the study, with another number of launches and the command that was given."""
    from autotune.cli.reopening import config_of
    from autotune.study.config_check import check_config

    config = config_of(study, words)
    n_each = config.confirm or 2 if launches is None else launches
    if n_each < 1:
        raise click.UsageError(f"--launches is {n_each}, and a verdict needs at least one")
    config = replace(config, confirm=n_each, finalists=finalists or config.finalists)
    check_config(config)
    return config
