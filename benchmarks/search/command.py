"""The command line of this benchmark: ``python -m benchmarks search``."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import click
import msgspec

from autotune.core.objective import PRESETS
from benchmarks.output import machine
from benchmarks.search.play import Run
from benchmarks.search.plot import draw
from benchmarks.search.samplers import why_missing
from benchmarks.search.tables import SETS, by_world, overview, plain, worlds_of
from benchmarks.search.tasks import Task, run_all


@click.command(
    name="search",
    help="Regret against launches of the samplers, in virtual time on boxes whose best is known.",
)
@click.option("--seeds", default=20, show_default=True, help="Boxes of each world.")
@click.option(
    "--samplers",
    default="speculative,tpe,random,sweep",
    show_default=True,
    help="gp besides, where torch is installed.",
)
@click.option(
    "--worlds",
    default="shipped,own,mixed,ordinary",
    show_default=True,
    help=f"Worlds, or sets of them: {', '.join(SETS)}.",
)
@click.option("--stress", is_flag=True, help="The stress set besides.")
@click.option("--trials", default=30, show_default=True, help="Launches, baseline included.")
@click.option("--objective", type=click.Choice(sorted(PRESETS)), default="agentic")
@click.option("--jobs", default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--quick", is_flag=True, help="Two boxes of each world, 15 launches.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write every run.")
@click.option(
    "--plot", "plot_path", type=click.Path(path_type=Path), help="Write curves: .html or .svg."
)
def command(
    seeds: int,
    samplers: str,
    worlds: str,
    stress: bool,
    trials: int,
    objective: str,
    jobs: int,
    quick: bool,
    json_path: Path | None,
    plot_path: Path | None,
) -> None:
    """Exit code 1 where the default sampler misses a bar."""
    if plot_path and plot_path.suffix != ".html" and not importlib.util.find_spec("kaleido"):
        raise click.UsageError("pictures need kaleido, which is not installed: write .html")
    if quick:
        seeds, trials = min(seeds, 2), min(trials, 15)
    chosen = _chosen_samplers(samplers)
    names = _chosen_worlds(worlds.split(",") + ["stress"] * stress)
    tasks = [Task(w, seed, chosen, objective, trials) for seed in range(seeds) for w in names]
    runs: list[Run] = []
    with click.progressbar(run_all(tasks, jobs), length=len(tasks), file=sys.stderr) as done:
        for group in done:
            runs += group
    runs.sort(key=lambda r: (names.index(r.world), chosen.index(r.sampler), r.seed))
    summary = overview(runs)
    click.echo(f"{objective} objective, {seeds} boxes of each world, on {machine()}")
    click.echo("\n" + plain(by_world(runs)))
    click.echo("\n" + plain(summary))
    if json_path:
        told = {"machine": machine(), "missed": list(summary.missed), "runs": runs}
        json_path.write_bytes(msgspec.json.encode(told))
    if plot_path:
        draw(runs, plot_path)
    sys.exit(1 if summary.missed else 0)


def _chosen_samplers(text: str) -> tuple[str, ...]:
    chosen = []
    for name in text.split(","):
        reason = why_missing(name)
        if reason is None:
            chosen.append(name)
        else:
            click.echo(f"without {name}: {reason}", err=True)
    if not chosen:
        raise click.UsageError("no sampler is left")
    return tuple(chosen)


def _chosen_worlds(words: list[str]) -> list[str]:
    try:
        return list(dict.fromkeys(name for word in words for name in worlds_of(word)))
    except KeyError as error:
        raise click.UsageError(f"no world or set {error}") from None
