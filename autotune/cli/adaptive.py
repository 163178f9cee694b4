"""``autotune adaptive``: draft steps that follow the batch, against the best fixed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from autotune.cli import options
from autotune.cli.event_file import STDOUT, events_to

if TYPE_CHECKING:
    from autotune.study.campaign import Campaign

EPILOG = """
\b
Examples:
  autotune adaptive --dry-run
  autotune adaptive --study agents
  autotune export --study agents --adaptive
"""


@click.command(short_help="steps that follow the batch", epilog=EPILOG)
@options.study
@click.option("--launches", type=int, default=1, metavar="N", help="In all [1].")
@click.option("--dry-run", is_flag=True, help="Say which steps each load wants; launch nothing.")
@options.events
@options.as_json
@click.argument("command_words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    study: str | None,
    launches: int,
    dry_run: bool,
    events: str | None,
    as_json: bool,
    command_words: tuple[str, ...],
) -> None:
    """Launch SGLang's adaptive speculation with the steps that each load wants, and compare.

    The study has measured which number of draft steps is best at each concurrency. One launch with
    a table of them, on the prompts of the search, shows what that is worth against the best fixed
    flags. Launches made before count.

    The launch command is the study's own; where it holds a secret, which no file keeps, give it
    again after --.
    """
    from msgspec import to_builtins

    from autotune.cli.adaptive_table import comparison_lines, document, suggestion_lines
    from autotune.cli.reopening import config_of
    from autotune.study.adaptive_verdict import compared
    from autotune.study.campaign import Campaign
    from autotune.study.reading import read_study
    from autotune.study.suggestion import suggest

    options.check_stdout(events, as_json)
    if launches < 1:
        raise click.UsageError(f"--launches is {launches}, and a comparison needs at least one")
    config = config_of(study, command_words)
    campaign = Campaign.prepare(config)
    suggestion = suggest(read_study(config.study), campaign.engine.command)
    lines = list(suggestion_lines(suggestion))
    if not dry_run and suggestion.tiers:
        click.echo("\n".join([*lines, ""]), err=True)
        _launch(campaign, launches, events)
        lines = []
    view = read_study(config.study)
    comparison = compared(view)
    if as_json:
        options.print_json(to_builtins(document(view, suggestion, comparison)))
        return
    if comparison is not None:
        lines += ["", *comparison_lines(comparison)]
    is_worse = comparison is not None and comparison.verdict == "worse"
    if suggestion.tiers and not is_worse:  # export would refuse it
        lines += ["", f"Next     autotune export --study {config.study} --adaptive"]
    click.echo("\n".join(lines).strip("\n"), err=events == STDOUT)


def _launch(campaign: Campaign, n_launches: int, events: str | None) -> None:
    """Makes the launches that are missing.

    Raises:
        LaunchError: the last one carries no value.
    """
    from autotune.cli.watching import watched
    from autotune.errors import LaunchError
    from autotune.study.adaptive_verdict import compared
    from autotune.study.reading import read_study

    with events_to(events, campaign) as told:
        watched(campaign, lambda listener: campaign.adapt(listener, n_launches), told)
        found = compared(read_study(campaign.store.name, storage=campaign.store.location))
        if found is not None and found.gain is None:
            raise LaunchError(f"the adaptive server was not measured: {found.failure}")
