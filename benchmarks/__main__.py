"""Runs every benchmark and prints their tables as markdown, for the README."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from benchmarks import cost, limits, truth
from benchmarks.output import machine, markdown
from benchmarks.proposal import command as proposal
from benchmarks.search.command import command as search


@click.group(
    invoke_without_command=True,
    help="Run every benchmark of the measuring client; print markdown.",
)
@click.option("--quick", is_flag=True, help="Less than a minute, for a first look.")
@click.option("--json", "as_json", is_flag=True, help="Numbers instead of tables.")
@click.pass_context
def main(context: click.Context, quick: bool, as_json: bool) -> None:
    """Exit code 1 where a bar is missed."""
    if context.invoked_subcommand is not None:
        return
    results = [benchmark.run(quick) for benchmark in (truth, cost, limits)]
    missed = [sentence for result in results for sentence in result.missed]
    if as_json:
        told: dict[str, Any] = {"machine": machine(), "missed": missed}
        for result in results:
            told |= result.values
        click.echo(json.dumps(told, indent=2))
    else:
        click.echo(f"Measured on {machine()}.\n")
        for result in results:
            click.echo(markdown(result))
        for sentence in missed:
            click.echo(f"MISSED  {sentence}")
    sys.exit(1 if missed else 0)


main.add_command(search)
main.add_command(proposal, "proposal")

if __name__ == "__main__":
    main()
