"""``autotune report``: a study as one page."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import options


@click.command(short_help="a study as one HTML page")
@options.study
@click.option("-o", "--output", type=click.Path(path_type=Path), help="[STUDY/report.html]")
@click.option("--cdn", is_flag=True, help="A small file that loads plotly from its network.")
@click.option("--images", type=click.Choice(["png", "svg"]), help="Each figure as a picture too.")
def command(study: str | None, output: Path | None, cdn: bool, images: str | None) -> None:
    """Write a study as one self-contained HTML page that needs no network.

    Pictures (--images) go into a folder beside it and need the extra png.
    """
    from autotune.errors import UsageError
    from autotune.report.page import report_page
    from autotune.report.subject import Subject
    from autotune.study.reading import open_study

    view, stored = open_study(study)
    subject = Subject(view, stored)
    path = output or view.directory / "report.html"
    try:
        path.write_text(report_page(subject, cdn=cdn), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    click.echo(str(path))
    if images:
        from autotune.report.images import write_images

        for picture in write_images(subject, path.parent / "figures", images):
            click.echo(str(picture))
