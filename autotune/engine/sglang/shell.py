"""Words inside a shell script of one string: found without running it, changed in their place.

What is not changed stays byte for byte: ``cd``, ``source``, ``&&``, pipes, redirections, variables.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.errors import UsageError

_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_REDIRECTION = re.compile(r"&>>?|[<>](?:[<>&|]|<<?-?)?")
_END = frozenset("\n;&|()")
_META = frozenset("\n;&|()<> \t\r")
_PAIRS = {"(": ")", "{": "}"}

Edit = tuple[int, int, Sequence[str]]
"""Words ``start`` up to, not including, ``end``, and what takes their place."""


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word of a script.

    Attributes:
        text: without its quotes; a variable or a substitution stays as it is written.
        start: of the first character in the script.
        end: behind the last one.
    """

    text: str
    start: int
    end: int


def simple_commands(script: str) -> list[list[ShellWord]]:
    """The words of each command of a script, without redirections and comments.

    Raises:
        UsageError: a quote or a bracket is not closed.
    """
    commands: list[list[ShellWord]] = [[]]
    at, is_target = 0, False
    while at < len(script):
        if blank := _BLANK.match(script, at):
            at = blank.end()
        elif script[at] == "#":
            at = _find(script, "\n", at)
        elif sign := _REDIRECTION.match(script, at):
            at, is_target = sign.end(), True
        elif script[at] in _END:
            at += 1
            commands.append([])
        else:
            word = _word(script, at)
            at = word.end
            is_descriptor = word.text.isdigit() and script[at : at + 1] in ("<", ">")
            if not is_target and not is_descriptor:
                commands[-1].append(word)
            is_target = False
    return [words for words in commands if words]


def spliced(script: str, words: Sequence[ShellWord], edits: Sequence[Edit]) -> str:
    """The script with some words of one of its commands replaced, quoted as the shell needs it."""
    for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        text = " ".join(shlex.quote(word) for word in new)
        if start == end:  # behind the word before
            place = words[start - 1].end
            script = script[:place] + (f" {text}" if text else "") + script[place:]
            continue
        first = words[start].start if text else words[start - 1].end if start else 0
        script = script[:first] + text + script[words[end - 1].end :]
    return script


def _word(script: str, start: int) -> ShellWord:
    at, parts = start, []
    while at < len(script) and script[at] not in _META:
        at, text = _piece(script, at)
        parts.append(text)
    return ShellWord("".join(parts), start, at)


def _piece(script: str, at: int) -> tuple[int, str]:
    """Where a piece of a word ends, and what the shell makes of it."""
    match script[at]:
        case "'":
            end = _find(script, "'", at + 1, needed=True)
            return end + 1, script[at + 1 : end]
        case '"':
            return _double_quoted(script, at + 1)
        case "\\":
            return at + 2, "" if script[at + 1 : at + 2] == "\n" else script[at + 1 : at + 2]
        case "$" | "`":
            return _expansion(script, at)
        case other:
            return at + 1, other


def _double_quoted(script: str, at: int) -> tuple[int, str]:
    parts = []
    while at < len(script) and script[at] != '"':
        if script[at] == "\\" and script[at + 1 : at + 2] in tuple('$`"\\\n'):
            parts.append("" if script[at + 1] == "\n" else script[at + 1])
            at += 2
        elif script[at] in "$`":
            at, text = _expansion(script, at)
            parts.append(text)
        else:
            parts.append(script[at])
            at += 1
    if at >= len(script):
        raise _open('"')
    return at + 1, "".join(parts)


def _expansion(script: str, at: int) -> tuple[int, str]:
    """``$NAME``, ``${...}``, ``$(...)`` or backquotes, as written."""
    if script[at] == "`":
        end = _find(script, "`", at + 1, needed=True) + 1
        return end, script[at:end]
    opening = script[at + 1 : at + 2]
    if opening not in _PAIRS or not opening:
        return at + 1, "$"
    depth, end = 0, at + 1
    while end < len(script):
        depth += (script[end] == opening) - (script[end] == _PAIRS[opening])
        end += 1
        if depth == 0:
            return end, script[at:end]
    raise _open(f"${opening}")


def _find(script: str, sign: str, at: int, *, needed: bool = False) -> int:
    found = script.find(sign, at)
    if found < 0 and needed:
        raise _open(sign)
    return len(script) if found < 0 else found


def _open(sign: str) -> UsageError:
    return UsageError(f"the launch command is not valid shell: {sign} is not closed")
