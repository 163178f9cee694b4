"""The engine of the simulated server: the same supervision, and a clock of its own."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.core.trial import Flags, FlagValue
from autotune.engine.local import LocalEngine
from autotune.engine.places.base import Berth
from autotune.engine.places.here import LocalPlace
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.environment import FAKES_ACCEPTANCE
from autotune.engine.simulated.arguments import DEFAULT_SPEED
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO, Scenario, scenario_named
from autotune.space.server_rules import ALGORITHM

_MODULE = "autotune.engine.simulated"
_STARTUP = re.compile(r"simulated: start-up took ([0-9.]+) s")
_MACHINE = ("gpu", "n_gpus", "gpu_memory_gb")


def bundled_command(scenario: str) -> LaunchCommand:
    """The launch command of a scenario: its own flags are the baseline.

    Raises:
        ConfigError: no scenario has this name.
    """
    known = scenario_named(scenario)
    flags = [word for pair in known.base_flags for word in pair]
    return LaunchCommand.parse(
        [
            *(sys.executable, "-m", _MODULE, "--scenario", scenario),
            *("--model-path", known.model_path, "--tp", str(known.machine.n_gpus)),
            *("--speculative-algorithm", "EAGLE", *flags),
        ]
    )


def simulated_command(command: LaunchCommand, scenario: str) -> LaunchCommand:
    """The user's own launch command, run on the simulated server instead: a rehearsal.

    The server's own words are kept, wherever they stand: behind wrappers, in a container, in the
    string of a shell, in the file of ``--config``. What a script hides is taken from the scenario.

    Raises:
        ConfigError: no scenario has this name.
        UsageError: the file of ``--config`` cannot be read.
    """
    if runs_simulation(command):
        return command
    known = scenario_named(scenario)
    program = [sys.executable, "-m", _MODULE, "--scenario", scenario]
    faked = command.variable(FAKES_ACCEPTANCE)
    if faked is not None:
        program = ["env", f"{FAKES_ACCEPTANCE}={faked}", *program]
    rehearsed = LaunchCommand.parse([*program, *command.server_words()])
    if command.shows_flags:
        return rehearsed
    return rehearsed.with_flags(_missing(rehearsed, known))


def _missing(command: LaunchCommand, scenario: Scenario) -> dict[str, FlagValue]:
    """What the simulated server cannot do without, as the scenario has it."""
    usual: dict[str, FlagValue] = {
        "model_path": scenario.model_path,
        ALGORITHM: "EAGLE",
    }
    given = command.flags(usual)
    return {name: value for name, value in usual.items() if name not in given}


def runs_simulation(command: LaunchCommand) -> bool:
    """Whether a launch command starts the simulated server."""
    return _MODULE in command.argv


def scenario_of(command: LaunchCommand) -> str:
    """The scenario that a simulated launch command names, or the default one."""
    found = command.flags(("scenario",)).get("scenario")
    return found if isinstance(found, str) else DEFAULT_SCENARIO


class SimulatedEngine(LocalEngine):
    """Starts simulated servers. Its seconds are simulated seconds.

    Args:
        command: from ``bundled_command`` or ``simulated_command``.
        seed: of the study; each trial has noise of its own, the same in every run.
        ready_timeout_s: wall seconds a server may take to become ready.
    """

    name = "simulated"

    def __init__(self, command: LaunchCommand, *, seed: int, ready_timeout_s: float) -> None:
        super().__init__(command, ready_timeout_s=ready_timeout_s, place=LocalPlace())
        self._seed = seed

    def command_for(self, flags: Flags, *, pinned: bool = True) -> LaunchCommand:
        """No pins: the simulated server has one attention backend."""
        return super().command_for(flags, pinned=False)

    def watches_gpus(self) -> bool:
        return False

    def extra_words(self, number: int) -> Sequence[str]:
        return ("--simulation-seed", str(self._seed * 1009 + number))

    def server_seconds(self, wall_s: float, log: str) -> float:
        """What the start would have taken on hardware, as the server's log says."""
        told = _STARTUP.findall(log)
        return float(told[-1]) if told else wall_s

    def time_scale(self, info: Mapping[str, Any] | None) -> float:
        asked = self.command.flags(("speed",)).get("speed", DEFAULT_SPEED)
        return float(_simulation(info).get("speed", asked))

    def machine(self, info: Mapping[str, Any] | None, berth: Berth) -> dict[str, Any]:
        told = _simulation(info)
        return {key: told[key] for key in _MACHINE if key in told} | {"simulated": True}


def _simulation(info: Mapping[str, Any] | None) -> Mapping[str, Any]:
    told = (info or {}).get("simulation")
    return told if isinstance(told, Mapping) else {}
