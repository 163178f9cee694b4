"""``autotune doctor``: what would keep the first launch from working, before it is made."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import options

_MARKS = {"ok": "✓", "warning": "!", "problem": "✗"}
_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command(short_help="check everything a first launch depends on; starts nothing")
@click.option("--config", type=click.Path(path_type=Path), help="Study file [autotune.yaml].")
@click.option("--space", help="Search space, by name or file.")
@click.option("--workload", help="Workload, by name or file.")
@click.option("--storage", metavar="PATH|URL", help="Journal file or database of the study.")
@options.runs_on
@options.as_json
@click.argument("command_words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    config: Path | None,
    space: str | None,
    workload: str | None,
    storage: str | None,
    runs_on: str | None,
    as_json: bool,
    command_words: tuple[str, ...],
) -> None:
    """Check everything a first launch depends on. Nothing is started, and nothing is changed.

    Ends with 4 where something would keep the server from starting.
    """
    from dataclasses import asdict

    from autotune.study.checkup import check_up
    from autotune.study.config import resolve

    given = {
        "space": space,
        "workload": workload,
        "storage": storage,
        "runs_on": runs_on,
        "command": command_words,
    }
    findings = list(check_up(resolve(given, config).config))
    if as_json:
        options.print_json({"findings": [asdict(finding) for finding in findings]})
    for finding in () if as_json else findings:
        mark = click.style(_MARKS[finding.state], fg=_COLOURS[finding.state])
        click.echo(f"{mark} {finding.name:12} {finding.text}")
        if finding.remedy:
            click.echo(f"  {'':12} {finding.remedy}")
    if any(finding.state == "problem" for finding in findings):
        raise click.exceptions.Exit(4)
