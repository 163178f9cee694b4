"""How a benchmark tells its result: a table, JSON, markdown; exit code 1 where a bar is missed."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
"""Where child processes find this package."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one benchmark found.

    Attributes:
        columns: heads of the table, units included.
        rows: one text for each column; the first names the row.
        missed: each bar that was missed, as a sentence.
        values: the numbers behind the table, for ``--json``.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    missed: Sequence[str] = ()
    values: dict[str, Any] = field(default_factory=dict)


def machine() -> str:
    """CPU model, cores and Python, without a name that tells whose machine it is."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cpu = models[0] if models else platform.machine()
    return f"{len(models) or 'unknown number of'} cores, {cpu}, Python {platform.python_version()}"


def show(result: Result) -> None:
    """Prints the table and what was missed."""
    table = Table(title=result.title, title_justify="left")
    for place, name in enumerate(result.columns):
        table.add_column(name, justify="right" if place else "left")
    for row in result.rows:
        table.add_row(*row)
    Console().print(table)
    for sentence in result.missed:
        click.echo(f"MISSED  {sentence}")


def markdown(result: Result) -> str:
    """The table as GitHub shows it."""
    lines = [
        result.columns,
        ["---", *("--:" for _ in result.columns[1:])],
        *result.rows,
    ]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"**{result.title}**\n\n{table}\n"


def as_command(run: Callable[[bool], Result], about: str) -> click.Command:
    """The command line of one benchmark."""

    @click.command(help=about)
    @click.option("--quick", is_flag=True, help="Less than 15 s, for a first look.")
    @click.option("--json", "as_json", is_flag=True, help="Numbers instead of a table.")
    def command(quick: bool, as_json: bool) -> None:
        result = run(quick)
        if as_json:
            told = {"machine": machine(), "missed": list(result.missed), **result.values}
            click.echo(json.dumps(told, indent=2))
        else:
            show(result)
        sys.exit(1 if result.missed else 0)

    return command
