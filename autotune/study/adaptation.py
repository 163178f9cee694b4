"""Launches with steps that follow the batch, kept in the study's storage for whoever reads it.

They are no part of the search: no model learns from them, and they stand in no ranking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from autotune.core.adaptive import OFF, Tier
from autotune.core.trial import TrialRecord

MARK = "adaptive"
"""Name of the user attribute of an adaptive launch's trial."""


class AdaptivePlan(msgspec.Struct, frozen=True):
    """What an adaptive launch is about.

    Attributes:
        static: the trial with the fixed flags that it stands against.
        tiers: steps by batch size.
    """

    static: int
    tiers: tuple[Tier, ...]


@dataclass(frozen=True, slots=True)
class AdaptiveLaunch:
    """One launch with steps that follow the batch."""

    plan: AdaptivePlan
    record: TrialRecord


def in_words(tiers: Sequence[Tier]) -> str:
    """``4 steps · from 9 requests in the batch on: 2 steps``."""
    first, *others = tiers
    more = (f"from {tier.batch} requests in the batch on: {steps(tier.steps)}" for tier in others)
    return " · ".join([steps(first.steps), *more])


def steps(count: int) -> str:
    """``off``, ``1 step``, ``3 steps``."""
    return "off" if count == OFF else f"{count} step{'' if count == 1 else 's'}"
