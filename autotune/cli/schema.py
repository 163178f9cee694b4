"""``autotune schema``: the JSON Schemas of what the commands print and keep."""

from __future__ import annotations

import click

from autotune.cli import options

EPILOG = """
\b
Examples:
  autotune schema
  autotune schema events > events.schema.json
"""


@click.command(short_help="JSON Schemas of what programs read", epilog=EPILOG)
@click.argument("name", required=False, metavar="[NAME]")
def command(name: str | None) -> None:
    """The JSON Schema (draft 2020-12) of a document; without a name, which there are.

    Later versions may add keys: a reader passes over those that it does not know.
    """
    from autotune.cli.documents import DOCUMENTS, schema_of
    from autotune.errors import UsageError, nearest

    if name is None:
        for known, (_, origin) in DOCUMENTS.items():
            click.echo(f"{known:10} {origin}")
    elif name in DOCUMENTS:
        options.print_json(schema_of(name))
    else:
        raise UsageError(f"there is no schema {name!r}: {nearest(name, DOCUMENTS)}")
