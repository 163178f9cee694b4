"""A systemd unit that starts the server without a shell.

Quoting as systemd.service(5) and systemd.syntax(7) have it: words in double quotes with C escapes,
``%`` doubled for specifiers, ``$`` doubled for variables, which are replaced in arguments only.
"""

from __future__ import annotations

import re

from autotune.errors import UsageError
from autotune.export.recipe import Recipe
from autotune.export.words import comments, options_of, split_environment

_SAFE = re.compile(r"[A-Za-z0-9_@:,./=+-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%"}


def systemd(recipe: Recipe) -> str:
    """A service unit.

    Raises:
        UsageError: a unit cannot hold the program or a variable.
    """
    environment, argv = split_environment(recipe.command.argv)
    lines = [f"Environment={_assignment(name, value)}" for name, value in environment.items()]
    groups = [[_program(argv[0])]]
    for option in options_of(argv[1:]):
        words = [f"{option.head}={option.values[0]}"] if option.joined else [
            option.head, *option.values]  # fmt: skip
        quoted = [word_of(word, "$") for word in words]
        if option.head.startswith("--") and option.head != "--":
            groups.append(quoted)
        else:
            groups[-1] += quoted
    lines.append("ExecStart=" + " \\\n    ".join(" ".join(group) for group in groups))
    remarks = [] if argv[0].startswith("/") else [
        f"write the full path of {argv[0]}: systemd does not know your PATH"]  # fmt: skip
    return (
        f"{comments([*recipe.provenance, *remarks])}"
        "[Unit]\n"
        f"Description=SGLang, tuned by autotune study {_description(recipe.study)}\n"
        "Wants=network-online.target\nAfter=network-online.target\n\n"
        "[Service]\n" + "\n".join(lines) + "\n"
        "Restart=on-failure\nRestartSec=10\n"
        "KillMode=mixed\nTimeoutStopSec=60\n"
        "LimitMEMLOCK=infinity\nLimitNOFILE=1048576\n\n"
        "[Install]\nWantedBy=multi-user.target\n"
    )


def word_of(word: str, doubled: str = "") -> str:
    """One word of a unit file.

    Args:
        doubled: signs beside ``%`` that are doubled.
    """
    if _SAFE.fullmatch(word):
        return word
    return '"' + "".join(_letter(letter, doubled) for letter in word) + '"'


def _letter(letter: str, doubled: str) -> str:
    if letter in doubled:
        return letter * 2
    if letter < " " or letter == "\x7f":
        return _ESCAPES.get(letter, f"\\x{ord(letter):02x}")
    return _ESCAPES.get(letter, letter)


def _program(program: str) -> str:
    """It is replaced nowhere, and must not begin with one of the signs for special programs."""
    if not re.fullmatch(r"[A-Za-z0-9_./][A-Za-z0-9_@:,./=+ -]*", program):
        raise UsageError(
            f"a unit of systemd cannot start a program named {program!r}",
            hint="--format shell can write it",
        )
    return word_of(program)


def _assignment(name: str, value: str) -> str:
    if any((letter < " " and letter not in "\t\n") or letter == "\x7f" for letter in value):
        raise UsageError(f"a unit of systemd cannot hold the control characters of {name}")
    return word_of(f"{name}={value}")


def _description(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_. -]", "-", text)
