"""``autotune optimize``: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autotune.cli import options
from autotune.cli.event_file import STDOUT, events_to
from autotune.cli.watching import watched

if TYPE_CHECKING:
    from autotune.study.campaign import Campaign


@click.command(short_help="search the launch flags")
@click.option("--objective", metavar="NAME|FILE", help="agentic (default), balanced, throughput.")
@click.option("--study", metavar="NAME", help="Name of the study; the same name goes on with it.")
@click.option("--config", type=click.Path(path_type=Path), help="Study file [autotune.yaml].")
@click.option("--engine", metavar="ENGINE", help="sglang or simulated.")
@click.option("--scenario", metavar="NAME", help="Scenario of the simulated server.")
@click.option("--space", metavar="NAME|FILE", help="Search space [speculative].")
@click.option("--workload", metavar="NAME", help="Workload [agentic].")
@click.option(
    "--sampler", metavar="NAME", help="speculative (default), tpe, gp, random, grid, sweep."
)
@click.option("--trials", type=int, metavar="N", help="Launches at most [30].")
@options.runs_on
@click.option("--time", "time_s", metavar="2h", help="Wall time of the search, of this run.")
@click.option(
    "--gpu-hours", type=float, metavar="X", help="GPU hours of the search, over all runs."
)
@click.option("--target-gain", type=float, metavar="PCT", help="Stop at this gain, in percent.")
@click.option("--patience", type=int, metavar="N", help="Stop when N launches changed nothing.")
@click.option(
    "--warm-start",
    metavar="STUDY|FILE|recipes",
    help="Start from an earlier study, from hand measurements (a CSV with flags by their names, "
    "latency_s or decode_tok_s at C=1, throughput_tok_s, and concurrency, accept_length where "
    "known), or from published recipes.",
)
@click.option("--exhaust", is_flag=True, default=None, help="Use all launches, do not stop early.")
@click.option(
    "--widen/--no-widen",
    default=None,
    help="Search more steps where the model expects more beyond the last of them, up to 16 [on].",
)
@click.option(
    "--prune/--no-prune",
    default=None,
    help="Leave a launch after C=1 that cannot become the best nor add to the front [on].",
)
@click.option("--without-off", is_flag=True, default=None, help="No launch without speculation.")
@click.option(
    "--confirm", type=int, metavar="N", help="Fresh launches of winner and baseline at the end [2]."
)
@click.option("--no-confirm", is_flag=True, help="No fresh launches at the end.")
@click.option("--finalists", type=int, metavar="N", help="Configurations to confirm [1].")
@click.option("--latency-concurrency", type=int, metavar="C", help="Requests in flight [1].")
@click.option("--serving-concurrency", metavar="C,C", help="Requests in flight [16,32].")
@click.option("--slo", multiple=True, metavar="'M<=X'", help="Limit, such as 'ttft_p95_s<=0.5'.")
@click.option("--storage", metavar="PATH|URL", help="Journal file or database of the study.")
@click.option("--seed", type=int, metavar="N", help="Seed of the search and the workload [0].")
@click.option(
    "--allow-simulated-acceptance",
    is_flag=True,
    default=None,
    help="Tune a server with SGLANG_SIMULATE_ACC_LEN set.",
)
@click.option("--dry-run", is_flag=True, help="Say what would run, and start nothing.")
@click.option("--print-config", is_flag=True, help="Each setting with its origin, and stop.")
@options.events
@options.as_json
@click.argument("command_words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    command_words: tuple[str, ...],
    config: Path | None,
    dry_run: bool,
    print_config: bool,
    no_confirm: bool,
    events: str | None,
    as_json: bool,
    time_s: str | None,
    serving_concurrency: str | None,
    **given: Any,  # noqa: ANN401 (click's values, checked by study.config)
) -> None:
    """Search the launch flags of SGLANG: one server launch per trial.

    The launch command comes last, after --; its own flags are the baseline. With no command, the
    bundled simulated server is tuned.
    """
    from autotune.study.config import parse_concurrencies, parse_duration, resolve

    if time_s is not None:
        given["time_s"] = parse_duration(time_s, "--time")
    if serving_concurrency is not None:
        given["serving_concurrency"] = parse_concurrencies(
            serving_concurrency, "--serving-concurrency"
        )
    options.check_stdout(events, as_json)
    if no_confirm:
        if given["confirm"]:
            raise click.UsageError("--confirm and --no-confirm exclude each other")
        given["confirm"] = 0
    resolved = resolve(given | {"command": command_words}, config)
    if print_config:
        _print_config(resolved.config, resolved.origins)
        return

    from autotune.study.campaign import Campaign

    campaign = Campaign.prepare(resolved.config)
    _introduce(campaign)
    if dry_run:
        from autotune.cli.rehearsal import document, rehearse

        options.print_json(document(campaign)) if as_json else rehearse(campaign)
        return
    with events_to(events, campaign) as told:
        reason = watched(campaign, campaign.run, told)
        _finish(campaign, reason, as_json, text_to_stderr=events == STDOUT)


def _print_config(config: Any, origins: Any) -> None:  # noqa: ANN401
    from dataclasses import asdict

    from autotune.engine.sglang.command import LaunchCommand
    from autotune.study.store import masked

    values = asdict(config) | {
        "command": LaunchCommand(config.command).redacted().argv,
        "storage": config.storage and masked(config.storage),
    }
    for name, value in values.items():
        shown = " ".join(map(str, value)) if isinstance(value, tuple) else value
        click.echo(f"{name:20} {'' if shown is None else shown!s:45} {origins[name]}")


def _introduce(campaign: Campaign) -> None:
    config, space = campaign.config, campaign.space
    if campaign.is_bundled:
        click.echo(
            "no launch command given: tuning the bundled SIMULATED server "
            f"(scenario {campaign.scenario}); every number below is simulated",
            err=True,
        )
    click.echo(
        f"study {campaign.store.name} · objective {campaign.objective.describe()} · "
        f"{campaign.engine_title}",
        err=True,
    )
    if campaign.warm is not None:
        click.echo(
            f"warm start: {campaign.warm.source}; believed as far as launches here bear it out",
            err=True,
        )
    n_trials = f"up to {config.trials} launches"
    if campaign.n_done:
        n_trials += f", {campaign.n_done} done before"
    if config.confirm:
        n_trials += f", then {campaign.n_to_confirm} to confirm the best"
    click.echo(
        f"space {space.name}: {space.size:,} legal configurations of {space.raw_size:,} · "
        f"{n_trials}\n",
        err=True,
    )


def _finish(campaign: Campaign, reason: str, as_json: bool, text_to_stderr: bool) -> None:
    from autotune.cli.summary import summary
    from autotune.errors import NoFeasibleConfiguration
    from autotune.study.reading import read_study
    from autotune.study.verdict import none_feasible

    view = read_study(campaign.store.name, storage=campaign.store.location)
    if as_json:
        options.print_json(options.document(view) | {"stopped": reason})
    else:
        click.echo(summary(view, reason), err=text_to_stderr)
    if view.ranking.best is None:
        raise NoFeasibleConfiguration(
            none_feasible(view.records), hint=f"autotune show --study {view.name}"
        )
