"""What reads the exports in production, written from its documentation for the tests.

Each is small and independent of the code that writes: SGLang's merge of ``--config`` (0.5.23),
systemd's unit syntax (systemd.syntax(7), systemd.service(5)), Compose's interpolation, Kubernetes'
expansion of ``args``.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

# ---- SGLang --config ---------------------------------------------------------------------------


def merged(text: str, switches: set[str]) -> list[str]:
    """The words that SGLang makes of its file; ``switches`` are the store-true flags it knows."""
    words: list[str] = []
    for key, value in (yaml.safe_load(text) or {}).items():
        flag = f"--{key}"
        if isinstance(value, bool) and key in switches:
            words += [flag] if value else []
        elif isinstance(value, bool):
            words += [flag, str(value).lower()]
        elif isinstance(value, list):
            words += [flag, *map(str, value)] if value else []
        else:
            words += [flag, str(value)]
    return words


# ---- systemd -----------------------------------------------------------------------------------

_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "s": " "}


def logical_lines(unit: str) -> list[str]:
    """Lines without comments, continued ones joined by a blank."""
    lines: list[str] = []
    pending = ""
    for line in unit.split("\n"):
        if line.lstrip()[:1] in ("#", ";"):
            continue
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        lines.append((pending + line).strip())
        pending = ""
    return [line for line in lines if line]


def values(unit: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in logical_lines(unit) if line.startswith(f"{key}=")]


def unit_words(line: str) -> list[str]:
    """Words with quotes and C escapes taken, specifiers (only ``%%``) replaced."""
    words: list[str] = []
    at = 0
    while at < len(line):
        if line[at] in " \t":
            at += 1
            continue
        at, word = _unit_word(line, at)
        assert not re.search(r"(?<!%)(?:%%)*%(?!%)", word), f"a specifier in {word!r}"
        words.append(word.replace("%%", "%"))
    return words


def _unit_word(line: str, at: int) -> tuple[int, str]:
    quote, word = "", ""
    while at < len(line) and (quote or line[at] not in " \t"):
        sign = line[at]
        if sign == "\\":
            escape = line[at + 1]
            if escape == "x":
                word += chr(int(line[at + 2 : at + 4], 16))
                at += 4
                continue
            word += _SIMPLE[escape]
            at += 2
            continue
        if sign == quote:
            quote = ""
        elif not quote and sign in "\"'":
            quote = sign
        else:
            word += sign
        at += 1
    assert not quote, "a quote is open"
    return at, word


def exec_argv(unit: str) -> list[str]:
    """What ``ExecStart=`` runs, variables replaced: none is set, so only ``$$`` may stand."""
    (line,) = values(unit, "ExecStart")
    program, *arguments = unit_words(line)
    assert program[0] not in "@-:+!|", "a special executable prefix"
    assert ";" not in line.split(), "a second command"
    for word in arguments:
        assert not re.search(r"(?<!\$)(?:\$\$)*\$(?!\$)", word), f"a variable in {word!r}"
    return [program, *(word.replace("$$", "$") for word in arguments)]


# ---- Compose and Kubernetes --------------------------------------------------------------------


def interpolated(value: Any) -> Any:  # noqa: ANN401
    """Compose's ``$$``; any other dollar sign would be a variable, or an error."""
    if isinstance(value, str):
        assert not re.search(r"(?<!\$)(?:\$\$)*\$(?!\$)", value), f"a variable in {value!r}"
        return value.replace("$$", "$")
    if isinstance(value, list):
        return [interpolated(item) for item in value]
    if isinstance(value, dict):
        return {key: interpolated(item) for key, item in value.items()}
    return value


def expanded(text: str) -> str:
    """Kubernetes: ``$(NAME)`` of an unknown name stays, ``$$`` is a dollar sign."""
    out, at = "", 0
    while at < len(text):
        if text[at] == "$" and at + 1 < len(text):
            if text[at + 1] == "$":
                out += "$"
                at += 2
                continue
            assert text[at + 1] != "(", f"a variable in {text!r}"
        out += text[at]
        at += 1
    return out
