"""Every format by its name, and those that are text for people and shells."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from autotune.engine.sglang.command import LaunchCommand
from autotune.errors import UsageError, nearest
from autotune.export.containers import compose, docker, kubernetes, kubernetes_arguments
from autotune.export.recipe import Recipe
from autotune.export.sglang_yaml import sglang_yaml
from autotune.export.systemd import systemd
from autotune.export.words import comments, server_words, split_environment

VARIABLE = "SGLANG_ARGS"
_NOT_IN_VARIABLES = frozenset(" \t\n\r\v\f'\"\\*?[`")


def shell(recipe: Recipe) -> str:
    """A script: provenance as comments, then the command, one flag per line."""
    return f"#!/bin/sh\n{comments(recipe.provenance)}{recipe.command.shell()}\n"


def flags(recipe: Recipe) -> str:
    """One line to append to an existing command."""
    return shlex.join(recipe.command.words_for(recipe.flags)) + "\n"


def difference(recipe: Recipe) -> str:
    r"""The whole command, a flag a line: ``-`` the baseline's, ``+`` the chosen one's.

    Words are quoted for bash, line ends as ``$'\n'``, so that a flag is one line.
    """
    if recipe.baseline is None:
        raise UsageError("the study has no measured baseline to compare with")
    old, new = list(_lines(recipe.baseline)), list(_lines(recipe.command))
    effects = [f"measured against the baseline, {line}" for line in recipe.effects]
    body = "\n".join(_merged(old, new))
    return f"{comments([*recipe.provenance, *effects])}--- baseline\n+++ chosen\n{body}\n"


def _lines(command: LaunchCommand) -> Iterator[str]:
    line: list[str] = []
    for word in command.argv:
        if word.startswith("--") and line:
            yield " ".join(line)
            line = []
        line.append(_bash(word))
    yield " ".join(line)


def _bash(word: str) -> str:
    if "\n" not in word and "\r" not in word:
        return shlex.quote(word)
    signs = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r"}
    return "$'" + "".join(signs.get(letter, letter) for letter in word) + "'"


def _merged(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    import difflib

    for line in difflib.ndiff(list(old), list(new)):
        if not line.startswith("?"):
            yield line


def env(recipe: Recipe) -> str:
    """``SGLANG_ARGS='...'`` for a wrapper that runs a server with ``$SGLANG_ARGS`` in it.

    A shell (and systemd) splits it at blanks and takes no quotes inside it.

    Raises:
        UsageError: a word cannot stand in such a variable.
    """
    words = server_words(recipe.command, "env")
    for word in words:
        if not word or not word.isprintable() or _NOT_IN_VARIABLES.intersection(word):
            raise UsageError(
                f"a variable that is split at blanks cannot hold the word {word!r}",
                hint="--format shell or --format json can",
            )
    assigned, _ = split_environment(recipe.command.argv)
    for name, value in assigned.items():
        if "'" in value or not (value.isprintable() or not value):
            raise UsageError(
                f"an env file cannot hold the value of {name}: it has quotes or line ends",
                hint="--format shell can",
            )
    lines = [
        f"{name}='{value}'\n" for name, value in (assigned | {VARIABLE: " ".join(words)}).items()
    ]
    return comments(recipe.provenance) + "".join(lines)


def document(recipe: Recipe) -> dict[str, Any]:
    """Flags, command and provenance for programs."""
    return {
        "study": recipe.study,
        **recipe.standing.to_dict(),
        "flags": dict(recipe.flags),
        "arguments": list(recipe.command.words_for(recipe.flags)),
        "command": list(recipe.command.argv),
        "baseline_command": list(recipe.baseline.argv) if recipe.baseline else None,
        "effective": recipe.record.effective,
        "machine": recipe.record.machine,
        "versions": recipe.record.versions,
        "provenance": list(recipe.provenance),
        "effects": list(recipe.effects),
        "cautions": list(recipe.cautions),
        **_attached(recipe),
    }


def _attached(recipe: Recipe) -> dict[str, Any]:
    file = recipe.file
    return {} if file is None else {"file": {"path": file.path, "text": file.text}}


def as_json(recipe: Recipe) -> str:
    """One JSON document."""
    return json.dumps(document(recipe), indent=2, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[Recipe], str]] = {
    "shell": shell,
    "flags": flags,
    "diff": difference,
    "yaml": sglang_yaml,
    "docker": docker,
    "compose": compose,
    "k8s": kubernetes,
    "k8s-args": kubernetes_arguments,
    "systemd": systemd,
    "env": env,
    "json": as_json,
}
SCRIPTS = ("shell", "docker")
"""Formats that are programs."""
SUFFIXES: Mapping[str, str] = {
    "shell": ".sh", "flags": ".txt", "diff": ".diff", "docker": ".sh", "systemd": ".service",
    "env": ".env", "json": ".json",
}  # fmt: skip
"""Of files; ``.yaml`` for the others."""


def check_format(name: str) -> None:
    """Refuses a name that is no format.

    Raises:
        UsageError: there is no such format.
    """
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r}: {nearest(name, FORMATS)}")


def render(recipe: Recipe, format_name: str) -> str:
    """The recipe in a format.

    Raises:
        UsageError: there is no such format, or it cannot hold the command.
    """
    check_format(format_name)
    return FORMATS[format_name](recipe)


def render_all(recipes: Sequence[Recipe], format_name: str) -> str:
    """Several recipes in one text: flags a line each, or a JSON list.

    Raises:
        UsageError: the format has no such text.
    """
    check_format(format_name)
    if format_name == "json":
        return json.dumps([document(r) for r in recipes], indent=2, ensure_ascii=False) + "\n"
    if format_name == "flags":
        return "".join(
            comments([f"trial {r.standing.trial}: {r.standing.latency_s.value:.3f} s, "
                      f"{r.standing.throughput_tok_s.value:,.0f} tok/s"]) + flags(r)
            for r in recipes
        )  # fmt: skip
    raise UsageError(
        f"several configurations in the format {format_name} are several files",
        hint="name a folder for them with -o",
    )
