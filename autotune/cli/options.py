"""Options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from autotune.study.reading import StudyView

study = click.option("--study", metavar="NAME", help="Study to read; default: the newest one.")
runs_on = click.option(
    "--on", "runs_on", metavar="ssh://HOST", help="Run the servers on another machine."
)
events = click.option(
    "--events", metavar="FILE", help="Each event as a line of JSON; - is stdout, text is on stderr."
)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")


def heading(view: StudyView) -> str:
    """The first line of what is said of a study, and whether its numbers are real."""
    simulated = " · SIMULATED numbers" if view.is_simulated else ""
    faked = " · FAKED accept length" if view.fakes_acceptance else ""
    return f"study {view.name} · objective {view.objective.describe()}{simulated}{faked}"


def document(view: StudyView) -> dict[str, Any]:
    """A study as ``autotune pareto --json`` tells it."""
    from autotune.study.verdict import off_wins

    told = {"schema": 1, "simulated": view.is_simulated} | view.ranking.to_dict(view.name)
    if view.confirmation is not None:
        from autotune.study.confirmation import to_dict

        told["confirmation"] = to_dict(view.confirmation)
    if view.n_foreign:
        told["n_foreign"] = view.n_foreign
    off = off_wins(view, view.ranking)
    return told if off is None else told | {"off_wins": off}


def check_stdout(events: str | None, as_json: bool) -> None:
    """Refuses two kinds of data on stdout.

    Raises:
        UsageError: both are asked for.
    """
    if events == "-" and as_json:
        raise click.UsageError("--json and --events - both go to stdout: give --events a file")


def print_json(document: Any) -> None:  # noqa: ANN401 (any JSON value)
    """One JSON document on stdout."""
    import json

    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
