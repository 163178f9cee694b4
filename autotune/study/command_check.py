"""Whether a launch command can be tuned at all: asked before the first launch."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.environment import FAKES_ACCEPTANCE, fake_to_come
from autotune.errors import ConfigError, LaunchError, UsageError
from autotune.space import SearchSpace
from autotune.space.rules import DRAFT, TOPK, TREE_FLAGS
from autotune.space.server_rules import ADAPTIVE, ALGORITHM, TREE_ALGORITHMS


def check_speculates(space: SearchSpace, command: LaunchCommand) -> None:
    """Refuses a search that could not change anything.

    SGLang reads no speculative flag without ``--speculative-algorithm``. Where the command hides
    its flags (a wrapper script, a ``--config`` inside a container) nothing is known or said.

    Raises:
        ConfigError: speculative flags are searched, and the command does not speculate.
    """
    searched = [name for name in space.parameters if name.startswith("speculative_")]
    if not searched or not command.shows_flags or "speculative_algorithm" in space.names:
        return
    hides = "--config" in command.argv and command.config_file is None
    if not hides and not command.flags(("speculative_algorithm",)):
        raise ConfigError(
            f"the launch command has no --speculative-algorithm, and without it SGLang ignores "
            f"{searched[0]}",
            hint="add it, with a draft model where the algorithm needs one: "
            "--speculative-algorithm EAGLE",
        )


def check_accepts_really(command: LaunchCommand) -> None:
    """Refuses a server that fakes its accept length: what it measures is not the model's.

    Raises:
        ConfigError: SGLang's variable for it is set, in the environment or in the command.
    """
    value = fake_to_come(command.variable(FAKES_ACCEPTANCE), os.environ)
    if value is not None:
        raise ConfigError(
            f"{FAKES_ACCEPTANCE}={value} makes the server fake its accept length, and no result "
            "would hold",
            hint="unset it, or say --allow-simulated-acceptance where that is what you want",
        )


def check_tree(command: LaunchCommand) -> None:
    """Refuses a baseline that SGLang would refuse: steps, topk and draft tokens go together.

    Raises:
        UsageError: the command gives some of the three only.
    """
    known = command.flags((ALGORITHM, *TREE_FLAGS))
    algorithm = str(known.pop(ALGORITHM, "")).upper()
    missing = [name for name in TREE_FLAGS if name not in known]
    repaired = missing == [DRAFT] and known.get(TOPK) == 1
    if algorithm in TREE_ALGORITHMS and known and missing and not repaired:
        if ADAPTIVE in command.flags((ADAPTIVE,)):
            return  # it completes them by itself
        given = next(iter(known))
        raise UsageError(
            f"the launch command gives {given} without {missing[0]}: SGLang takes all three of "
            "steps, topk and draft tokens, or none",
            hint="complete them, or leave all of them out",
        )


def check_runs(command: LaunchCommand) -> None:
    """Refuses a program that is not there.

    Raises:
        LaunchError: it does not exist, or is not executable.
    """
    program = command.argv[0]
    if shutil.which(program) is None:
        exists = Path(program).exists()
        raise LaunchError(
            f"the launch command {program!r} {'is not executable' if exists else 'does not exist'}",
            hint="check the words after --; is SGLang installed in this environment?",
        )
