"""``autotune measure``: one configuration or one running server, no search."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autotune.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune.core.trial import TrialRecord
    from autotune.engine.base import Engine, RunningServer
    from autotune.measure.metrics import Limits
    from autotune.measure.plan import PhasePlan
    from autotune.measure.prompt import Api
    from autotune.workload import Workload

_DEFAULT_LEVELS = "1,16"
_FAILED_LOG = Path("autotune-measure.log")
"""In the current folder: the server log of the last launch that could not be measured."""


_EXAMPLES = """
\b
Examples:
  autotune measure --url http://127.0.0.1:30000 --concurrency 1,16 -o before.json
  autotune measure --rate 2 --good 'ttft_s<=0.5' -- python -m sglang.launch_server --model-path M
  autotune measure --compare before.json after.json
"""


@click.command(
    short_help="measure a running server or a launch command; compare two results",
    epilog=_EXAMPLES,
)
@click.option("--url", metavar="URL", help="A running server; it is only sent requests.")
@click.option(
    "--concurrency",
    metavar="C,C,…",
    help=f"Closed loop: so many requests in flight.  [{_DEFAULT_LEVELS}]",
)
@click.option(
    "--rate",
    type=float,
    metavar="REQ/S",
    help="Open loop instead: so many a second, at random moments.",
)
@click.option(
    "--replay", is_flag=True, help="Open loop instead: when the workload's own times say."
)
@click.option("--gaps", is_flag=True, help="Wait the pauses of tools and people between turns.")
@click.option(
    "--workload", default="agentic", show_default=True, metavar="NAME|FILE", help="What is sent."
)
@options.runs_on
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the workload.")
@click.option("--hold-out", is_flag=True, help="Use the sessions that no study is tuned on.")
@click.option("--api", default="chat", show_default=True, help="chat, completions or generate.")
@click.option("--model", metavar="NAME", help="Model in the requests.  [the one the server serves]")
@click.option(
    "--precision",
    type=float,
    default=0.02,
    show_default=True,
    metavar="FRACTION",
    help="A phase ends once its headline is known this well (95 %).",
)
@click.option("--seconds", type=float, help="Longest window of a phase.  [60; C=1: 90]")
@click.option(
    "--good",
    "goods",
    multiple=True,
    metavar="LIMIT",
    help="Count requests that keep it: 'ttft_s<=0.5'.",
)
@click.option(
    "--api-key-file", type=click.Path(), metavar="FILE", help="File that holds the API key."
)
@click.option(
    "--compare",
    "compared",
    nargs=2,
    type=click.Path(),
    metavar="BEFORE AFTER",
    help="Compare two saved results; measures nothing.",
)
@click.option(
    "-o", "--output", type=click.Path(), metavar="FILE", help="Save the result to this file."
)
@options.as_json
@click.argument("command_words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    url: str | None,
    concurrency: str | None,
    rate: float | None,
    replay: bool,
    gaps: bool,
    workload: str,
    hold_out: bool,
    api: str,
    model: str | None,
    seed: int,
    runs_on: str | None,
    precision: float,
    seconds: float | None,
    goods: tuple[str, ...],
    api_key_file: str | None,
    compared: tuple[str, str] | None,
    output: str | None,
    as_json: bool,
    command_words: tuple[str, ...],
) -> None:
    """Measure a running server (--url), or launch a command, measure it and stop it.

    An API key is read from --api-key-file or the environment variable AUTOTUNE_API_KEY.
    """
    from autotune.cli.comparison import compare
    from autotune.errors import UsageError
    from autotune.study.secrets import api_key

    if compared is not None:
        if url is not None or command_words:
            raise UsageError("--compare measures nothing: give it without --url and a command")
        compare(*map(Path, compared), as_json=as_json)
        return
    _check_source(url, command_words, runs_on)
    request = _Request(
        plans=_plans(concurrency, rate, replay, gaps, precision, seconds),
        workload=_workload(workload, seed, hold_out),  # told before a launch takes its minutes
        api=_api(api),
        limits=_limits(goods),
        model=model,
    )
    key = api_key(api_key_file)
    if output is not None:
        _check_writable(Path(output))
    if url is not None:
        record = _measure_url(url, key, request)
    else:
        record = _measure_command(command_words, seed, runs_on, request)
    if output is not None:
        Path(output).write_bytes(record.to_json())
    if as_json:
        options.print_json(record.to_dict())
    else:
        from autotune.cli.phases import print_phases

        print_phases(record)


def _check_source(url: str | None, words: tuple[str, ...], runs_on: str | None) -> None:
    """What is measured must be said, and said once.

    Raises:
        UsageError: it is not.
    """
    from autotune.errors import UsageError

    if (url is None) == (not words):
        raise UsageError(
            "give a running server with --url, or a launch command after --",
            hint="to compare two results: autotune measure --compare before.json after.json",
        )
    if url is not None and runs_on is not None:
        raise UsageError(
            "--on says where a launch command runs, and --url names a server that runs already",
            hint="leave --on out",
        )


@dataclass(frozen=True, slots=True)
class _Request:
    """What the command line asks to measure."""

    plans: Sequence[PhasePlan]
    workload: Workload
    api: Api
    limits: Limits | None
    model: str | None


def _plans(
    concurrency: str | None,
    rate: float | None,
    replay: bool,
    gaps: bool,
    precision: float,
    seconds: float | None,
) -> Sequence[PhasePlan]:
    """The phases.

    Raises:
        UsageError: options that exclude each other.
        ConfigError: an impossible number.
    """
    from dataclasses import replace

    from autotune.errors import ConfigError, UsageError
    from autotune.measure.plan import plan_levels, plan_open_loop
    from autotune.study.config import parse_concurrencies

    if sum((concurrency is not None, rate is not None, replay)) > 1:
        raise UsageError("--concurrency, --rate and --replay exclude each other: give one of them")
    for name, value in (("--rate", rate), ("--precision", precision), ("--seconds", seconds)):
        if value is not None and not 0 < value < float("inf"):
            raise ConfigError(f"{name} {value:g} must be a number above 0")
    if rate is not None or replay:
        return (plan_open_loop(rate, seconds or 60.0),)
    told = _DEFAULT_LEVELS if concurrency is None else concurrency
    levels = parse_concurrencies(told, "--concurrency")
    if not levels or levels[0] < 1:
        raise ConfigError(f"--concurrency {concurrency!r} must name at least one level above 0")
    plans = [replace(plan, gaps=gaps) for plan in plan_levels(levels, precision)]
    return [replace(p, max_window_s=seconds) for p in plans] if seconds is not None else plans


def _workload(name: str, seed: int, hold_out: bool) -> Workload:
    from autotune.workload import workload_named

    workload = workload_named(name, seed=seed)
    return workload.held_out() if hold_out else workload


def _api(name: str) -> Api:
    from autotune.errors import UsageError, nearest
    from autotune.measure.prompt import APIS

    for api in APIS:
        if api == name:
            return api
    raise UsageError(f"--api {name!r} is none of {', '.join(APIS)}: {nearest(name, APIS)}")


def _limits(goods: tuple[str, ...]) -> Limits | None:
    from autotune.core.objective import request_limits

    return request_limits(goods) if goods else None


def _check_writable(output: Path) -> None:
    """Minutes of measuring must not end at a file that cannot be written.

    Raises:
        UsageError: it cannot.
    """
    from autotune.errors import UsageError

    is_new = not output.exists()
    try:
        with output.open("ab"):
            pass
        if is_new:
            output.unlink()
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None


def _measure_url(url: str, key: str | None, request: _Request) -> TrialRecord:
    from autotune.engine.attached import AttachedServer
    from autotune.study.interrupt import Interrupts

    with Interrupts().active():
        return _measure(AttachedServer(url, api_key=key), request)


def _measure_command(
    words: tuple[str, ...], seed: int, runs_on: str | None, request: _Request
) -> TrialRecord:
    """Launches in a temporary folder; of a failure the log stays, where its message says."""
    from autotune.engine.scratch import Scratch
    from autotune.errors import LaunchError, MeasurementError
    from autotune.study.campaign import engine_for
    from autotune.study.interrupt import Interrupts

    engine = engine_for(words, seed, runs_on)
    with Interrupts().active(), Scratch("autotune-measure-") as scratch:
        try:
            return _launch_and_measure(engine, scratch.folder, request)
        except (LaunchError, MeasurementError) as failed:
            log = scratch.folder / "server.log"
            with suppress(OSError):  # a folder that cannot be written is another matter
                if log.stat().st_size > 0:
                    shutil.copyfile(log, _FAILED_LOG)
                    failed.hint = f"{failed.hint}; its log: {_FAILED_LOG}"
            raise


def _launch_and_measure(engine: Engine, directory: Path, request: _Request) -> TrialRecord:
    from autotune.engine.base import LaunchFailed
    from autotune.errors import LaunchError

    try:
        server = engine.launch({}, directory=directory, number=0, announce=_announce)
    except LaunchFailed as failed:
        failure = failed.failure
        raise LaunchError(
            f"the server never became ready: {failure.kind}: {failure.evidence}",
            hint=failure.remedy,
        ) from None
    with server:
        return _measure(server, request)


def _announce(text: str) -> None:
    with suppress(OSError):  # nobody watches any more
        click.echo(text, err=True)


def _measure(server: RunningServer, request: _Request) -> TrialRecord:
    """A record of what the server does under each load.

    Raises:
        MeasurementError: no value can be used.
    """
    from autotune import __version__
    from autotune.cli.progress import phase_progress
    from autotune.core.trial import TrialRecord
    from autotune.errors import MeasurementError
    from autotune.measure.validity import caveats, fatal
    from autotune.study.evaluate import ServerDied, limits_of, measure

    phases = []
    try:
        with phase_progress() as listener:
            for phase in measure(
                server,
                request.workload,
                request.plans,
                listener=listener,
                model=request.model,
                api=request.api,
                limits=request.limits,
            ):
                phases.append(phase)
                unusable = fatal(phase)
                if unusable is not None:
                    raise MeasurementError(unusable.evidence, hint=unusable.remedy)
    except ServerDied as died:
        raise MeasurementError(
            f"the server died while it was measured: {died.failure.evidence}",
            hint=died.failure.remedy,
        ) from None
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
