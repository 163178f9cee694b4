"""``autotune dashboard``: the real Optuna dashboard on a study."""

from __future__ import annotations

import click

from autotune.cli import options


@click.command(short_help="the Optuna dashboard on a study")
@options.study
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True,
              help="0 picks a free one.")  # fmt: skip
def command(study: str | None, port: int) -> None:
    """Serve the Optuna dashboard on a study, on 127.0.0.1, until Ctrl-C. Works while it runs."""
    from autotune.dashboard.app import serve
    from autotune.study.interrupt import Interrupts
    from autotune.study.reading import open_store

    store = open_store(study)
    with Interrupts().active():
        serve(store, port, lambda url: click.echo(f"{url}  (Ctrl-C ends it)"))
