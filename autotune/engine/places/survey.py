"""A look at another machine before the first launch: its SGLang, and the file of ``--config``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from autotune.engine.places.link import Link, Target
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.installed import Installed, installed
from autotune.errors import LaunchError, UsageError


def survey(command: LaunchCommand, address: str) -> tuple[LaunchCommand, Installed]:
    """The command with what its ``--config`` file holds there, and the SGLang it would start.

    A machine that cannot be reached is not told here but by the first launch, unless the command
    means nothing without its file.

    Args:
        address: ``ssh://[user@]host[:port]``.

    Raises:
        ConfigError: it is no such address.
        LaunchError: the machine cannot be reached, and the flags are in a file of it.
        UsageError: the file cannot be read there.
    """
    target = Target.parse(address)
    try:
        link = Link(target, "survey")
    except LaunchError as error:
        if command.config_file is not None:
            raise
        return command, Installed(None, error.message)
    with closing(link):
        known = _with_file(command, link)
        found = installed(known, ask=lambda words, limit_s: _ask(link, words, limit_s))
    return known, replace(found, origin=f"{found.origin} on {target.host}")


def _with_file(command: LaunchCommand, link: Link) -> LaunchCommand:
    path = command.config_file
    if path is None:
        return command
    status, told = link.ask(f"cat -- {shlex.quote(path)} 2>&1")
    if status != 0:
        reason = told.strip().rpartition(": ")[2] or "no answer"
        raise UsageError(f"--config {path} cannot be read on {link.target.host}: {reason}")
    return replace(command, file_text=told)


def _ask(link: Link, words: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Runs a question there; see ``autotune.engine.sglang.installed.Ask``."""
    status, told = link.ask(f"{shlex.join(words)} 2>/dev/null </dev/null", limit_s)
    if status == 255:
        raise LookupError(f"{link.target.host} gave no answer in {limit_s:g} s")
    return status, told
