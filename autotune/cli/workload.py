"""``autotune workload``: what is sent, and the files it may come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from autotune.cli import options

if TYPE_CHECKING:
    from pathlib import Path

    from autotune.errors import WorkloadError
    from autotune.workload.inspection import Inspection
    from autotune.workload.lengths import Recorded
    from autotune.workload.readers import SessionFile

_N_OF_BUILT_IN = 300
"""Sessions of a built-in workload that are inspected: it has no end."""
_N_SHOWN = 20
_format = click.option(
    "--format", "form", metavar="NAME", help="Format of the file; default: told from its first row."
)


@click.group(short_help="list and inspect workloads; check and convert workload files")
def command() -> None:
    """List and inspect workloads; check and convert workload files.

    Wherever autotune takes a workload, it takes a name from the list or the path of a file.
    """


@command.command("list", short_help="workloads that come with autotune, and file formats")
def list_workloads() -> None:
    """The workloads that come with autotune, and the file formats it reads."""
    from autotune.workload import workload_named
    from autotune.workload.named import built_in_names
    from autotune.workload.readers import FORMATS

    click.echo("built in:")
    for name in built_in_names():
        click.echo(f"  {name:14} {workload_named(name).title}")
    click.echo("\nfiles, plain or .gz; the format is told from the first row, or by --format:")
    for form in FORMATS.values():
        click.echo(f"  {form.name:14} {form.title}")


@command.command("inspect", short_help="lengths, gaps, arrivals, prefix reuse, and what to mind")
@click.argument("name")
@_format
@click.option(
    "--context",
    type=click.IntRange(min=64),
    default=131_072,
    show_default=True,
    metavar="TOKENS",
    help="Warn of prompts longer than this.",
)
@options.as_json
def inspect(name: str, form: str | None, context: int, as_json: bool) -> None:
    """Lengths, gaps, arrivals and prefix reuse of a workload or a file, and what to mind."""
    from autotune.cli.inspected import as_document, as_text
    from autotune.workload.doubts import doubts
    from autotune.workload.inspection import Inspection
    from autotune.workload.named import built_in_names

    found = Inspection()
    if name in built_in_names() and form is None:
        facts = _add_built_in(found, name)
    else:
        facts = _add_file(found, name, form, animate=not as_json)
    warnings = doubts(found, context)
    if as_json:
        options.print_json(as_document(found, facts, warnings))
    else:
        click.echo(as_text(found, facts, warnings))


def _add_built_in(found: Inspection, name: str) -> dict[str, str]:
    from autotune.workload import workload_named

    workload = workload_named(name)
    for number in range(_N_OF_BUILT_IN):
        found.add(workload.session(number))
    about = f"built in, endless; the first {_N_OF_BUILT_IN} sessions are inspected"
    notes = {"note": "; ".join(workload.notes)} if workload.notes else {}
    return {"workload": name, "title": workload.title, "sessions from": about, **notes}


def _add_file(found: Inspection, name: str, form: str | None, animate: bool) -> dict[str, str]:
    with _reading(_path(name), form, animate=animate) as file:
        for session in file:
            found.add(session)
    source = "; ".join(sorted(found.sources)) or "the file does not say"
    licence = "; ".join(sorted(found.licences)) or "the file does not say"
    facts = {"file": name, "format": file.format.name, "source": source, "licence": licence}
    if file.n_skipped:
        facts["left out"] = f"{file.n_skipped:,} failed requests"
    return facts


@command.command("convert", short_help="write a file in our own form")
@click.argument("file")
@click.option(
    "--to", type=click.Choice(["sessions"]), default="sessions", show_default=True,
    help="Form to write.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE", help="Where to; default: NAME.sessions.jsonl beside it."
)
@_format
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Sessions to write at most.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the text for lengths.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
def convert(
    file: str, to: str, output: str | None, form: str | None, limit: int | None, seed: int,
    force: bool,
) -> None:  # fmt: skip
    """Write a file as one session per line, in our own form.

    Sessions without text get it here, so that the file is large and whole.
    """
    from pathlib import Path

    from autotune.workload.converting import write_sessions

    path = _path(file)
    stem = Path(path.name.removesuffix(".gz")).stem
    target = Path(output) if output is not None else path.with_name(f"{stem}.{to}.jsonl")
    with _reading(path, form, animate=True) as sessions:
        n_written = write_sessions(sessions, target, seed=seed, limit=limit, overwrite=force)
    click.echo(f"{target}: {n_written:,} sessions from {file} ({sessions.format.name})")


@command.command("check", short_help="read every row of a file: what is wrong and where")
@click.argument("file")
@_format
def check(file: str, form: str | None) -> None:
    """Read every row of a file: says what is wrong and where, or what it holds."""
    from autotune.errors import WorkloadError

    bad: list[str] = []
    n_bad = 0

    def note(error: WorkloadError) -> None:
        nonlocal n_bad
        n_bad += 1
        if len(bad) < _N_SHOWN:
            bad.append(error.message)

    with _reading(_path(file), form, animate=True, on_bad=note) as sessions:
        n_sessions, n_requests = _counted(sessions)
    for message in bad:
        click.echo(message)
    if n_bad:
        more = f", the first {_N_SHOWN} are listed" if n_bad > _N_SHOWN else ""
        rows = "1 bad row" if n_bad == 1 else f"{n_bad:,} bad rows"
        raise WorkloadError(f"{file} has {rows}{more}")
    click.echo(
        f"ok: {n_sessions:,} sessions, {n_requests:,} requests, format {sessions.format.name}"
    )


def _counted(sessions: Iterable[Recorded]) -> tuple[int, int]:
    from autotune.workload.lengths import n_requests

    n_sessions = n_all = 0
    for session in sessions:
        n_sessions += 1
        n_all += n_requests(session)
    return n_sessions, n_all


def _path(name: str) -> Path:
    """The file of this name, or what could have been meant."""
    from pathlib import Path

    from autotune.workload.named import is_path, unknown_workload

    if is_path(name):
        return Path(name)
    raise unknown_workload(name)


@contextmanager
def _reading(
    path: Path,
    form: str | None,
    *,
    animate: bool,
    on_bad: Callable[[WorkloadError], None] | None = None,
) -> Iterator[SessionFile]:
    """A file whose reading shows on stderr how far it is, where that is a terminal."""
    from autotune.cli.progress import is_animated
    from autotune.workload.readers import SessionFile

    if not (animate and is_animated()):
        yield SessionFile(path, form, on_bad=on_bad)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"reading {path.name}")
        file = SessionFile(
            path, form, on_bad=on_bad, on_progress=lambda n: progress.update(task, completed=n)
        )
        progress.update(task, total=file.n_bytes)
        yield file
