"""One description of a run, and where each of its values came from.

Precedence: command line > ``AUTOTUNE_*`` environment > study file > default. ``study.yaml`` in a
study's folder is the resolved description; a study only goes on under the same one.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from autotune.core.objective import Objective, objective_named
from autotune.errors import ConfigError, StudyError
from autotune.space.yaml_lines import Located, read_yaml
from autotune.study.config_check import check_config

STUDY_FILE = Path("autotune.yaml")


@dataclass(frozen=True, slots=True)
class RunConfig:
    """Everything that defines a study.

    Attributes:
        runs_on: the machine that runs the servers, ``ssh://user@host:port``; None: this one.
        command: the base launch command, as words; empty for the bundled simulated server.
        trials: launches at most, baseline and replicates included.
        time_s: wall seconds at most; None: no limit.
        gpu_hours: GPU hours at most (simulated ones on the simulated engine); None: no limit.
        ready_timeout_s: seconds a server may take to become ready.
        stall_timeout_s: seconds without any token after which a server counts as hung.
        trial_timeout_s: seconds a trial may measure, from ready on; then it has failed.
        sampler: which search proposes the launches.
        target_gain: percent against the baseline at which to stop; None: no target.
        patience: launches that may leave the recommendation as it was; None: no limit.
        warm_start: a study, a CSV file or ``recipes`` to start from; None: from nothing.
        exhaust: use all launches, whatever the model expects of them.
        widen: go on beyond the end of the steps where the model expects more there.
        prune: leave the long phases of a launch out whose first one shows that it is hopeless.
        without_off: do not launch without speculation to compare.
        confirm: fresh launches of each finalist and of the baseline after the search; 0: none.
        finalists: configurations to confirm: what the search recommends, then the runners-up.
        allow_simulated_acceptance: tune a server that fakes its accept length all the same.
    """

    study: str | None = None
    objective: str = "agentic"
    engine: str = ""
    scenario: str | None = None
    space: str = "speculative"
    workload: str = "agentic"
    trials: int = 30
    time_s: float | None = None
    gpu_hours: float | None = None
    latency_concurrency: int = 1
    serving_concurrency: tuple[int, ...] = (16, 32)
    slo: tuple[str, ...] = ()
    storage: str | None = None
    seed: int = 0
    ready_timeout_s: float = 900.0
    stall_timeout_s: float = 60.0
    trial_timeout_s: float = 1800.0
    sampler: str = "speculative"
    target_gain: float | None = None
    patience: int | None = None
    warm_start: str | None = None
    exhaust: bool = False
    widen: bool = True
    prune: bool = True
    without_off: bool = False
    confirm: int = 2
    finalists: int = 1
    allow_simulated_acceptance: bool = False
    runs_on: str | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """A configuration and, for each field, the place its value came from."""

    config: RunConfig
    origins: Mapping[str, str]


def resolve(options: Mapping[str, Any], study_file: Path | None) -> Resolved:
    """Merges the sources of a configuration.

    Args:
        options: what the command line gave, by field name; None means not given.
        study_file: ``--config``, or None for ``autotune.yaml`` where that exists.

    Raises:
        ConfigError: a value is of the wrong kind, or a key is unknown.
    """
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    path = study_file or (STUDY_FILE if STUDY_FILE.exists() else None)
    if path is not None:
        for name, (value, where) in _from_file(path).items():
            values[name], origins[name] = value, where
    for name, text in _from_environment().items():
        values[name] = _READERS[name](text, f"AUTOTUNE_{name.upper()}")
        origins[name] = f"AUTOTUNE_{name.upper()}"
    for name, value in options.items():
        if value is not None and value != ():
            values[name], origins[name] = value, "command line"
    config = RunConfig(**values)
    origins = {f.name: origins.get(f.name, "default") for f in fields(RunConfig)}
    if not config.engine:
        engine = "sglang" if config.command else "simulated"
        config = _replaced(config, engine=engine)
        origins["engine"] = "a launch command is given" if config.command else "no launch command"
    check_config(config)
    return Resolved(config, origins)


def load_objective(name_or_path: str) -> Objective:
    """A preset by name, or a YAML file with ``name`` and ``latency_weight``.

    Raises:
        ConfigError: neither.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        return objective_named(name_or_path)
    root = read_yaml(path)
    entries = root.mapping("an objective", ("name", "latency_weight"))
    if "latency_weight" not in entries:
        raise root.error("an objective needs latency_weight, from 0 to 1")
    weight = entries["latency_weight"].number("latency_weight")
    if not 0 <= weight <= 1:
        raise entries["latency_weight"].error(f"latency_weight is {weight}, not from 0 to 1")
    name = entries["name"].text("name") if "name" in entries else path.stem
    return Objective(name, float(weight))


def parse_weight(text: str) -> Objective:
    """``latency=0.7`` (or ``throughput=0.3``) as an objective.

    Raises:
        ConfigError: not of that form.
    """
    found = re.fullmatch(r"(latency|throughput)=([0-9.]+)", text.strip())
    weight = float(found[2]) if found and re.fullmatch(r"\d*\.?\d+", found[2]) else -1.0
    if found is None or not 0 <= weight <= 1:
        raise ConfigError(f"weight {text!r} is not of the form latency=0.7, from 0 to 1")
    return Objective("custom", weight if found[1] == "latency" else round(1 - weight, 6))


# ---- study.yaml -----------------------------------------------------------------------------

_MAY_CHANGE = (
    "trials", "time_s", "gpu_hours", "objective", "ready_timeout_s", "stall_timeout_s",
    "trial_timeout_s", "study", "sampler", "target_gain", "patience", "exhaust", "widen", "prune",
    "without_off", "confirm", "finalists",
)  # fmt: skip


def to_yaml(config: RunConfig) -> str:
    """The resolved configuration as YAML."""
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(config).items()}
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def from_yaml(path: Path) -> RunConfig:
    """Reads a ``study.yaml`` back.

    Raises:
        StudyError: it is damaged.
    """
    try:
        config = RunConfig(**{name: value for name, (value, _) in _from_file(path).items()})
        if not config.command:
            raise ConfigError("it has no command")
        check_config(config)
    except ConfigError as error:
        reason = error.message.removeprefix(f"{path}, ").removeprefix(f"{path}: ")
        raise StudyError(
            f"{path} is damaged: {reason}",
            hint="mend that file, or start another study with --study NAME",
        ) from None
    return config


def check_same(config: RunConfig, stored: RunConfig, name: str) -> None:
    """Refuses to mix trials that cannot be compared.

    Raises:
        StudyError: the stored study was made under another configuration.
    """
    differing = [
        f.name
        for f in fields(RunConfig)
        if f.name not in _MAY_CHANGE and getattr(config, f.name) != getattr(stored, f.name)
    ]
    if differing:
        first = differing[0]
        old, new = getattr(stored, first), getattr(config, first)
        shown = [shlex.join(v) if first == "command" else str(v) for v in (old, new)]
        raise StudyError(
            f"study {name!r} was made with another {', '.join(differing)} "
            f"({first}: {shown[0]!r} then, {shown[1]!r} now)",
            hint="give this run a name of its own: --study NAME",
        )


# ---- reading --------------------------------------------------------------------------------


def _from_file(path: Path) -> dict[str, tuple[Any, str]]:
    root = read_yaml(path)
    if root.value is None:
        return {}
    found = {}
    for name, entry in root.mapping("a study file", tuple(_READERS)).items():
        value = _file_value(name, entry)
        if value is not None:
            found[name] = (value, f"{entry.file}, line {entry.line}")
    return found


def _file_value(name: str, entry: Located) -> Any:  # noqa: ANN401 (any field of RunConfig)
    plain = entry.plain()
    if plain is None:
        return None
    where = f"{entry.file}, line {entry.line}"
    if isinstance(plain, list):
        if name not in _LISTS:
            raise entry.error(f"{name} takes one value, not a list")
        items = [str(item) for item in plain]
        return tuple(items) if name != "serving_concurrency" else _concurrencies(items, where)
    if isinstance(plain, dict):
        raise entry.error(f"{name} takes one value, not a mapping")
    return _READERS[name](str(plain), where)


def _from_environment() -> dict[str, str]:
    prefix = "AUTOTUNE_"
    known = {f"{prefix}{name.upper()}": name for name in _READERS}
    return {name: os.environ[key] for key, name in known.items() if os.environ.get(key)}


def parse_duration(text: str, where: str = "") -> float:
    """``90``, ``90s``, ``15m``, ``2h`` or ``1h30m`` in seconds.

    Raises:
        ConfigError: not a duration above zero.
    """
    clean = text.strip().lower()
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh]?)", clean)
    units = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
    total = sum(float(number) * units[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != clean or total <= 0:
        prefix = f"{where}: " if where else ""
        raise ConfigError(f"{prefix}{text!r} is no duration, such as 90s, 15m, 2h or 1h30m")
    return total


def _integer(text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is not a whole number") from None


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(f"{where}: {text!r} is not a number")
    return value


def _switch(text: str, where: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.strip().lower() not in words:
        raise ConfigError(f"{where}: {text!r} is neither true nor false")
    return words[text.strip().lower()]


def _text(text: str, where: str) -> str:
    return text


def _texts(text: str, where: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _words(text: str, where: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{where}: {text!r} is not valid shell: {error}") from None


def _concurrencies(parts: list[str], where: str) -> tuple[int, ...]:
    if not parts:
        raise ConfigError(f"{where}: no concurrency is named, such as 16 or 16,32")
    return tuple(sorted({_integer(part, where) for part in parts}))


def parse_concurrencies(text: str, where: str) -> tuple[int, ...]:
    """``1,16,32`` as sorted, distinct integers.

    Raises:
        ConfigError: something else.
    """
    return _concurrencies([part for part in text.split(",") if part.strip()], where)


_READERS: dict[str, Callable[[str, str], Any]] = {
    "study": _text,
    "objective": _text,
    "engine": _text,
    "scenario": _text,
    "space": _text,
    "workload": _text,
    "trials": _integer,
    "time_s": parse_duration,
    "gpu_hours": _number,
    "latency_concurrency": _integer,
    "serving_concurrency": parse_concurrencies,
    "slo": _texts,
    "storage": _text,
    "seed": _integer,
    "ready_timeout_s": parse_duration,
    "stall_timeout_s": parse_duration,
    "trial_timeout_s": parse_duration,
    "sampler": _text,
    "target_gain": _number,
    "patience": _integer,
    "warm_start": _text,
    "exhaust": _switch,
    "widen": _switch,
    "prune": _switch,
    "without_off": _switch,
    "confirm": _integer,
    "finalists": _integer,
    "allow_simulated_acceptance": _switch,
    "runs_on": _text,
    "command": _words,
}
_LISTS = ("serving_concurrency", "slo", "command")


def _replaced(config: RunConfig, **changes: Any) -> RunConfig:  # noqa: ANN401
    return RunConfig(**(asdict(config) | changes))
