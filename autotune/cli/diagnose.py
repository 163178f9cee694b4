"""``autotune diagnose``: why a server failed, from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from autotune.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autotune.core.trial import Policy
    from autotune.engine.sglang.causes import Diagnosis
    from autotune.engine.sglang.logfile import LogLine

EPILOG = """
\b
Examples:
  autotune diagnose server.log
  kubectl logs --previous sglang-0 | autotune diagnose - --exit-status 137
  autotune diagnose old.log.gz --json
"""


@click.command(short_help="why a server failed, from its log", epilog=EPILOG)
@click.argument("file")
@click.option("--exit-status", type=int, metavar="N", help="How the server ended: 1, 137, -9, …")
@options.as_json
def command(file: str, exit_status: int | None, as_json: bool) -> None:
    """Why a server failed: kind, stage, the line that shows it, and what to change.

    FILE is a server log, as it is, compressed with gzip, or as docker and Kubernetes wrap it; "-"
    reads from stdin. A log that shows no failure is no error.
    """
    from autotune.engine.sglang.diagnose import examine, stage_of
    from autotune.errors import UsageError

    lines = _read(file)
    if not lines and exit_status is None:
        raise UsageError(
            f"{_name(file)} is empty, so it tells nothing",
            hint="say how the server ended with --exit-status N",
        )
    found = examine(lines, exit_status)
    if as_json:
        options.print_json(_document(file, stage_of(lines), found))
    elif found is None:
        click.echo(f"{_name(file)} shows no failure: the server got to the stage {stage_of(lines)}")
    else:
        click.echo(_described(found))


def _name(file: str) -> str:
    return "stdin" if file == "-" else file


def _read(file: str) -> Sequence[LogLine]:
    import sys
    from pathlib import Path

    from autotune.engine.sglang.logfile import read_lines
    from autotune.errors import UsageError

    if file == "-":
        return read_lines(sys.stdin.buffer, "stdin")
    try:
        with Path(file).open("rb") as log:
            return read_lines(log, file)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"{file} cannot be read: {reason}") from error


def _document(file: str, reached: str, found: Diagnosis | None) -> dict[str, Any]:
    import msgspec

    from autotune.core.trial import POLICIES

    document: dict[str, Any] = {
        "file": _name(file), "kind": None, "stage": reached, "evidence": None, "line": None,
        "remedy": None, "bound": None, "policy": None,
    }  # fmt: skip
    if found is not None:
        document |= msgspec.to_builtins(found.failure)
        document |= {"line": found.line, "policy": POLICIES[found.failure.kind].value}
    return document


def _described(found: Diagnosis) -> str:
    from autotune.core.trial import POLICIES

    failure = found.failure
    rows = [
        ("evidence", failure.evidence),
        ("line", f"{found.line:,}" if found.line else ""),
        ("remedy", failure.remedy),
        ("bound", str(failure.bound or "")),
        ("autotune", _policy_in_words(POLICIES[failure.kind])),
    ]
    head = f"{failure.kind} (stage: {failure.stage})"
    return "\n".join([head, *(f"  {name:9} {text}" for name, text in rows if text)])


def _policy_in_words(policy: Policy) -> str:
    from autotune.core.trial import Policy

    return {
        Policy.LEARN: "would learn from it and go on; in the baseline it ends the study",
        Policy.RETRY_ONCE: "would launch the same flags once more",
        Policy.STOP: "would stop the study: no flag that it searches can mend this",
        Policy.LAUNCH_AGAIN: "would launch the same flags again",
    }[policy]
