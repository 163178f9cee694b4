"""The file of ``--speculative-adaptive-config``: what each release takes, and how it is written.

Source: speculative/adaptive_spec_params.py @0.5.11 to 0.5.23; every version in between was read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autotune.core.adaptive import OFF, Tier
from autotune.core.trial import FlagValue
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.versions import ADAPTIVE_FILES, Version, in_force, why_missing
from autotune.space.rules import DRAFT, STEPS, TOPK, chain_draft_tokens
from autotune.space.server_rules import ADAPTIVE, ADAPTIVE_FILE, ALGORITHM

ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN")
"""NEXTN is EAGLE by another name."""
_NO_OVERLAP = "disable_overlap_schedule"
_EXCLUDED = {
    "enable_dp_attention": "attention data parallelism",
    "enable_multi_layer_eagle": "multi-layer EAGLE",
    "enable_two_batch_overlap": "two-batch overlap",
    "enable_pdmux": "PD multiplexing",
}
"""Switches with which SGLang warns, and goes on with fixed steps."""


def takes_off(version: Version | None) -> bool:
    """Whether the file may switch speculation off (0 steps)."""
    return in_force(ADAPTIVE_FILES, version).value == "table with off"


def has_table(version: Version | None) -> bool:
    """Whether the file has steps by batch size; before 0.5.13 it is one list for all."""
    return in_force(ADAPTIVE_FILES, version).value.startswith("table")


def why_not(command: LaunchCommand) -> str | None:
    """In one sentence, why the server of a command cannot adapt its steps; None where it can.

    SGLang itself only warns, and goes on with fixed steps.
    """
    missing = why_missing(ADAPTIVE, command.version)
    if missing is not None:
        return missing
    form = in_force(ADAPTIVE_FILES, command.version)
    given = command.readable((ALGORITHM, _NO_OVERLAP, *_EXCLUDED))
    algorithm = str(given.get(ALGORITHM, "")).upper()
    if algorithm not in ALGORITHMS:
        return f"SGLang adapts the steps of {' and '.join(ALGORITHMS[:2])} only, not of {algorithm}"
    if form.value == "list, no overlap" and _NO_OVERLAP not in given:
        return (
            "SGLang 0.5.11 adapts only under --disable-overlap-schedule, which the command lacks "
            "and which changes what was measured"
        )
    for name, title in _EXCLUDED.items():
        if given.get(name):
            return f"SGLang does not adapt under {title} (--{name.replace('_', '-')})"
    return None


def file_for(tiers: Sequence[Tier], version: Version | None) -> dict[str, Any]:
    """What the file holds for a release; ``tiers`` have two step counts or more.

    With one candidate for each batch size the server takes it as it is: nothing is left to chance
    at run time. Where the file is one list, acceptance alone chooses among all of them.

    Raises:
        ValueError: this release cannot switch speculation off, and a tier says so.
    """
    if any(tier.steps == OFF for tier in tiers) and not takes_off(version):
        raise ValueError(f"SGLang {version} takes no 0 among the steps")
    if not has_table(version):
        return {"candidate_steps": sorted({tier.steps for tier in tiers})}
    return {str(tier.batch): {"candidate_steps": [tier.steps]} for tier in tiers}


def file_text(tiers: Sequence[Tier], version: Version | None) -> str:
    """The file itself: one tier a line."""
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in file_for(tiers, version).items()]
    return "{\n  " + ",\n  ".join(lines) + "\n}\n"


def flags_for(tiers: Sequence[Tier], path: str) -> dict[str, FlagValue]:
    """The flags that go with the file.

    The server starts with the fewest steps: those have CUDA graphs for all batch sizes, the others
    for their own only.
    """
    first = min(tier.steps for tier in tiers if tier.steps != OFF)
    return {
        STEPS: first,
        TOPK: 1,
        DRAFT: chain_draft_tokens(first),
        ADAPTIVE: True,
        ADAPTIVE_FILE: path,
    }


def candidates_of(document: object) -> Mapping[int, Mapping[str, Any]]:
    """Batch sizes of a table and the entry of each, with the settings that stand for all.

    Raises:
        ValueError: in SGLang's words, as 0.5.23 refuses the file.
    """
    if not isinstance(document, dict):
        raise ValueError(f"'{type(document).__name__}' object has no attribute 'items'")
    entries: dict[int, Mapping[str, Any]] = {}
    for key, entry in document.items():
        if not key.isdigit():
            continue
        steps = entry.get("candidate_steps") if isinstance(entry, dict) else None
        if (
            not steps
            or not isinstance(steps, list)
            or not all(isinstance(s, int) and s >= 0 for s in steps)
        ):
            raise ValueError(
                f"BS {key}: candidate_steps must be a list of non-negative ints, got {steps!r}"
            )
        entries[int(key)] = {**document, **entry}
    if not entries:
        raise ValueError(
            "speculative_adaptive_config must contain at least one integer-string BS key, e.g. "
            f'{{"1": {{"candidate_steps": [1,3,7]}}}}. Got keys: {list(document)}'
        )
    return dict(sorted(entries.items()))
