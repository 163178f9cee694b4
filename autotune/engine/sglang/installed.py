"""Which SGLang a launch command starts, found without starting or importing it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.container import image_index
from autotune.engine.sglang.placement import Placement, shell_string
from autotune.engine.sglang.shell import simple_commands
from autotune.engine.sglang.versions import NEWEST, OLDEST, Version

ASKING_S = 20.0
"""Reading the metadata of a package takes a tenth of a second; a cold network disk takes longer."""

Ask = Callable[[Sequence[str], float], tuple[int, str]]
"""Runs a command for so many seconds at most: its exit status and its stdout.

127 where there is no such program, 126 where it cannot be run; ``LookupError`` for no answer.
"""

_NOT_RUN = {126: "it is no program", 127: "No such file or directory"}
_FIRST_LINE = 'file=$(command -v "$1") && head -n 1 "$file" | cut -c 1-1024'
_ASK = "import importlib.metadata as m; print(m.version('sglang'))"
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_HARMLESS = frozenset(
    {
        "env", "numactl", "taskset", "nice", "ionice", "chrt", "stdbuf", "timeout", "setsid",
        "conda", "mamba", "micromamba", "pixi", "poetry", "pdm", "hatch", "pipenv", "uv",
    }
)  # fmt: skip
"""Programs that run another one and change nothing else: safe to run once more for a question."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What is known before the first launch.

    Attributes:
        version: None where it could not be found.
        origin: where it was found, or why it was not.
    """

    version: Version | None
    origin: str

    def describe(self) -> str:
        """One line for people."""
        if self.version is None:
            return (
                f"SGLang of unknown version ({self.origin}): the rules and flag names of "
                f"{NEWEST}, the newest one known, are used"
            )
        foreign = ""
        if not OLDEST.release <= self.version.release <= NEWEST.release:
            side = "newer" if self.version > NEWEST else "older"
            foreign = f", {side} than every release known here"
        return f"SGLang {self.version} ({self.origin}{foreign})"


def installed(
    command: LaunchCommand, timeout_s: float = ASKING_S, ask: Ask | None = None
) -> Installed:
    """The release of SGLang that the command starts.

    The tag of its image tells it, or the metadata in the Python that the command runs: that Python
    is started with a one-line question, behind the same wrappers, with the same variables.

    Args:
        ask: runs that question where the server will run; None: here.
    """
    image = image_index(command.argv)
    if image is not None:
        return _of_image(command.argv[image])
    ask = ask or ask_here
    try:
        # A question has no need of keys, and the words of a process can be read by everyone.
        words, assigned = _plain_words(command.redacted())
        asking = _asking(words, ask)
        status, told = ask([*assigned, *asking, "-c", _ASK], timeout_s)
    except LookupError as reason:
        return Installed(None, str(reason))
    if status in _NOT_RUN:
        return Installed(None, f"{asking[0]} cannot be run: {_NOT_RUN[status]}")
    found = Version.parse(told.strip().rpartition("\n")[2])
    if status != 0 or found is None:
        return Installed(None, f"{asking[-1]} has no package sglang that tells its version")
    return Installed(found, f"installed for {asking[-1]}")


def ask_here(words: Sequence[str], limit_s: float) -> tuple[int, str]:
    """Runs a question on this machine; see ``Ask``."""
    try:
        done = subprocess.run(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LookupError(f"{_program(words)} gave no answer in {limit_s:g} s") from None
    except FileNotFoundError:
        return 127, ""
    except OSError:
        return 126, ""
    return done.returncode, done.stdout


def _program(words: Sequence[str]) -> str:
    """The last word before ``-c``: the Python that is asked."""
    return words[list(words).index("-c") - 1] if "-c" in words else words[0]


def _of_image(image: str) -> Installed:
    name, _, tag = image.partition("@")[0].rpartition(":")
    if "sglang" in name:
        # v0.5.10.post1-cu130-amd64
        found = Version.parse(tag.partition("-")[0])
        if found is not None:
            return Installed(found, f"image {image}")
    return Installed(None, f"image {image} does not tell")


def _plain_words(command: LaunchCommand) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that start the server, and an ``env`` with the variables set just before them.

    Raises:
        LookupError: a script prepares the environment, and running it would do more than ask.
    """
    words = list(Placement.of(command.argv).words)
    env: dict[str, str] = {}
    while words and (found := _ASSIGNMENT.fullmatch(words[0])):
        env[found[1]] = found[2]
        del words[0]
    if words[:1] == ["exec"]:
        del words[0]
    script = shell_string(command.argv)
    is_alone = script is None or len(simple_commands(script)) == 1
    if not is_alone and not any(PurePath(word).is_absolute() for word in words[:1]):
        raise LookupError("a script chooses the Python")
    if "$" in " ".join([*words[:1], *env.values()]):
        raise LookupError("a variable of a script chooses the Python")
    assigned = ("env", *(f"{name}={value}" for name, value in env.items())) if env else ()
    return tuple(words), assigned


def _asking(words: Sequence[str], ask: Ask) -> list[str]:
    """The words that run the Python of a command.

    Raises:
        LookupError: none is named, or it stands behind a program that does more than run it.
    """
    for i, word in enumerate(words):
        name = PurePath(word).name
        if _PYTHON.fullmatch(name):
            return [*_checked(words[:i]), word]
        if name == "sglang" and words[i + 1 : i + 2] == ("serve",):
            before = _checked(words[:i])
            if "uv" in before:
                return [*before, "python"]
            return [*before, _python_of(word, ask)]
    raise LookupError("the command names no Python")


def _checked(wrappers: Sequence[str]) -> list[str]:
    if wrappers and PurePath(wrappers[0]).name not in _HARMLESS:
        raise LookupError(f"behind {PurePath(wrappers[0]).name} nothing can be asked")
    words = list(wrappers)
    for i in range(len(words) - 1):
        if words[i : i + 2] == ["uv", "run"]:
            words.insert(i + 2, "--no-sync")  # a question must install nothing
    return words


def _python_of(script: str, ask: Ask) -> str:
    """The Python of a console script, from its first line.

    Raises:
        LookupError: there is no such script, or it is none of Python.
    """
    status, told = ask(["sh", "-c", _FIRST_LINE, "sh", script], ASKING_S)
    if status != 0:
        raise LookupError(f"{script} cannot be found")
    first = told.strip()
    python = first.removeprefix("#!").split(" ")[0]
    if not first.startswith("#!") or not _PYTHON.fullmatch(PurePath(python).name):
        raise LookupError(f"{script} is no script of a Python")
    return python
