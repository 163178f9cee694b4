"""The life of one launch: a command becomes a server that is ready, or a failure.

Where that server runs is the business of a ``Place``. It may be any server that speaks as SGLang
does; what differs for one that imitates SGLang is in the methods under "For servers that imitate
SGLang".
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autotune import __version__
from autotune.core.trial import Failure, FailureKind, Flags
from autotune.engine.base import Announce, LaunchFailed
from autotune.engine.gpu import Gpu, MemoryGate, driver_version, foreign_users, visible_gpus
from autotune.engine.places.base import Berth, Place, url_host
from autotune.engine.places.choose import place_for
from autotune.engine.process import ServerProcess, StopPatience, StopReport
from autotune.engine.sglang.command import MASK, LaunchCommand
from autotune.engine.sglang.diagnose import diagnose_file, last_words, read_log, stage_of
from autotune.engine.sglang.environment import fakes_in
from autotune.engine.sglang.readback import effective_settings, fetch_server_info, versions_of
from autotune.engine.sglang.readiness import ReadyProbe, StartupLog
from autotune.engine.sglang.retractions import RetractionLog

READY_TIMEOUT_S = 900.0
_POLL_S = 0.05
_GPU_FREE_S = 30.0
_GPU_BUSY_S = 10.0
"""A driver needs seconds to give memory back; who holds it for longer is somebody else."""
_AT_ONCE = StopPatience(leader_s=0.0, group_s=0.0)


class LocalServer:
    """A server that ``LocalEngine`` started; see ``RunningServer``.

    Attributes:
        stopped: how the stop went, once it is over.
    """

    def __init__(
        self,
        process: ServerProcess,
        command: LaunchCommand,
        *,
        url: str,
        info: Mapping[str, Any] | None,
        launch_s: float,
        time_scale: float,
        machine: dict[str, Any],
        patience: StopPatience,
        berth: Berth,
        gate: MemoryGate | None = None,
    ) -> None:
        self.url = url
        self.api_key = command.api_key
        faked = fakes_in(berth.environment())
        self.effective = effective_settings(info, read_log(process.log)) | faked
        self.versions = versions_of(info)
        self.machine = machine
        self.launch_s = launch_s
        self.time_scale = time_scale
        self.stopped: StopReport | None = None
        self._process = process
        self._retractions = RetractionLog(process.log)
        self._patience = patience
        self._berth = berth
        self._gate = gate
        self._failure: Failure | None = None
        self._stopping = False

    def failure(self) -> Failure | None:
        """Why it died by itself; None while it lives and after a ``stop`` of ours."""
        if self._failure is None and not self._stopping:
            status = self._process.poll()
            if status is not None:
                self._failure = diagnose_file(self._process.log, status, ready=True)
        return self._failure

    def retractions(self) -> int | None:
        return self._retractions.count()

    @property
    def stop_trouble(self) -> str:
        return self.stopped.trouble if self.stopped and self._failure is None else ""

    def stop(self) -> float:
        if self.stopped is not None:
            return 0.0
        self.failure()  # a death that nobody noticed yet is no result of this stop
        self._stopping = True
        began = time.monotonic()
        try:
            self.stopped = self._process.stop(self._patience)
            if self._gate is not None:
                # What is not free by then is found before the next launch.
                self._gate.wait(_GPU_FREE_S)
        finally:
            self._berth.close()
        return (time.monotonic() - began) * self.time_scale

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class LocalEngine:
    """Starts SGLang, one server after another. Implements ``Engine``.

    Args:
        command: the base launch command; its own flags are the baseline.
        ready_timeout_s: wall seconds a server may take to become ready.
        env: variables for the server on top of the tuner's own (``CUDA_VISIBLE_DEVICES``).
        pins: flags for every pinned launch that neither the command nor the trial gives.
        patience: of the stop.
        place: where the servers run; None: where the command says, on this machine.

    Raises:
        UsageError: the command is about a container that a trial cannot run and end.
    """

    name = "sglang"

    def __init__(
        self,
        command: LaunchCommand,
        *,
        ready_timeout_s: float = READY_TIMEOUT_S,
        env: Mapping[str, str] | None = None,
        pins: Flags | None = None,
        patience: StopPatience | None = None,
        place: Place | None = None,
    ) -> None:
        self.place = place or place_for(command)
        self.command = command
        self.ready_timeout_s = ready_timeout_s
        self.env = dict(env or {})
        self.pins = dict(pins or {})
        self.patience = patience or StopPatience()

    def command_for(self, flags: Flags, *, pinned: bool = True) -> LaunchCommand:
        """The command of a trial with these flags, but for its port."""
        if not flags:
            return self.command
        given = {**self.command.flags(self.pins), **flags}
        missing = {name: value for name, value in self.pins.items() if name not in given}
        return self.command.with_flags({**flags, **(missing if pinned else {})})

    def launched_as(
        self, flags: Flags, *, number: int, port: int, pinned: bool = True
    ) -> LaunchCommand:
        """The command of a trial, word for word."""
        command = self.command_for(flags, pinned=pinned).with_port(port)
        return command.with_words(self.extra_words(number)).filled()

    def launch(
        self,
        flags: Flags,
        *,
        directory: Path,
        number: int,
        announce: Announce,
        pinned: bool = True,
    ) -> LocalServer:
        """See ``Engine.launch``. An interrupt on the way leaves no server behind."""
        berth = self.place.berth(number, announce)
        try:
            return self._launched(berth, flags, directory, number, announce, pinned)
        except BaseException:
            berth.close()
            raise

    def _launched(
        self,
        berth: Berth,
        flags: Flags,
        directory: Path,
        number: int,
        announce: Announce,
        pinned: bool,
    ) -> LocalServer:
        gate = self._free_gpus(berth, announce)
        port = berth.free_port(self.command.host)
        command = self.launched_as(flags, number=number, port=port, pinned=pinned)
        directory.mkdir(parents=True, exist_ok=True)
        write_script(directory / "launch.sh", command, self.env, number)
        process = berth.start(command, log=directory / "server.log", env=self.env, port=port)
        try:
            host, port = berth.address(command.host, port)
            self._wait_until_ready(process, command, host, port, announce)
            server = self._ready_server(process, command, address(host, port), berth, gate)
            announce(f"ready after {server.launch_s:.0f} s")
            return server
        except BaseException:
            # After a failure nothing is left to stop gently; an interrupt has no time for it.
            process.stop(_AT_ONCE)
            raise

    # For servers that imitate SGLang: what a subclass may say otherwise.

    def extra_words(self, number: int) -> Sequence[str]:
        """More words for the command of one trial."""
        return ()

    def server_seconds(self, wall_s: float, log: str) -> float:
        """Seconds on the server's own clock that its start took, ready or not."""
        return wall_s

    def time_scale(self, info: Mapping[str, Any] | None) -> float:
        """Server seconds per wall second, from the JSON of ``/server_info``."""
        return 1.0

    def machine(self, info: Mapping[str, Any] | None, berth: Berth) -> dict[str, Any]:
        """The hardware under the server."""
        gpus = visible_gpus(berth.gpu_environment(self.env), berth.run)
        driver = driver_version(berth.run) if gpus else None
        told = {"driver": driver} if driver else {}
        return describe_machine(gpus, info) | told | berth.machine()

    def watches_gpus(self) -> bool:
        """Whether the server uses the GPUs of the machine it runs on."""
        return True

    def _free_gpus(self, berth: Berth, announce: Announce) -> MemoryGate | None:
        """The level that the memory of the GPUs must come back to after the stop.

        Raises:
            LaunchFailed: somebody else uses them, and the server would find too little left. What
                is found is never touched.
        """
        if not self.watches_gpus():
            return None
        env = berth.gpu_environment(self.env)
        deadline = time.monotonic() + _GPU_BUSY_S
        while users := foreign_users(visible_gpus(env, berth.run), berth.run):
            if time.monotonic() >= deadline:
                text = "; ".join(map(str, users))
                remedy = "stop it, or choose other GPUs with CUDA_VISIBLE_DEVICES"
                failure = Failure(FailureKind.GPU_BUSY, "start", text, remedy)
                raise LaunchFailed(failure, launch_s=0.0, stop_s=0.0)
            announce(f"waiting for the GPU: {users[0]}")
            time.sleep(1.0)
        return MemoryGate(env, berth.run)

    def _ready_server(
        self,
        process: ServerProcess,
        command: LaunchCommand,
        url: str,
        berth: Berth,
        gate: MemoryGate | None,
    ) -> LocalServer:
        wall_s = time.monotonic() - process.started_mono_s
        info = fetch_server_info(url, api_key=command.api_key)
        if self.command.version is None:  # the first server that answers tells it
            self.command = self.command.for_version(versions_of(info).get("sglang"))
        process.catch_up()
        return LocalServer(
            process,
            command,
            url=url,
            info=info,
            launch_s=self.server_seconds(wall_s, read_log(process.log)),
            time_scale=self.time_scale(info),
            machine=self.machine(info, berth),
            patience=self.patience,
            berth=berth,
            gate=gate,
        )

    def _wait_until_ready(
        self,
        process: ServerProcess,
        command: LaunchCommand,
        host: str,
        port: int,
        announce: Announce,
    ) -> None:
        """Returns when the server is ready.

        Raises:
            LaunchFailed: it died, or the time is up; then nothing of it runs any more.
        """
        log = StartupLog(process.log, announce)
        probe = ReadyProbe(address(host, port), host, port, api_key=command.api_key)
        deadline = process.started_mono_s + self.ready_timeout_s
        try:
            while True:
                status = process.poll()
                if status is not None:
                    raise self._failed(process, status)
                log.follow()
                if probe.is_ready(log):
                    return
                if time.monotonic() >= deadline:
                    # Asked again: whoever else answers at its port may have held up the probe.
                    raise self._failed(process, process.poll())
                time.sleep(_POLL_S)
        finally:
            probe.close()

    def _failed(self, process: ServerProcess, status: int | None) -> LaunchFailed:
        """What to raise for a server that died with ``status``, or is not ready in time (None)."""
        wall_s = time.monotonic() - process.started_mono_s
        stop_s = process.stop(_AT_ONCE if status is not None else self.patience).duration_s
        failure = diagnose_file(process.log, status, ready=False)
        log = read_log(process.log)
        if status is None and failure.kind is FailureKind.CRASHED:
            failure = Failure(
                FailureKind.READY_TIMEOUT,
                stage_of(log),
                last_words(log) or "no line in the log",
                f"not ready after {self.ready_timeout_s:.0f} s: allow more time if the last line "
                "is progress, else look there for what it waits for",
            )
        return LaunchFailed(failure, launch_s=self.server_seconds(wall_s, log), stop_s=stop_s)


def address(host: str | None, port: int) -> str:
    """Base address under which a server that listens on ``host`` is reached from here."""
    name = url_host(host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def write_script(path: Path, command: LaunchCommand, env: Mapping[str, str], number: int) -> None:
    """Writes the launch of one trial as a shell script, secrets masked."""
    assignments = LaunchCommand(("env", *(f"{key}={value}" for key, value in env.items())))
    words = [word.partition("=") for word in assignments.redacted().argv[1:]]
    launch = [f"export {key}={shlex.quote(value)}" for key, _, value in words]
    launch.append("exec " + command.redacted().shell())
    masked = any(MASK in line for line in launch)
    note = f" Secrets were replaced by {MASK}: put them back before use." if masked else ""
    lines = [
        "#!/bin/sh",
        f"# The launch of trial {number}, written by autotune {__version__}.{note}",
        *launch,
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)


def describe_machine(gpus: Sequence[Gpu], info: Mapping[str, Any] | None) -> dict[str, Any]:
    """``gpu``, ``n_gpus``, ``gpu_memory_gb`` (of one, as SGLang counts); empty without GPUs.

    ``n_gpus`` is what the server uses where it tells, else what it may see.
    """
    if not gpus:
        return {}
    return {
        "gpu": gpus[0].name,
        "n_gpus": _gpus_used(info or {}) or len(gpus),
        "gpu_memory_gb": round(gpus[0].memory_mb / 1024, 1),
    }


def _gpus_used(info: Mapping[str, Any]) -> int:
    tp, pp, dp = (int(info.get(key) or 0) for key in ("tp_size", "pp_size", "dp_size"))
    # Data-parallel attention splits the tensor-parallel GPUs, it needs no more of them.
    return tp * max(pp, 1) * (1 if info.get("enable_dp_attention") else max(dp, 1))
