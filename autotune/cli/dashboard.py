"""``autotune dashboard``: the real Optuna dashboard on a study."""

from __future__ import annotations

import click

from autotune.cli import options


@click.command(short_help="the Optuna dashboard on a study")
@options.study
@click.option("--storage", metavar="PATH|URL", help="Where the study is kept now, if it has moved.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True,
              help="0 picks a free one.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Address to listen on.")  # fmt: skip
@click.option("--allow-host", multiple=True, metavar="NAME",
              help="A further name it is asked for, as behind a proxy.")  # fmt: skip
@click.option("--writable", is_flag=True, help="Let the page change and delete the study.")
def command(
    study: str | None,
    storage: str | None,
    port: int,
    host: str,
    allow_host: tuple[str, ...],
    writable: bool,
) -> None:
    """Serve the Optuna dashboard on a study, for reading, until Ctrl-C. Works while it runs.

    Best trials and constraints are right, and the page has a note with the flags to use, the front
    with intervals, the progress, and accept length and KV pressure.
    """
    from autotune.dashboard.app import is_open_to_others, serve
    from autotune.study.interrupt import Interrupts
    from autotune.study.reading import open_store

    store = open_store(study, storage)
    if is_open_to_others(host):
        may = "read, change and delete the study" if writable else "read the study and its logs"
        click.echo(f"warning: everybody who reaches {host} may {may}: there is no login", err=True)
    with Interrupts().active():
        serve(
            store, port, lambda url: click.echo(f"{url}  (Ctrl-C ends it)"),
            host=host, allow=allow_host, writable=writable,
        )  # fmt: skip
