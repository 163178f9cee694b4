"""Where the server's own words stand in a launch command, and how to change them there.

They may follow wrappers (``env``, ``numactl``, ``uv run``, ``docker run … image``), stand inside
the string of a ``bash -c``, or take the place of ``{flags}`` in the command of a script.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Self

from autotune.engine.sglang.container import image_index
from autotune.engine.sglang.shell import Edit, ShellWord, simple_commands, spliced
from autotune.errors import UsageError

FLAGS_HERE = "{flags}"
PORT_HERE = "{port}"

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
_RUNS_STRING = re.compile(r"-[a-z]*c")
_MODULES = ("sglang.launch_server", "launch_server.py", "autotune.engine.simulated")


@dataclass(frozen=True, slots=True)
class Placement:
    """The server's words of one command.

    Attributes:
        words: the simple command that starts the server, from its first word on.
        first: index of the first word that can be a flag of the server.
        is_sure: the command names the server or has ``{flags}``; else it is taken for a wrapper
            that passes its words on.
    """

    words: tuple[str, ...]
    first: int
    is_sure: bool

    @classmethod
    def of(cls, argv: Sequence[str]) -> Self:
        """Finds the server's words.

        Raises:
            UsageError: they are hidden in a shell string that does not start a server.
        """
        at = _string_index(argv)
        if at is not None and _passes_on(argv, at):
            return cls(tuple(argv), at + 2, True)
        if at is not None:
            return cls.of([word.text for word in _server_command(argv[at])])
        found = _program_end(argv)
        image = image_index(argv)
        first = found if found is not None else 1 if image is None else image + 1
        return cls(tuple(argv), first, found is not None or FLAGS_HERE in argv)

    @property
    def end(self) -> int:
        """Where a flag is added: at ``{flags}``, else behind the last word."""
        return self.words.index(FLAGS_HERE) if FLAGS_HERE in self.words else len(self.words)


def rewritten(argv: Sequence[str], edits: Sequence[Edit]) -> tuple[str, ...]:
    """The command with some of the server's words replaced; the rest of it stays as it is."""
    if not edits:
        return tuple(argv)
    at = _string_index(argv)
    words = list(argv)
    if at is None or _passes_on(argv, at):
        for start, end, new in sorted(edits, key=lambda edit: edit[:2], reverse=True):
            words[start:end] = new
        return tuple(words)
    command = _server_command(argv[at])
    texts = [word.text for word in command]
    inner = _string_index(texts)
    if inner is not None:  # a shell inside a shell: one word of it changes
        edits = [(inner, inner + 1, [rewritten(texts, edits)[inner]])]
    words[at] = spliced(argv[at], command, edits)
    return tuple(words)


def shell_string(argv: Sequence[str]) -> str | None:
    """The script of a ``bash -c`` that starts the server; None where there is none."""
    at = _string_index(argv)
    return None if at is None else argv[at]


def _passes_on(argv: Sequence[str], at: int) -> bool:
    """Whether a script hands on the words behind it: ``bash -c '… "$@"' name --tp 4``."""
    return len(argv) > at + 1 and "$@" in [word.text for word in _server_command(argv[at])]


def _server_command(script: str) -> list[ShellWord]:
    commands = simple_commands(script)
    for command in reversed(commands):
        texts = [word.text for word in command]
        is_inner = _string_index(texts) is not None
        if is_inner or FLAGS_HERE in texts or _program_end(texts) is not None:
            return command
    raise UsageError(
        f"the launch command is one shell string that names no SGLang server: {script!r}",
        hint=f"write {FLAGS_HERE} where the flags belong, e.g. bash -c './serve.sh {FLAGS_HERE}'",
    )


def _program_end(words: Sequence[str]) -> int | None:
    """Index behind the words that name the server's program, as ``-m sglang.launch_server``."""
    end = None
    for i, word in enumerate(words):
        name = PurePath(word).name
        if name in _MODULES or (name == "serve" and i and PurePath(words[i - 1]).name == "sglang"):
            end = i + 1
    return end


def _string_index(words: Sequence[str]) -> int | None:
    """Where the script of a shell's ``-c`` stands among these words."""
    if _program_end(words) is not None:
        return None
    for i, word in enumerate(words):
        is_entrypoint = word.startswith("--entrypoint=") or words[max(i - 1, 0)] == "--entrypoint"
        if PurePath(word.removeprefix("--entrypoint=")).name not in _SHELLS:
            continue
        at = i + 1
        if is_entrypoint:  # its words follow the image
            at = (image_index(words) or i) + 1
        while at + 1 < len(words) and words[at][:1] in ("-", "+"):
            if _RUNS_STRING.fullmatch(words[at]):
                return at + 1
            at += 2 if words[at] in ("-o", "+o") else 1
    return None
