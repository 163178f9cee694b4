"""``autotune export``: launch flags one can deploy."""

from __future__ import annotations

from pathlib import Path

import click

from autotune.cli import options


@click.command(short_help="the best launch flags")
@options.study
@click.option("--best", metavar="OBJECTIVE", help="Best for this objective [the study's own].")
@click.option("--knee", is_flag=True, help="The knee of the front.")
@click.option("--trial", type=int, metavar="N", help="The configuration of this trial.")
@click.option("--max-latency", type=float, metavar="S", help="Most throughput within S seconds.")
@click.option("--allow-infeasible", is_flag=True, help="Also with --trial outside a constraint.")
@click.option("--format", "format_name", default="shell", show_default=True, metavar="FORMAT",
              help="shell, flags or json.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to a file.")
def command(
    study: str | None,
    best: str | None,
    knee: bool,
    trial: int | None,
    max_latency: float | None,
    allow_infeasible: bool,
    format_name: str,
    output: Path | None,
) -> None:
    """The best launch flags of a study: a command to run, flags to append, or JSON."""
    from autotune.errors import UsageError
    from autotune.export import choose, recipe_for, render
    from autotune.study.config import load_objective
    from autotune.study.reading import read_study

    if sum((best is not None, knee, trial is not None, max_latency is not None)) > 1:
        raise UsageError("--best, --knee, --trial and --max-latency exclude each other")
    view = read_study(study, objective=load_objective(best) if best else None)
    standing = choose(
        view.ranking,
        knee=knee,
        trial=trial,
        max_latency_s=max_latency,
        allow_infeasible=allow_infeasible,
    )
    text = render(recipe_for(view, standing), format_name)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
        if format_name == "shell":
            output.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
    click.echo(f"wrote {output}", err=True)
