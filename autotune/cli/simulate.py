"""``autotune simulate``: the simulated SGLang server alone."""

from __future__ import annotations

import click


@click.command(
    short_help="run the simulated SGLang server",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Run the simulated SGLang server with SGLang's own flags (--help lists them)."""
    from autotune.engine.simulated.server import main

    main(list(arguments))
