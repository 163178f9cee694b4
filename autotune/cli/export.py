"""``autotune export``: launch flags one can deploy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from autotune.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune.core.ranking import Standing
    from autotune.export import Recipe
    from autotune.study.reading import StudyView


@click.command(short_help="the best launch flags")
@options.study
@click.option("--best", metavar="OBJECTIVE", help="Best for this objective [the study's own].")
@click.option("--knee", is_flag=True, help="The knee of the front.")
@click.option("--trial", type=int, metavar="N", help="The configuration of this trial.")
@click.option("--max-latency", type=float, metavar="S", help="Most throughput within S seconds.")
@click.option("--min-throughput", type=float, metavar="T", help="Least latency from T tok/s on.")
@click.option("--front", type=click.Choice(["all"]), help="Every configuration of the front.")
@click.option("--adaptive", is_flag=True, help="Draft steps that follow the batch, with a file.")
@click.option("--allow-infeasible", is_flag=True, help="Also with --trial outside a constraint.")
@click.option(
    "--allow-unconfirmed", is_flag=True, help="Also what fresh launches do not show to be better."
)
@click.option("--format", "format_name", default="shell", show_default=True, metavar="FORMAT",
              help="shell, flags, diff, yaml (for SGLang's --config), docker, compose, k8s, "
              "k8s-args, systemd, env or json.")  # fmt: skip
@click.option("--sglang", metavar="VERSION", help="Write for this SGLang [the one measured].")
@click.option("-o", "--output", type=click.Path(path_type=Path),
              help="Write to a file; with --front all to a folder.")  # fmt: skip
def command(
    study: str | None,
    best: str | None,
    knee: bool,
    trial: int | None,
    max_latency: float | None,
    min_throughput: float | None,
    front: str | None,
    adaptive: bool,
    allow_infeasible: bool,
    allow_unconfirmed: bool,
    format_name: str,
    sglang: str | None,
    output: Path | None,
) -> None:
    """The best launch flags of a study, in the form that you deploy."""
    from autotune.errors import UsageError
    from autotune.export import (
        check_format,
        check_proven,
        choose,
        recipe_for,
        render,
        render_all,
    )
    from autotune.export import front as whole_front
    from autotune.study.config import load_objective
    from autotune.study.reading import read_study

    within = max_latency is not None or min_throughput is not None
    if sum((best is not None, knee, trial is not None, within, front is not None, adaptive)) > 1:
        raise UsageError(
            "--best, --knee, --trial, --front, --adaptive and the limits --max-latency and "
            "--min-throughput exclude each other"
        )
    check_format(format_name)
    view = read_study(study, objective=load_objective(best) if best else None)
    standings: Sequence[Standing] = (
        whole_front(view.ranking) if front else
        [choose(view, knee=knee, trial=trial, max_latency_s=max_latency,
                min_throughput_tok_s=min_throughput, allow_infeasible=allow_infeasible)]
    )  # fmt: skip
    if not front and not allow_unconfirmed:
        check_proven(view, standings[0])
    recipes = [recipe_for(view, standing, sglang) for standing in standings]
    if adaptive:
        recipes = [_adaptive(view, sglang, output, allow_unconfirmed) or recipes[0]]
    _warn(view, recipes[0])
    if front and output is not None:
        _write_all(recipes, format_name, output)
        return
    text = render_all(recipes, format_name) if front else render(recipes[0], format_name)
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(text, format_name, output)


def _adaptive(
    view: StudyView, version: str | None, output: Path | None, allow_unconfirmed: bool
) -> Recipe | None:
    """The best flags with steps that follow the batch; None where fixed steps are best.

    The file of the table is written beside the output, or into the folder of the study.
    """
    from autotune.export import adaptive_recipe, check_adaptive, suggestion_for

    suggestion = suggestion_for(view, version)
    if not suggestion.tiers:
        click.echo(f"fixed steps, not adaptive: {suggestion.why_static}", err=True)
        return None
    if not allow_unconfirmed:
        check_adaptive(view, suggestion)
    name = "adaptive.json" if version is None else f"adaptive-{version}.json"
    path = view.directory / name if output is None else output.with_suffix(".adaptive.json")
    recipe = adaptive_recipe(view, suggestion, path.absolute(), version)
    assert recipe.file is not None, "an adaptive recipe has its table"
    _write(recipe.file.text, "json", path)
    return recipe


def _write_all(recipes: Sequence[Recipe], format_name: str, folder: Path) -> None:
    from autotune.errors import UsageError
    from autotune.export import SUFFIXES, render

    texts = [(recipe.standing.trial, render(recipe, format_name)) for recipe in recipes]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}") from None
    for trial, text in texts:
        suffix = SUFFIXES.get(format_name, ".yaml")
        _write(text, format_name, folder / f"trial-{trial:04d}{suffix}")


def _write(text: str, format_name: str, output: Path) -> None:
    from autotune.errors import UsageError
    from autotune.export import SCRIPTS

    try:
        output.write_text(text, encoding="utf-8")
        if format_name in SCRIPTS:
            output.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
    click.echo(f"wrote {output}", err=True)


def _warn(view: StudyView, recipe: Recipe) -> None:
    """What makes the measured numbers doubtful for the target, on stderr."""
    import os

    from autotune.engine.gpu import visible_gpus
    from autotune.export import other_machine
    from autotune.study.verdict import proof_of

    cautions = list(recipe.cautions)
    proof = proof_of(view, recipe.standing)
    if proof.state != "given":
        cautions.append(f"trial {recipe.standing.trial} is {proof.text}")
    if not view.is_simulated and view.config.runs_on is None:
        gpus = visible_gpus(os.environ)
        here = {"n_gpus": len(gpus), "gpu": gpus[0].name} if gpus else {}
        cautions += filter(None, [other_machine(recipe.record.machine, here)])
    for caution in cautions:
        click.echo(f"warning: {caution}", err=True)
