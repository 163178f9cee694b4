"""``autotune space``: the search spaces."""

from __future__ import annotations

import click


@click.group(short_help="list, show and check search spaces")
def command() -> None:
    """List, show and check search spaces."""


@command.command("list")
def list_spaces() -> None:
    """The spaces that come with autotune."""
    from autotune.space import load_space, space_names

    for name in space_names():
        space = load_space(name)
        click.echo(f"{name:16} {space.size:>8,} configurations   {space.title}")


@command.command("show")
@click.argument("name")
def show(name: str) -> None:
    """The flags of a space and their values."""
    from autotune.space import load_space

    space = load_space(name)
    click.echo(f"{space.name}: {space.title}")
    click.echo(f"{space.size:,} legal configurations of {space.raw_size:,}\n")
    for flag, parameter in space.parameters.items():
        click.echo(f"  {flag:34} {parameter.describe()}")
    for flag, value in space.fixed.items():
        click.echo(f"  {flag:34} always {value}")


@command.command("check")
@click.argument("file")
def check(file: str) -> None:
    """Check a space: says what is wrong and where, or how large it is."""
    from autotune.space import load_space

    space = load_space(file)
    click.echo(f"{file} is sound: {space.size:,} legal configurations of {space.raw_size:,}")
