"""Options that several commands share."""

from __future__ import annotations

from typing import Any

import click

study = click.option("--study", metavar="NAME", help="Study to read; default: the newest one.")
runs_on = click.option(
    "--on", "runs_on", metavar="ssh://HOST", help="Run the servers on another machine."
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def print_json(document: Any) -> None:  # noqa: ANN401 (any JSON value)
    """One JSON document on stdout."""
    import json

    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
