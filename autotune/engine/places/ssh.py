"""Another machine, over ssh: the server lives as long as the connection that started it.

Nothing is installed there. A small shell script (``supervisor.sh``) comes over the connection,
starts the server in a session of its own and ends it when the connection closes or falls silent;
its output comes back over the same connection, and its port is forwarded to this machine.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autotune.engine.base import Announce
from autotune.engine.places.base import url_host
from autotune.engine.places.docker import (
    Contained,
    Container,
    check_container,
    is_container,
    visible_in,
)
from autotune.engine.places.link import Link, Target
from autotune.engine.ports import LOCAL_HOST, free_port
from autotune.engine.process import MARKER, ServerProcess, new_marker
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.stopping import StopPatience

SILENCE_S = 60
"""Seconds without a word from here after which the far side ends the server."""
GRACE_S = 10
"""Seconds a server is given to end by itself when the connection is lost."""

_CONNECTION_LOST, _NOTICED_S = 255, 2.0
"""Exit status of an ``ssh`` that lost its connection."""
_BEAT_S = 10.0
_WHOLE = "# whole"
_TIME_WAIT = "06"


class RemoteServer:
    """The far side of a launch. Implements ``Beyond``."""

    farewell: Sequence[Sequence[str]] = ()
    """None: its supervisor hears the end of the connection by itself."""

    def __init__(self, link: Link, marker: str, container: Container | None) -> None:
        self._link = link
        self._marker = marker
        self._process: ServerProcess | None = None
        self._container = container
        self._over = threading.Event()
        self._is_gone = False
        self.forwarded: tuple[int, str, int] | None = None

    def keep_alive(self, process: ServerProcess) -> None:
        """Sends a line now and then, for as long as this process lives and runs."""
        self._process = process

        def beat() -> None:
            while not self._over.wait(_BEAT_S):
                process.tell(b"\n")

        threading.Thread(target=beat, name="ssh-heartbeat", daemon=True).start()

    def ask_to_end(self, process: ServerProcess, patience: StopPatience) -> str:
        self._over.set()
        if self._container is not None:
            self._container.ask_to_end(process, patience)
        process.tell(b"stop\n")
        process.wait(patience.leader_s + patience.group_s + 2.0)
        return "stop over ssh"

    def kill(self) -> None:
        self._over.set()
        if not self._is_gone:
            if self._container is not None:
                self._container.kill()
            self._note_a_broken_link()
            self.left()
        forwarded, self.forwarded = self.forwarded, None
        if forwarded is not None:
            self._link.unforward(*forwarded)

    def left(self) -> tuple[str, ...]:
        """Ends by their marker what still runs, and tells what does not end."""
        if self._is_gone:
            return ()
        script = f"{_script('sweep.sh')}\nsweep {shlex.quote(self._marker)}"
        status, told = self._link.ask(script)
        host = self._link.target.host
        if status != 0:
            return (f"perhaps processes on {host}, which does not answer: {told.strip()[-200:]}",)
        pids = tuple(f"process {pid} on {host}" for pid in told.split())
        containers = self._container.left() if self._container is not None else ()
        self._is_gone = not pids and not containers
        return (*pids, *containers)

    def environment(self) -> dict[str, str]:
        """SGLang's variables in the processes of this launch."""
        if self._container is not None:
            return self._container.environment()
        script = (
            f"{_script('sweep.sh')}\nfor pid in $(marked {shlex.quote(self._marker)}); do "
            "tr '\\0' '\\n' < /proc/$pid/environ; done 2>/dev/null | grep '^SGLANG_'; :"
        )
        _, told = self._link.ask(script)
        return dict(line.split("=", 1) for line in told.splitlines() if "=" in line)

    def _note_a_broken_link(self) -> None:
        """Into the log, where the diagnosis looks for the reason."""
        process = self._process
        if process is None:
            return
        # The client may be seen to end a moment before the connection that it went through.
        lost = process.status == _CONNECTION_LOST
        reason = self._link.why_broken(_NOTICED_S if lost else 0.0)
        if reason is not None:
            self._process = None  # it is said once
            process.note(f"the connection to {self._link.target.host} broke: {reason}")


class SshBerth:
    """A launch on another machine. Implements ``Berth``."""

    def __init__(self, target: Target, command: LaunchCommand, number: int) -> None:
        self.marker = new_marker(f"trial-{number}")
        self._number = number
        self._command = command
        self._link = Link(target, f"trial-{number}")
        self._server: RemoteServer | None = None

    def run(self, command: Sequence[str]) -> str:
        return self._link.run(command)

    def gpu_environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """From the command alone: the variables of this machine mean nothing there."""
        if is_container(self._command):
            return {**env, **visible_in(self._command.argv)}
        name = "CUDA_VISIBLE_DEVICES"
        given = self._command.variable(name)
        return {**env, **({name: given} if given is not None else {})}

    def free_port(self, host: str | None) -> int:
        """By the kernel's table of that machine; where it has none, by luck."""
        taken = listening(self.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"]))
        return free_port(is_free=lambda port: port not in taken)

    def start(
        self, command: LaunchCommand, *, log: Path, env: Mapping[str, str], port: int
    ) -> ServerProcess:
        argv, after, container = command.argv, "", None
        if is_container(command):
            name = f"autotune-{os.getpid()}-trial-{self._number}-{self.marker[-8:]}"
            contained = Contained.of(argv, name, self.marker, ["PYTHONUNBUFFERED", *env])
            argv = contained.argv
            after = f"after() {{ {shlex.join(contained.remove)}; }}"
            container = Container(contained, self._ask)
        self._server = server = RemoteServer(self._link, self.marker, container)
        there = LOCAL_HOST if container else url_host(command.host)
        here = self._link.forward(there, port)
        server.forwarded = (here, there, port)
        program = _program(argv, {"PYTHONUNBUFFERED": "1", **env}, after)
        process = ServerProcess(
            self._link.session(_bootstrap(self.marker, len(program))),
            log=log,
            marker=new_marker(f"trial-{self._number}"),
            host=LOCAL_HOST,
            port=here,
            feed=program,
            beyond=server,
            secrets=command.secrets(),
        )
        server.keep_alive(process)
        return process

    def address(self, host: str | None, port: int) -> tuple[str, int]:
        assert self._server is not None and self._server.forwarded is not None
        return LOCAL_HOST, self._server.forwarded[0]

    def environment(self) -> Mapping[str, str]:
        return self._server.environment() if self._server else {}

    def machine(self) -> dict[str, Any]:
        cpus, _, system = self.run(["sh", "-c", "nproc; uname -srm"]).partition("\n")
        found: dict[str, Any] = {"platform": system.strip().replace(" ", "-")} if system else {}
        return found | ({"n_cpus": int(cpus)} if cpus.isdigit() else {})

    def close(self) -> None:
        self._link.close()

    def _ask(self, command: Sequence[str], limit_s: float) -> tuple[int, str]:
        return self._link.ask(f"{shlex.join(command)} 2>&1", limit_s)


class SshPlace:
    """Another machine. Implements ``Place``.

    Args:
        address: ``ssh://[user@]host[:port]``.
        command: whose servers run there.

    Raises:
        ConfigError: it is no such address.
        UsageError: a trial could not end the command's container.
    """

    is_here = False

    def __init__(self, address: str, command: LaunchCommand) -> None:
        self._target = Target.parse(address)
        self._command = command
        if is_container(command):
            check_container(command)
        self.title = f"on {self._target.host} over ssh"

    def berth(self, number: int, announce: Announce) -> SshBerth:
        announce(f"connecting to {self._target.host}")
        return SshBerth(self._target, self._command, number)


def listening(table: str) -> set[int]:
    """The ports in use in a ``/proc/net/tcp``; those that only linger are free again."""
    rows = (line.split() for line in table.splitlines())
    return {
        int(row[1].rpartition(":")[2], 16)
        for row in rows
        if len(row) > 3 and row[0].rstrip(":").isdigit() and row[3] != _TIME_WAIT
    }


def _script(name: str) -> str:
    """A shell script of this package, without its comments."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _program(argv: Sequence[str], env: Mapping[str, str], after: str) -> bytes:
    """What is fed to the far side: it may hold secrets."""
    sweeper = shlex.quote(f'{_script("sweep.sh")}\nsweep "$1"')
    exports = [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    call = f"supervise {GRACE_S} {SILENCE_S} {shlex.join(argv)}"
    parts = [_script("supervisor.sh"), f"sweeper={sweeper}", after, *exports, call, _WHOLE]
    return "\n".join(parts).encode()


def _bootstrap(marker: str, size: int) -> str:
    """Reads the program byte by byte, as a shell that reads ahead would swallow what follows it.

    A program that was cut off on the way is not run.
    """
    script = (
        f"text=$(dd bs=1 count={size} 2>/dev/null); "
        f'case $text in *"{_WHOLE}") eval "$text";; esac; exit 255'
    )
    return f"exec env {MARKER}={shlex.quote(marker)} /bin/sh -c {shlex.quote(script)}"
