"""``autotune space``: the search spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from autotune.engine.sglang.command import LaunchCommand


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
@click.option("--sglang", metavar="VERSION", help="Release of SGLang [asked from the command].")
@click.argument("command_words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def check(file: str, sglang: str | None, command_words: tuple[str, ...]) -> None:
    """Check a space: says what is wrong and where, or how large it is.

    With a launch command after -- also what the server of that command refuses of it.
    """
    from autotune.engine.sglang.limits import notes, space_on
    from autotune.space import load_space

    space = load_space(file)
    launch, found = _server(sglang, command_words)
    placed = space_on(space, launch)
    click.echo(f"{file} is sound: {placed.size:,} legal configurations of {placed.raw_size:,}")
    click.echo(found)
    for removal in placed.removals:
        click.echo(removal.describe())
    for note in notes(placed, launch):
        click.echo(note)


def _server(sglang: str | None, words: tuple[str, ...]) -> tuple[LaunchCommand, str]:
    """The command to hold a space against, and its release in words."""
    from autotune.engine.sglang.command import LaunchCommand
    from autotune.engine.sglang.installed import Installed, installed
    from autotune.engine.sglang.versions import Version
    from autotune.errors import UsageError

    launch = LaunchCommand.parse(words or ("sglang", "serve"))
    if sglang is not None:
        version = Version.parse(sglang)
        if version is None:
            raise UsageError(f"--sglang {sglang} is no version of SGLang, such as 0.5.10")
        found = Installed(version, "as said")
    else:
        found = installed(launch) if words else Installed(None, "no command was given")
    return launch.for_version(found.version), found.describe()
