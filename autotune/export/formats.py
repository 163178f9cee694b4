"""One small function per format."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping

from autotune.errors import UsageError, nearest
from autotune.export.recipe import Recipe


def shell(recipe: Recipe) -> str:
    """A script: provenance as comments, then the command, one flag per line."""
    comments = "".join(f"# {line}\n" for line in recipe.provenance)
    return f"#!/bin/sh\n{comments}{recipe.command.shell()}\n"


def flags(recipe: Recipe) -> str:
    """One line to append to an existing command."""
    return shlex.join(recipe.command.words_for(recipe.flags)) + "\n"


def as_json(recipe: Recipe) -> str:
    """Flags, command and provenance for programs."""
    document = {
        "study": recipe.study,
        **recipe.standing.to_dict(),
        "arguments": list(recipe.command.words_for(recipe.flags)),
        "command": list(recipe.command.argv),
        "effective": recipe.record.effective,
        "machine": recipe.record.machine,
        "versions": recipe.record.versions,
        "provenance": list(recipe.provenance),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Callable[[Recipe], str]] = {"shell": shell, "flags": flags, "json": as_json}


def render(recipe: Recipe, format_name: str) -> str:
    """The recipe in a format.

    Raises:
        UsageError: there is no such format.
    """
    try:
        return FORMATS[format_name](recipe)
    except KeyError:
        raise UsageError(
            f"there is no format {format_name!r}: {nearest(format_name, FORMATS)}"
        ) from None
