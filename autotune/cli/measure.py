"""``autotune measure``: one configuration or one running server, no search."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autotune.cli import options

if TYPE_CHECKING:
    from autotune.core.trial import TrialRecord
    from autotune.engine.base import RunningServer


@click.command(short_help="measure a running server or a launch command")
@click.option("--url", help="A running server; it is only sent requests.")
@click.option("--concurrency", default="1,16", show_default=True, help="Requests in flight.")
@click.option("--workload", default="agentic", show_default=True)
@click.option("--model", help="Model name in the requests [what the server serves].")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the workload.")
@options.as_json
@click.argument("command_words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    url: str | None,
    concurrency: str,
    workload: str,
    model: str | None,
    seed: int,
    as_json: bool,
    command_words: tuple[str, ...],
) -> None:
    """Measure a running server (--url), or launch a command, measure it and stop it.

    An API key is read from the environment variable AUTOTUNE_API_KEY.
    """
    from autotune.errors import ConfigError, UsageError
    from autotune.study.config import parse_concurrencies
    from autotune.workload import workload_named

    levels = parse_concurrencies(concurrency, "--concurrency")
    if not levels or levels[0] < 1:
        raise ConfigError(f"--concurrency {concurrency!r} must name at least one level above 0")
    if (url is None) == (not command_words):
        raise UsageError("give either --url or a launch command after --")
    workload_named(workload, seed=seed)  # a wrong name is told before a launch takes its minutes
    if url is not None:
        record = _measure_url(url, levels, workload, model, seed)
    else:
        record = _measure_command(command_words, levels, workload, model, seed)
    if as_json:
        options.print_json(record.to_dict())
    else:
        _print(record)


def _measure_url(
    url: str, levels: tuple[int, ...], workload: str, model: str | None, seed: int
) -> TrialRecord:
    from autotune.engine.attached import AttachedServer

    api_key = os.environ.get("AUTOTUNE_API_KEY")
    return _measure(AttachedServer(url, api_key=api_key), levels, workload, model, seed)


def _measure_command(
    words: tuple[str, ...], levels: tuple[int, ...], workload: str, model: str | None, seed: int
) -> TrialRecord:
    """Launches in a folder of its own, which stays only where the launch failed."""
    from autotune.engine.base import LaunchFailed
    from autotune.errors import LaunchError
    from autotune.study.campaign import engine_for
    from autotune.study.interrupt import Interrupts

    engine = engine_for(words, seed)
    directory = Path(tempfile.mkdtemp(prefix="autotune-measure-"))
    with Interrupts().active():
        try:
            server = engine.launch(
                {}, directory=directory, number=0, announce=lambda t: click.echo(t, err=True)
            )
        except LaunchFailed as failed:
            failure = failed.failure
            raise LaunchError(
                f"the server never became ready: {failure.kind}: {failure.evidence}",
                hint=f"{failure.remedy}; its log: {directory / 'server.log'}",
            ) from None
        with server:
            record = _measure(server, levels, workload, model, seed)
    shutil.rmtree(directory)
    return record


def _measure(
    server: RunningServer, levels: tuple[int, ...], workload: str, model: str | None, seed: int
) -> TrialRecord:
    """A record of what the server does at each concurrency.

    Raises:
        MeasurementError: no value can be used.
    """
    from autotune import __version__
    from autotune.core.trial import TrialRecord
    from autotune.errors import MeasurementError
    from autotune.events import ignore
    from autotune.measure.phase import plan_levels
    from autotune.measure.validity import caveats, fatal
    from autotune.study.evaluate import ServerDied, limits_of, measure
    from autotune.workload import workload_named

    source = workload_named(workload, seed=seed)
    try:
        phases = list(measure(server, source, plan_levels(levels), listener=ignore, model=model))
    except ServerDied as died:
        raise MeasurementError(
            f"the server died while it was measured: {died.failure.evidence}",
            hint=died.failure.remedy,
        ) from None
    unusable = next(filter(None, map(fatal, phases)), None)
    if unusable is not None:
        raise MeasurementError(unusable.evidence, hint=unusable.remedy)
    return TrialRecord(
        number=0,
        status="complete",
        flags={},
        effective=server.effective,
        phases=phases,
        warnings=caveats(phases, limits_of(server.effective)),
        machine=server.machine,
        versions=server.versions | {"autotune": __version__},
    )


def _print(record: TrialRecord) -> None:
    from autotune.cli import words

    if record.machine.get("simulated"):
        click.echo("SIMULATED server\n")
    titles = f"{'C':>4}  {'one turn':20}{'TTFT':20}{'decode':22}{'throughput':24}"
    click.echo(f"{titles}{'accept':8}{'in flight':11}requests")
    for phase in record.phases:
        accept = f"{phase.accept_length:.2f}" if phase.accept_length else "–"
        click.echo(
            f"{phase.concurrency:>4}  {words.seconds(phase.turn_latency_s):20}"
            f"{words.seconds(phase.ttft_s):20}{words.tok_s(phase.decode_tok_s):22}"
            f"{words.tok_s(phase.output_tok_s):24}{accept:8}{phase.in_flight_mean:<11.1f}"
            f"{phase.n_requests}"
        )
    for caveat in record.warnings:
        click.echo(f"! {caveat.text}")
