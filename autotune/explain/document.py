"""What an explanation is made of: findings, each a sentence or two and the figures behind it."""

from __future__ import annotations

from typing import Literal

import msgspec

from autotune.core.trial import FlagValue, Interval

SCHEMA = 1

Source = Literal["measured", "server", "model"]
"""``measured`` by the client; told by the ``server`` at its start; from the search's ``model``."""


class Figure(msgspec.Struct, frozen=True):
    """One number of an explanation.

    Attributes:
        value: in ``unit``.
        unit: ``s``, ``tok/s``, ``tokens``, ``requests``, ``GB``, ``%``, or empty: a plain ratio.
        source: where it comes from.
        low: lower end of its 95 % interval; null where none is known.
        high: upper end of its 95 % interval; null where none is known.
    """

    value: float
    unit: str
    source: Source
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, interval: Interval, unit: str, source: Source = "measured") -> Figure:
        return cls(interval.value, unit, source, interval.low, interval.high)


class Finding(msgspec.Struct, frozen=True):
    """One thing that was found out.

    Attributes:
        code: stable name: ``choice``, ``failure``, ``constraint``, ``at_one``, ``under_load``,
            ``memory``, ``one_more_step``, ``next_best``, ``acceptance``, ``holds_for``, ``off``,
            ``left`` or ``nothing``.
        title: a word or two for people.
        text: in sentences; each number is followed by its source.
        figures: the numbers of the text by name.
        verdict: the finding in one stable word, such as ``running_limit``, ``tie`` or ``inflated``.
    """

    code: str
    title: str
    text: str
    figures: dict[str, Figure] = msgspec.field(default_factory=dict)
    verdict: str = ""


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why one trial of a study is as good as it is, schema version 1.

    Attributes:
        schema: version of this document.
        study: name of the study.
        objective: name of the objective.
        simulated: every number comes from the simulated server.
        trial: the explained trial; null where the study holds none to explain.
        flags: its searched flags.
        is_best: the study recommends it.
        findings: in the order in which they are told.
    """

    schema: int = SCHEMA
    study: str
    objective: str
    simulated: bool
    trial: int | None
    flags: dict[str, FlagValue]
    is_best: bool
    findings: list[Finding]
