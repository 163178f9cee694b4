"""Puts a search space on a real server: what its release and its own flags leave of it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.flags import check_has
from autotune.engine.sglang.versions import (
    ADAPTIVE_STEPS,
    ALGORITHMS,
    CHAIN_BACKENDS,
    DRAFT_IN_POOL,
    NEWEST,
    OVERLAP,
    PAGE_SIZES,
    PAGE_TREES,
    RUNNING_LIMIT,
    in_force,
)
from autotune.space import SearchSpace
from autotune.space.rules import MEMORY
from autotune.space.server_rules import ALGORITHM, RULE_FLAGS, Fact, ServerRules

RUNNING = "max_running_requests"
_SPEC_V2 = "SGLANG_ENABLE_SPEC_V2"
_OFF = ("", "0", "false", "no", "n", "off")


def space_on(space: SearchSpace, command: LaunchCommand) -> SearchSpace:
    """The space without what the server of this command refuses.

    Raises:
        UsageError: the release of SGLang lacks a flag of the space.
        SpaceError: nothing of the space is left.
    """
    for name in space.names:
        if space.fixed.get(name) is not False:
            check_has(name, command.version)
    return space.on(server_rules(command))


def server_rules(
    command: LaunchCommand, environment: Mapping[str, str] | None = None
) -> ServerRules:
    """The facts that hold for the command's release and its own flags.

    Args:
        environment: of the server, beside what the command sets; None: the tuner's own.
    """
    at = command.version
    algorithms, adaptive = in_force(ALGORITHMS, at), in_force(ADAPTIVE_STEPS, at)
    page_trees, page_sizes = in_force(PAGE_TREES, at), in_force(PAGE_SIZES, at)
    overlap = in_force(OVERLAP, at)
    refuses = overlap.value == "asked, chain" and _asks_overlap(command, environment)
    return ServerRules(
        release=str(at or NEWEST),
        flags=command.readable(RULE_FLAGS),
        algorithms=Fact(algorithms.value or None, algorithms.source),
        page_trees=Fact(page_trees.value, page_trees.source),
        chain_backends=in_force(CHAIN_BACKENDS, at).value,
        page_sizes=page_sizes.value,
        page_source=page_sizes.source,
        adaptive_steps=Fact(adaptive.value or None, adaptive.source),
        overlap_refuses_trees=overlap.source if refuses else "",
    )


def notes(space: SearchSpace, command: LaunchCommand) -> tuple[str, ...]:
    """What is no reason against a launch but changes what its numbers mean."""
    at, found = command.version, []
    overlap = in_force(OVERLAP, at)
    topks = space.tree.topks if space.tree else ()
    if overlap.value == "chain" and 1 in topks and max(topks) > 1:
        found.append(
            "with topk above 1 this release also switches the overlap scheduler off, so a tree is "
            f"compared with a chain under another scheduler ({overlap.source})"
        )
    given = command.readable((ALGORITHM, RUNNING))
    limit = in_force(RUNNING_LIMIT, at)
    if ALGORITHM in given and RUNNING not in {**given, **space.parameters, **space.fixed}:
        found.append(
            f"no {RUNNING} is given: under speculation SGLang runs {limit.value} requests at most, "
            f"and what is above that waits ({limit.source})"
        )
    pool = in_force(DRAFT_IN_POOL, at)
    if MEMORY in space.parameters and at is not None and not pool.value:
        found.append(
            f"{MEMORY} covers the draft model from SGLang 0.5.14 on, and not on {at}: a fraction "
            f"found here holds up to 0.5.13 only ({pool.source})"
        )
    return tuple(found)


def _asks_overlap(command: LaunchCommand, environment: Mapping[str, str] | None) -> bool:
    known = os.environ if environment is None else environment
    value = command.variable(_SPEC_V2)
    return (known.get(_SPEC_V2, "") if value is None else value).strip().lower() not in _OFF
