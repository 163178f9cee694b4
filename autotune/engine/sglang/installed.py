"""Which SGLang a launch command starts, found without starting or importing it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.container import image_index
from autotune.engine.sglang.placement import Placement, shell_string
from autotune.engine.sglang.shell import simple_commands
from autotune.engine.sglang.versions import NEWEST, OLDEST, Version

ASKING_S = 20.0
"""Reading the metadata of a package takes a tenth of a second; a cold network disk takes longer."""

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


def installed(command: LaunchCommand, timeout_s: float = ASKING_S) -> Installed:
    """The release of SGLang that the command starts.

    The tag of its image tells it, or the metadata in the Python that the command runs: that Python
    is started with a one-line question, behind the same wrappers, with the same variables.
    """
    image = image_index(command.argv)
    if image is not None:
        return _of_image(command.argv[image])
    try:
        words, env = _plain_words(command)
        asking = _asking(words)
    except LookupError as reason:
        return Installed(None, str(reason))
    try:
        done = subprocess.run(
            [*asking, "-c", _ASK],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **env},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Installed(None, f"{asking[-1]} gave no answer in {timeout_s:g} s")
    except OSError as error:
        return Installed(None, f"{asking[0]} cannot be run: {error.strerror}")
    found = Version.parse(done.stdout.strip().rpartition("\n")[2])
    if done.returncode != 0 or found is None:
        return Installed(None, f"{asking[-1]} has no package sglang that tells its version")
    return Installed(found, f"installed for {asking[-1]}")


def _of_image(image: str) -> Installed:
    name, _, tag = image.partition("@")[0].rpartition(":")
    if "sglang" in name:
        # v0.5.10.post1-cu130-amd64
        found = Version.parse(tag.partition("-")[0])
        if found is not None:
            return Installed(found, f"image {image}")
    return Installed(None, f"image {image} does not tell")


def _plain_words(command: LaunchCommand) -> tuple[tuple[str, ...], dict[str, str]]:
    """The words that start the server, and the variables set just before them.

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
    return tuple(words), env


def _asking(words: Sequence[str]) -> list[str]:
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
            return [*before, _python_of(word)]
    raise LookupError("the command names no Python")


def _checked(wrappers: Sequence[str]) -> list[str]:
    if wrappers and PurePath(wrappers[0]).name not in _HARMLESS:
        raise LookupError(f"behind {PurePath(wrappers[0]).name} nothing can be asked")
    words = list(wrappers)
    for i in range(len(words) - 1):
        if words[i : i + 2] == ["uv", "run"]:
            words.insert(i + 2, "--no-sync")  # a question must install nothing
    return words


def _python_of(script: str) -> str:
    """The Python of a console script, from its first line.

    Raises:
        LookupError: there is no such script, or it is none of Python.
    """
    path = shutil.which(script)
    if path is None:
        raise LookupError(f"{script} is not on this machine")
    try:
        with Path(path).open("rb") as file:
            first = file.readline(1024).decode(errors="replace").strip()
    except OSError as error:
        raise LookupError(f"{path} cannot be read: {error.strerror}") from None
    python = first.removeprefix("#!").split(" ")[0]
    if not first.startswith("#!") or not _PYTHON.fullmatch(PurePath(python).name):
        raise LookupError(f"{path} is no script of a Python")
    return python
