"""One ssh connection to another machine, for one launch: questions, a forwarded port, a session.

It is made by the system's ``ssh``, so ``~/.ssh/config``, agents, keys and jump hosts count as they
do at the prompt. ``AUTOTUNE_SSH_CONFIG`` names another configuration file.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from autotune.engine.places.tool import ask
from autotune.engine.ports import LOCAL_HOST
from autotune.engine.process import ServerProcess, new_marker
from autotune.engine.scratch import Scratch
from autotune.engine.sglang.logfile import as_lines, read_log
from autotune.engine.stopping import StopPatience
from autotune.errors import ConfigError, LaunchError

CONFIG_VARIABLE = "AUTOTUNE_SSH_CONFIG"

_ANSWER = "autotune-answer"
_CONNECT_S = 60.0
_ASK_S = 30.0
_POLL_S = 0.05
_PATIENCE = StopPatience(leader_s=2.0, group_s=1.0, killed_s=5.0, port_s=0.0)
_OPTIONS = (
    "BatchMode=yes",  # a question for a password would wait for ever
    "ConnectTimeout=20",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ControlPersist=no",
    "RequestTTY=no",
    "RemoteCommand=none",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "LogLevel=ERROR",
)
_LONGEST_FOLDER = 70
"""Of the folder for the control socket, whose path the kernel limits to 107 characters."""


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to connect to: a name that ``ssh`` understands, and what the address adds to it."""

    host: str
    user: str | None = None
    port: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """``ssh://[user@]host[:port]``.

        Raises:
            ConfigError: it is no such address, or holds more than one.
        """
        hint = "write ssh://host, ssh://user@host or ssh://user@host:port"
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise ConfigError(f"{text!r} is no address of a machine", hint=hint) from None
        if parts.scheme != "ssh" or not host or parts.path.strip("/") or parts.query:
            raise ConfigError(f"{text!r} is no address of a machine", hint=hint)
        if parts.password is not None:
            raise ConfigError(
                "a password cannot stand in the address of a machine", hint="use a key or an agent"
            )
        # As written: the names of ~/.ssh/config tell capitals apart.
        written = re.search(re.escape(host), text, re.IGNORECASE)
        host = written[0] if written else host
        if not re.fullmatch(r"[A-Za-z0-9_][\w.:%-]*", host) or (parts.username or "")[:1] == "-":
            raise ConfigError(f"{host!r} is no name of a machine", hint=hint)
        return cls(host, parts.username, port)

    def words(self) -> list[str]:
        """Words of ``ssh`` that name it."""
        user = ["-l", self.user] if self.user else []
        port = ["-p", str(self.port)] if self.port else []
        return [*user, *port, self.host]


class Link:
    """A connection that everything of one launch shares. Close it.

    Raises:
        LaunchError: the machine cannot be reached without a question.
    """

    def __init__(self, target: Target, label: str) -> None:
        self.target = target
        self._scratch = Scratch("autotune-ssh-", longest=_LONGEST_FOLDER)
        self._master: ServerProcess | None = None
        try:
            words = self.words("-N", "-o", "ControlMaster=yes", "-o", "ClearAllForwardings=yes")
            self._master = ServerProcess(
                words, log=self._log, marker=new_marker(label), beyond=_Socket(self)
            )
            self._wait_until_open(self._master)
        except BaseException:
            self.close()
            raise

    def words(self, *more: str) -> list[str]:
        """An ``ssh`` command over this connection, up to the host."""
        config = os.environ.get(CONFIG_VARIABLE)
        given = ["-F", config] if config else []
        options = [f"ControlPath={self.folder / 'c'}", *_OPTIONS]
        for option in options:
            given += ["-o", option]
        return ["ssh", *given, *more, *self.target.words()]

    def session(self, script: str) -> list[str]:
        """An ``ssh`` command that runs a shell script there, whatever the login shell is."""
        return [*self.words("-T"), f"exec /bin/sh -c {shlex.quote(script)}"]

    def ask(self, script: str, limit_s: float = _ASK_S) -> tuple[int, str]:
        """Exit status and output of a script; 255 where the machine gives no answer.

        Once the connection has broken, a new one is made for the question.
        """
        status, told = _asked(self.session(f"echo {_ANSWER}\n{script}"), limit_s)
        # What a .bashrc or ssh itself says comes before.
        before, found, answer = told.partition(f"{_ANSWER}\n")
        return status, answer if found else before

    def run(self, command: Sequence[str]) -> str:
        """What a command writes there, empty where it fails."""
        status, told = self.ask(f"{shlex.join(command)} 2>/dev/null")
        return told if status == 0 else ""

    def forward(self, host: str, port: int) -> int:
        """A port of this machine's loopback that leads to ``host:port`` as seen from there.

        Raises:
            LaunchError: no port can be forwarded.
        """
        told = ""
        for _ in range(5):
            here = _ephemeral_port()
            there = f"[{host}]" if ":" in host else host
            rule = f"{LOCAL_HOST}:{here}:{there}:{port}"
            status, told = _asked(self.words("-O", "forward", "-L", rule), _ASK_S)
            if status == 0:
                return here
        raise LaunchError(
            f"{self.target.host} forwards no port: {_last_line(told)}",
            hint="its sshd must allow it: AllowTcpForwarding yes",
        )

    def unforward(self, here: int, host: str, port: int) -> None:
        """Closes a port that ``forward`` opened."""
        there = f"[{host}]" if ":" in host else host
        rule = f"{LOCAL_HOST}:{here}:{there}:{port}"
        _asked(self.words("-O", "cancel", "-L", rule), _ASK_S)

    def why_broken(self, within_s: float = 0.0) -> str | None:
        """What ``ssh`` said last where the connection has ended by itself; None where it stands.

        Args:
            within_s: how long to wait for it to end.
        """
        deadline = time.monotonic() + within_s
        while self._master is not None and self._master.poll() is None:
            if time.monotonic() >= deadline:
                return None
            time.sleep(_POLL_S)
        if self._master is None:
            return None
        return _last_line("\n".join(line.text for line in as_lines(read_log(self._log))))

    def close(self) -> None:
        master, self._master = self._master, None
        try:
            if master is not None:
                master.stop(_PATIENCE)
        finally:
            self._scratch.close()

    @property
    def folder(self) -> Path:
        """Of the control socket."""
        return self._scratch.folder

    @property
    def _log(self) -> Path:
        return self.folder / "ssh.log"

    def _wait_until_open(self, master: ServerProcess) -> None:
        ends = time.monotonic() + _CONNECT_S
        while master.poll() is None and time.monotonic() < ends:
            if (self.folder / "c").exists() and _asked(self.words("-O", "check"), 5.0)[0] == 0:
                return
            time.sleep(_POLL_S)
        reason = self.why_broken()
        raise LaunchError(
            f"{self.target.host} cannot be reached over ssh: "
            f"{'no answer in time' if reason is None else reason}",
            hint=f"`ssh {' '.join(self.target.words())} true` must work without a question",
        )


class _Socket:
    """What is left of a connection when its process is gone. Implements ``Beyond``."""

    farewell: Sequence[Sequence[str]] = ()

    def __init__(self, link: Link) -> None:
        self._link = link

    def ask_to_end(self, process: ServerProcess, patience: StopPatience) -> str:
        _asked(self._link.words("-O", "exit"), 5.0)
        return "ssh -O exit"

    def kill(self) -> None:
        return None

    def left(self) -> tuple[str, ...]:
        return ()


def _asked(command: Sequence[str], limit_s: float) -> tuple[int, str]:
    return ask(command, limit_s, unanswered=255)  # ssh's own status for a link that failed


def _ephemeral_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((LOCAL_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no reason is told"
