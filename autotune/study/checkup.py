"""What can be checked before the first launch, each in a moment and without starting a server."""

from __future__ import annotations

import math
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from optuna.storages import RDBStorage

from autotune.engine.gpu import Run, foreign_users, visible_gpus
from autotune.engine.local import LocalEngine
from autotune.engine.ports import LOCAL_HOST, free_port
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.container import image_index
from autotune.engine.sglang.environment import FAKES_ACCEPTANCE, fake_to_come
from autotune.engine.sglang.installed import Installed
from autotune.engine.sglang.versions import Version, why_missing
from autotune.engine.simulated.engine import runs_simulation
from autotune.errors import AutotuneError
from autotune.study.campaign import Campaign
from autotune.study.config import RunConfig
from autotune.study.store import masked

State = Literal["ok", "warning", "problem"]

_DISK_GB = 1.0
_FILES_EACH = 4
"""Open files a request may take: its socket, and room for the libraries around it."""
_FILES_MORE = 256
_SKEW_S = 5.0
_NEEDS_DRAFT = ("EAGLE3", "STANDALONE", "DFLASH")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        text: what was found, for people.
        remedy: what to do; empty where all is well.
    """

    name: str
    state: State
    text: str
    remedy: str = ""


def check_up(config: RunConfig) -> Iterator[Finding]:
    """Looks at everything a first launch depends on."""
    try:
        campaign = Campaign.prepare(replace(config, allow_simulated_acceptance=True))
    except AutotuneError as error:
        yield Finding("study", "problem", error.message, error.hint)
        return
    space, command = campaign.space, campaign.engine.command
    yield Finding(
        "study", "ok", f"{space.size:,} legal configurations of {space.raw_size:,}"
        f" in the space {space.name}",
    )  # fmt: skip
    if runs_simulation(command):
        yield Finding("server", "ok", f"the bundled simulated server, {campaign.scenario}")
        yield _port(lambda: free_port(command.host or LOCAL_HOST))
    else:
        yield from _at_its_place(campaign.engine, campaign.installed)
    yield _acceptance(command, config.allow_simulated_acceptance)
    yield _secrets(command)
    yield from _folder(campaign.store.directory)
    if config.storage is not None:
        yield _storage(config.storage)
    yield _files(max(config.serving_concurrency))


def _at_its_place(engine: LocalEngine, found: Installed) -> Iterator[Finding]:
    """Of the machine that would run the servers, wherever it is: asked as a launch would ask."""
    command, place = engine.command, engine.place
    if place.is_here:
        program = shutil.which(command.argv[0])
        if program is None:
            yield Finding(
                "program", "problem", f"{command.argv[0]} does not exist or cannot be run",
                "check the words after --; is SGLang installed in this environment?",
            )  # fmt: skip
            return
        yield Finding("program", "ok", program)
    try:
        berth = place.berth(0, lambda _: None)
    except AutotuneError as error:
        yield Finding("machine", "problem", error.message, error.hint)
        return
    try:
        yield Finding("machine", "ok", f"the server would run {place.title}")
        yield _version(found)
        yield _flags(command, found.version)
        yield from _models(command, None if image_index(command.argv) is not None else berth.run)
        yield _gpus(command, berth.gpu_environment(engine.env), berth.run)
        yield _port(lambda: berth.free_port(command.host))
    finally:
        berth.close()


def _version(found: Installed) -> Finding:
    if found.version is None:
        return Finding(
            "version", "warning", found.describe(),
            "start autotune in the environment that has SGLang, if that is not the one meant",
        )  # fmt: skip
    return Finding("version", "ok", found.describe())


def _flags(command: LaunchCommand, version: Version | None) -> Finding:
    """Against the history of the flags: one that never existed is left to SGLang's own parser."""
    given = [word.partition("=")[0] for word in command.server_words() if word.startswith("--")]
    names = dict.fromkeys(word[2:].replace("-", "_") for word in given)
    lacks = [reason for name in names if (reason := why_missing(name, version))]
    if lacks:
        return Finding("flags", "problem", "; ".join(lacks), "remove them, or change the version")
    return Finding("flags", "ok", f"this version lacks none of the {len(names)} flags")


def _models(command: LaunchCommand, run: Run | None) -> Iterator[Finding]:
    """The target model, and the draft model where the algorithm needs one of its own.

    Args:
        run: runs a command where the folders are; None: they are those of a container.
    """
    flags = command.flags()
    yield _model("model", flags.get("model_path"), run)
    algorithm = str(flags.get("speculative_algorithm", "")).upper()
    draft = flags.get("speculative_draft_model_path")
    if draft is not None:
        yield _model("draft model", draft, run)
    elif algorithm in _NEEDS_DRAFT:
        yield Finding(
            "draft model", "problem", f"{algorithm} needs one, and none is given",
            "add --speculative-draft-model-path",
        )  # fmt: skip
    elif algorithm == "EAGLE":
        yield Finding(
            "draft model", "warning", "none is given: only models with a draft layer of their own "
            "(multi-token prediction) start without",
            "add --speculative-draft-model-path where the model has no such layer",
        )  # fmt: skip


def _model(what: str, path: object, run: Run | None) -> Finding:
    if not isinstance(path, str) or not path:
        return Finding(what, "warning", "the command names none", "add --model-path")
    if not path.startswith(("/", "./", "../", "~")):
        return Finding(what, "ok", f"{path} (of the hub, or a folder: not looked for)")
    if run is None:
        return Finding(what, "ok", f"{path} (in the container: not looked at)")
    home = path.startswith("~/")
    look = 'cd && ls -a -- "$1"' if home else 'ls -a -- "$1"'
    files = run(["sh", "-c", look, "sh", path[2 * home :]]).split()
    if not files:
        return Finding(what, "problem", f"{path} does not exist", "correct the path")
    if "config.json" not in files:
        return Finding(
            what, "warning", f"{path} has no config.json", "is it the folder of a model?"
        )
    return Finding(what, "ok", path)


def _gpus(command: LaunchCommand, env: Mapping[str, str], run: Run) -> Finding:
    gpus = visible_gpus(env, run)
    if not gpus:
        return Finding(
            "GPU", "warning", "nvidia-smi tells of none, so nothing can be said about their use",
            "make sure that nothing else runs on the accelerator",
        )  # fmt: skip
    users = foreign_users(gpus, run)
    if users:
        return Finding(
            "GPU", "problem", "; ".join(map(str, users)),
            "stop it, or choose other GPUs with CUDA_VISIBLE_DEVICES",
        )  # fmt: skip
    sizes = command.readable(("tp_size", "pp_size")).values()
    n_needed = math.prod(size for size in sizes if isinstance(size, int))
    if n_needed > len(gpus):
        return Finding(
            "GPU", "problem", f"the command needs {n_needed} of them, and {len(gpus)} can be seen",
            "lower --tp-size, or let it see more with CUDA_VISIBLE_DEVICES",
        )  # fmt: skip
    memory_gb = gpus[0].memory_mb / 1024
    return Finding("GPU", "ok", f"{len(gpus)} × {gpus[0].name}, {memory_gb:.0f} GB each, free")


def _acceptance(command: LaunchCommand, is_meant: bool) -> Finding:
    value = fake_to_come(command.variable(FAKES_ACCEPTANCE), os.environ)
    if value is not None:
        return Finding(
            "acceptance", "warning" if is_meant else "problem",
            f"{FAKES_ACCEPTANCE}={value} fakes the accept length",
            "unset it" if is_meant else "unset it, or set allow_simulated_acceptance: true",
        )  # fmt: skip
    return Finding("acceptance", "ok", "not faked by a variable")


def _secrets(command: LaunchCommand) -> Finding:
    """What the server's own words show to everyone who may list processes of its machine."""
    shown = command.exposed()
    if not shown:
        return Finding("secrets", "ok", "none stands in the words of the command")
    return Finding(
        "secrets",
        "warning",
        f"the command is passed on as you wrote it: {', '.join(shown)} can be read in the list of "
        "processes while a server runs (and in no file of the study)",
        "set variables in the environment (docker: -e NAME alone), put --api-key into the file of "
        "--config: SGLang reads no variable for it",
    )


def _port(find: Callable[[], int]) -> Finding:
    try:
        find()
    except AutotuneError as error:
        return Finding("ports", "problem", error.message, error.hint)
    return Finding("ports", "ok", "each launch gets a free one of its own")


def _storage(location: str) -> Finding:
    """Of ``--storage``: whether it can be reached and written. Nothing is made in it."""
    shown = masked(location)
    kind, is_url, path = location.partition("://")
    if not is_url or kind == "sqlite":
        file = Path(path.removeprefix("/") if is_url else location)
        target = file if file.exists() else file.parent
        if target.exists() and os.access(target, os.W_OK):
            return Finding("database", "ok", f"{shown} can be written")
        reason = "cannot be written" if target.exists() else "lies in a folder that does not exist"
        return Finding("database", "problem", f"{shown} {reason}", "choose another --storage")
    try:
        database = RDBStorage(location, skip_compatibility_check=True, skip_table_creation=True)
        with closing(database.engine.connect()):
            return Finding("database", "ok", f"{shown} answers")
    except Exception as error:  # every database driver has its own
        reason = masked(str(error).partition("\n")[0])
        return Finding("database", "problem", f"{shown}: {reason}", "is it running, and reachable?")


def _folder(directory: Path) -> Iterator[Finding]:
    """Whether the folder of studies can be written, has room, and keeps this machine's time."""
    folder = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as probe:
            probe.write(b"autotune")
            probe.flush()
            skew_s = abs(Path(probe.name).stat().st_mtime - time.time())
    except OSError as error:
        yield Finding(
            "storage", "problem", f"{folder} cannot be written: {error.strerror}",
            "run from a folder of your own",
        )  # fmt: skip
        return
    yield Finding("storage", "ok", f"{directory} can be written")
    free_gb = shutil.disk_usage(folder).free / 1e9
    if free_gb < _DISK_GB:
        yield Finding("disk", "problem", f"{free_gb:.1f} GB free", "make room: logs are kept there")
    else:
        yield Finding("disk", "ok", f"{free_gb:,.0f} GB free")
    if skew_s > _SKEW_S:
        yield Finding(
            "clock", "warning", f"the clocks of this machine and its disk differ by {skew_s:.0f} s",
            "synchronise them: trials are ordered by time",
        )  # fmt: skip
    else:
        yield Finding("clock", "ok", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()))


def _files(concurrency: int) -> Finding:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _FILES_EACH * concurrency + _FILES_MORE
    if limit < needed:
        return Finding(
            "open files", "problem", f"at most {limit}, and C={concurrency} may take {needed}",
            f"ulimit -n {min(max(needed, 4096), most)}",
        )  # fmt: skip
    return Finding("open files", "ok", f"at most {limit:,}")
