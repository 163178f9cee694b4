"""Launches that ask for different flags and get the same server.

SGLang changes some flags by itself: a topk that the backend cannot run becomes 1, draft tokens
follow the steps, a fraction is clamped. What such a launch would measure is known already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autotune.core.ranking import flag_key
from autotune.core.trial import Flags, TrialRecord
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from autotune.space.server_rules import BACKENDS, PAGE

PINNED = (STEPS, TOPK, DRAFT, MEMORY, PAGE, *BACKENDS)
"""Flags that must run as asked, or two trials do not compare what they seem to compare."""

_SAME = {"nsa": "dsa"}
"""Two names of one backend (0.5.13 on)."""
_ONE_POOL_FRAC = 0.02
"""Two launches of the same flags find a little more or less free memory for their KV pool."""


def changes(asked: Flags, effective: Mapping[str, object]) -> dict[str, object]:
    """What runs in place of what was asked for, by flag; a flag that nobody tells is no change."""
    return {
        name: ran
        for name in PINNED
        if name in asked
        and (ran := effective.get(name)) is not None
        and _named(ran) != _named(asked[name])
    }


def twin_of(
    flags: Flags, effective: Mapping[str, Any], base: Flags, earlier: Iterable[TrialRecord]
) -> TrialRecord | None:
    """The first trial that asked for other flags and measured the same server; None: there is none.

    Args:
        flags: that this launch asks for.
        effective: settings that its server runs with.
        base: flags that the launch command itself gives in every trial.
        earlier: records of the same study.
    """
    now = _running(flags, effective, base)
    for record in earlier:
        if (
            record.objectives is not None
            and flag_key(record.flags) != flag_key(flags)
            and _running(record.flags, record.effective, base) == now
            and _same_limits(record.effective, effective)
        ):
            return record
    return None


def _running(flags: Flags, effective: Mapping[str, Any], base: Flags) -> dict[str, object]:
    """The configuration in force: what was asked for, replaced by what the server says it runs."""
    asked = {**base, **flags}
    return {
        name: _named(effective.get(name, asked.get(name)))
        for name in dict.fromkeys([*asked, *PINNED])
    }


def _same_limits(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether as many requests run at once, in a KV pool of one size; unknown on a side: yes."""
    running, tokens = "max_running_requests", "max_total_num_tokens"
    if all(running in side for side in (one, other)) and one[running] != other[running]:
        return False
    pools = [side[tokens] for side in (one, other) if isinstance(side.get(tokens), int | float)]
    return len(pools) < 2 or abs(pools[0] - pools[1]) <= _ONE_POOL_FRAC * max(pools)


def _named(value: object) -> object:
    return _SAME.get(str(value), value)
