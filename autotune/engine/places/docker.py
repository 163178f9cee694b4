"""A container of this machine: it outlives its ``docker run``, so it is ended by its name."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from autotune.engine.base import Announce
from autotune.engine.places.here import LocalBerth
from autotune.engine.places.tool import ask as ask_here
from autotune.engine.ports import LOCAL_HOST, free_port
from autotune.engine.process import ServerProcess
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.container import image_index, is_bridged
from autotune.engine.sglang.placement import shell_string
from autotune.engine.sglang.shell import simple_commands
from autotune.engine.stopping import StopPatience
from autotune.errors import LaunchError, UsageError

LABEL = "autotune.trial"
"""Label of every container of a launch; its value is the marker of that launch."""

_TOOLS = frozenset({"docker", "podman", "nerdctl"})
_VERBS = frozenset({"run", "exec", "start", "compose", "create", "container"})
_PROGRAM = re.compile(r"python[\d.]*|sglang|(?:ba|da|z|k)?sh")
"""A program behind which the word ``docker`` names no container tool."""
_ANSWER_S = 30.0
_CLUSTER = re.compile(r"-[ditPq]+")
_NO_TERMINAL = {
    "--detach": "it would hide the log",
    "--interactive": "a trial has no terminal",
    "--tty": "a trial has no terminal",
    "--restart": "a server that dies must stay dead",
    "--cidfile": "the second launch would find it taken",
}
"""Options of ``docker run`` that a trial must not have, and why."""
_SHORT = {"d": "--detach", "i": "--interactive", "t": "--tty"}
_PUBLISHED = re.compile(r"(?:(?P<address>\[[^]]*\]|[^:]*):)?(?P<outer>\d+):\d+(?:/tcp)?")
Ask = Callable[[Sequence[str], float], tuple[int, str]]
"""Runs a command for so many seconds at most; its exit status and all that it said."""
_DEVICES = re.compile(r"device=([^\"]+)")


@dataclass(frozen=True, slots=True)
class Contained:
    """A ``docker run`` as a trial needs it.

    Attributes:
        argv: its words, with a name and a label of our own.
        tool: the words before ``run``: ``("sudo", "docker")``.
        name: of the container.
        marker: the value of its label.
        left_out: options of the user that a trial must not have, each with the reason.
    """

    argv: tuple[str, ...]
    tool: tuple[str, ...]
    name: str
    marker: str
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, argv: Sequence[str], name: str, marker: str, env: Sequence[str] = ()) -> Contained:
        """Names the container of a command.

        Args:
            env: names of variables that the client hands on into the container.
        """
        at, first, image = _parts(argv)
        options: list[str] = []
        left_out: list[str] = []
        for words in _options(argv[first:image]):
            kept, dropped = _suited(words)
            options += kept
            left_out += dropped
        ours = ["--name", name, "--label", f"{LABEL}={marker}"]
        ours += [word for variable in env for word in ("-e", variable)]
        return cls(
            argv=(*argv[:first], *ours, *options, *argv[image:]),
            tool=tuple(argv[: at + 1]),
            name=name,
            marker=marker,
            left_out=tuple(left_out),
        )

    @property
    def remove(self) -> tuple[str, ...]:
        """The command after which the container is gone, whatever it did before."""
        return (*self.tool, "rm", "-f", self.name)


class Container:
    """A container as the process that runs it sees it. Implements ``Beyond``.

    Args:
        ask: runs a command of the container tool where the container is; None: here.
    """

    def __init__(self, contained: Contained, ask: Ask | None = None) -> None:
        self._contained = contained
        self._ask = ask or ask_here
        self._is_gone = False

    @property
    def farewell(self) -> Sequence[Sequence[str]]:
        return [self._contained.remove]

    def ask_to_end(self, process: ServerProcess, patience: StopPatience) -> str:
        seconds = max(1, math.ceil(patience.leader_s))
        words = ("stop", "-t", str(seconds))
        self._tell(*words, self._contained.name, limit_s=seconds + _ANSWER_S)
        return "docker " + " ".join(words)

    def kill(self) -> None:
        if not self._is_gone:
            self._tell("kill", self._contained.name)
            self._tell("rm", "-f", self._contained.name)

    def left(self) -> tuple[str, ...]:
        label = f"label={LABEL}={self._contained.marker}"
        status, told = self._tell("ps", "-a", "--filter", label, "--format", "{{.Names}}")
        if status != 0:
            return (f"perhaps the container {self._contained.name}: {_last_line(told)}",)
        names = told.split()
        self._is_gone = not names
        return tuple(f"the container {name}" for name in names)

    def environment(self) -> dict[str, str]:
        """Its variables: those of the image, and those of ``-e``."""
        form = "{{json .Config.Env}}"
        status, told = self._tell("inspect", "--format", form, self._contained.name)
        try:
            pairs = json.loads(told) if status == 0 else []
        except ValueError:
            pairs = []
        return dict(str(pair).split("=", 1) for pair in pairs or [] if "=" in str(pair))

    def _tell(self, *words: str, limit_s: float = _ANSWER_S) -> tuple[int, str]:
        return self._ask((*self._contained.tool, *words), limit_s)


class DockerBerth(LocalBerth):
    """A launch in a container of this machine. Implements ``Berth``."""

    def __init__(self, argv: Sequence[str], number: int, announce: Announce) -> None:
        super().__init__(number)
        self._argv = tuple(argv)
        self._number = number
        self._announce = announce
        self._container: Container | None = None

    def gpu_environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """The GPUs of ``--gpus device=…``: the tuner's own variables do not reach a container."""
        return {**env, **visible_in(self._argv)}

    def free_port(self, host: str | None) -> int:
        return free_port(LOCAL_HOST)

    def start(
        self, command: LaunchCommand, *, log: Path, env: Mapping[str, str], port: int
    ) -> ServerProcess:
        name = f"autotune-{os.getpid()}-trial-{self._number}-{self.marker[-8:]}"
        contained = Contained.of(command.argv, name, self.marker, ["PYTHONUNBUFFERED", *env])
        self._argv = contained.argv
        for reason in contained.left_out:
            self._announce(f"docker run without {reason}")
        self._container = Container(contained)
        return ServerProcess(
            contained.argv,
            log=log,
            env=env,
            marker=self.marker,
            host=self.address(command.host, port)[0],
            port=port,
            beyond=self._container,
            secrets=command.secrets(),
        )

    def address(self, host: str | None, port: int) -> tuple[str, int]:
        if not is_bridged(self._argv):
            return super().address(host, port)
        for option, value in _values(self._argv):
            found = _PUBLISHED.fullmatch(value) if option in ("-p", "--publish") else None
            if found and int(found["outer"]) == port:
                return super().address((found["address"] or "").strip("[]"), port)
        return LOCAL_HOST, port

    def environment(self) -> Mapping[str, str]:
        return self._container.environment() if self._container else {}


class DockerPlace:
    """Containers of this machine. Implements ``Place``.

    Args:
        command: that runs one.

    Raises:
        UsageError: a trial could not end the container again, or not reach the server in it.
    """

    is_here = True

    def __init__(self, command: LaunchCommand) -> None:
        check_container(command)
        at = _tool_index(command.argv)
        assert at is not None
        self._tool = command.argv[: at + 1]
        self._argv = command.argv
        self.title = f"in a container ({PurePath(self._tool[-1]).name})"

    def berth(self, number: int, announce: Announce) -> DockerBerth:
        status, told = ask_here((*self._tool, "ps", "--quiet"), _ANSWER_S)
        if status != 0:
            tool = " ".join(self._tool)
            raise LaunchError(
                f"{tool} cannot start containers: {_last_line(told)}",
                hint=f"`{tool} ps` must work in this shell, without a question",
            )
        return DockerBerth(self._argv, number, announce)


def is_container(command: LaunchCommand) -> bool:
    """Whether a launch command is about a container in any way."""
    if _tool_index(command.argv) is not None:
        return True
    script = shell_string(command.argv) if image_index(command.argv) is None else None
    return script is not None and any(
        _tool_index([word.text for word in words]) is not None for words in simple_commands(script)
    )


def check_container(command: LaunchCommand) -> None:
    """Refuses what a trial could not start and end as its own.

    Raises:
        UsageError: with what to write instead.
    """
    argv = command.argv
    at = _tool_index(argv)
    if at is None:
        raise UsageError(
            "the launch command starts its container inside a shell string, where autotune could "
            "not end it",
            hint="give docker run and its words as the launch command itself",
        )
    tool = PurePath(argv[at]).name
    if image_index(argv) is None:
        verb = argv[at + 1] if at + 1 < len(argv) else ""
        raise UsageError(
            f"`{tool} {verb}` cannot be a launch command: each trial starts a container of its own "
            "and removes it",
            hint=f"write it as {tool} run … IMAGE python3 -m sglang.launch_server …",
        )
    if is_bridged(argv) and command.host in ("127.0.0.1", "localhost", "::1"):
        raise UsageError(
            f"inside a container with a network of its own, --host {command.host} is out of reach",
            hint="leave --host out, or add --network host",
        )


def _tool_index(argv: Sequence[str]) -> int | None:
    """Where ``docker`` stands, as the program that is run; behind ``sudo`` and the like too."""
    for i, word in enumerate(argv[:-1]):
        name = PurePath(word).name
        if name in _TOOLS and (argv[i + 1] in _VERBS or argv[i + 1].startswith("-")):
            return i
        if _PROGRAM.fullmatch(name):
            return None
    return None


def _parts(argv: Sequence[str]) -> tuple[int, int, int]:
    """Where the tool, the options and the image of a ``docker run`` stand."""
    at, image = _tool_index(argv), image_index(argv)
    assert at is not None and image is not None, "check_container refuses other commands"
    return at, next(i for i in range(at, image) if argv[i] == "run") + 1, image


def _options(words: Sequence[str]) -> Iterator[list[str]]:
    """The options of ``docker run``, each with its value."""
    i = 0
    while i < len(words):
        # image_index knows which take a value: a command cut behind this word ends there or not.
        alone = "=" in words[i] or image_index(["docker", "run", words[i], "image"]) == 3
        yield list(words[i : i + (1 if alone else 2)])
        i += 1 if alone else 2


def visible_in(argv: Sequence[str]) -> dict[str, str]:
    """The GPUs that a ``docker run`` lets its container see, as ``CUDA_VISIBLE_DEVICES``."""
    found = {}
    for option, value in _values(argv):
        devices = _DEVICES.search(value)
        if option == "--gpus" and devices:
            found["CUDA_VISIBLE_DEVICES"] = devices[1]
        name, _, given = value.partition("=")
        if option in ("-e", "--env") and name.endswith("_VISIBLE_DEVICES") and given != "all":
            found["CUDA_VISIBLE_DEVICES"] = given
    return found


def _values(argv: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options of a ``docker run`` with their values."""
    _, first, image = _parts(argv)
    for words in _options(argv[first:image]):
        option, joined, value = words[0].partition("=")
        yield option, value if joined else (words[1:] or [""])[0]


def _suited(words: list[str]) -> tuple[list[str], list[str]]:
    """What is kept of an option of ``docker run``, and what is left out, with the reason."""
    option = words[0].partition("=")[0]
    if option == "--name":
        return [], []
    if option in _NO_TERMINAL:
        return [], [f"{option}: {_NO_TERMINAL[option]}"]
    if _CLUSTER.fullmatch(words[0]):
        kept = "".join(letter for letter in words[0][1:] if letter not in _SHORT)
        dropped = [f"-{x}: {_NO_TERMINAL[_SHORT[x]]}" for x in words[0][1:] if x in _SHORT]
        return ([f"-{kept}"] if kept else []), dropped
    return words, []


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no reason is told"
