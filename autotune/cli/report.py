"""``autotune report``: the front as one page."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import options


@click.command(short_help="the front as one HTML page")
@options.study
@click.option("-o", "--output", type=click.Path(path_type=Path), help="[STUDY/pareto.html]")
def command(study: str | None, output: Path | None) -> None:
    """Write the front of a study as one self-contained HTML page that needs no network."""
    from autotune.errors import UsageError
    from autotune.report.front import front_page
    from autotune.study.reading import read_study

    view = read_study(study)
    path = output or view.directory / "pareto.html"
    try:
        path.write_text(
            front_page(view.ranking, view.name, simulated=view.is_simulated), encoding="utf-8"
        )
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    click.echo(str(path))
