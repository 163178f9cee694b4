"""Speculation off: launched once beside the search, to know whether speculating pays at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from autotune.core.trial import Flags, TrialRecord
from autotune.engine.sglang.command import LaunchCommand
from autotune.errors import UsageError
from autotune.space import SearchSpace
from autotune.space.server_rules import ALGORITHM
from autotune.study.budget import settled

MIN_TRIALS = 4
"""A shorter study needs its launches for the search."""
_PREFIX = "speculative_"


@dataclass(frozen=True, slots=True)
class Reference:
    """The base command without its speculative flags.

    Attributes:
        flags: the searched flags that stay, as the baseline has them.
        removed: names of the flags that go.
    """

    flags: Flags
    removed: tuple[str, ...]

    @property
    def launched(self) -> Flags:
        """What an engine is asked for."""
        return {**self.flags, **dict.fromkeys(self.removed, False)}


def reference_for(command: LaunchCommand, space: SearchSpace, baseline: Flags) -> Reference | None:
    """The reference of a search; None where speculation is not searched or cannot be taken out."""
    searches = any(name.startswith(_PREFIX) for name in space.parameters)
    if not searches or not command.shows_flags:
        return None
    with suppress(UsageError):  # what stands in a file cannot be taken back
        if ALGORITHM in command.flags((ALGORITHM,)):
            removed = command.speculation()
            command.without(removed)
            return Reference(without_speculation(baseline), removed)
    return None


def is_measured(records: Sequence[TrialRecord]) -> bool:
    """Whether the reference was launched, well or badly; a launch that was cut off is none."""
    return any(record.role == "reference" for record in settled(records))


def without_speculation(flags: Flags) -> Flags:
    """The flags that say nothing of speculation."""
    return {name: value for name, value in flags.items() if not name.startswith(_PREFIX)}
