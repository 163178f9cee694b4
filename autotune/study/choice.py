"""What a study recommends at this moment, kept in its storage for whoever reads it.

Readers need no model for it. It holds for the launches and the weight it was made from, and for
nothing else: a study that has grown since, or is seen under another weight, has none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from autotune.core.objective import Objective
from autotune.core.trial import TrialRecord
from autotune.search.edge import Edge
from autotune.study.budget import settled

ATTRIBUTE = "recommendation"
"""Name of the Optuna study's user attribute."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration to deploy by the posterior of the model, not by the luckiest launch.

    Attributes:
        trial: its first launch that carries values; None: no member of the space is best.
        latency_weight: of the objective it is best for.
        n_launches: settled launches of the study it rests on.
        n_unchanged: of those, the last ones that did not change it.
        why: the state of the search in words.
        stop: whether the model expects too little of another launch.
        edges: its flags that stand at the end of what was searched, and what lies beyond.
    """

    trial: int | None
    latency_weight: float
    n_launches: int
    n_unchanged: int
    why: str
    stop: bool
    edges: tuple[Edge, ...] = ()

    def holds_for(self, records: Sequence[TrialRecord], objective: Objective) -> bool:
        """Whether it was made from these records, for this objective."""
        same_weight = self.latency_weight == objective.latency_weight
        return same_weight and self.n_launches == len(settled(records))


def choice_from(raw: object) -> Choice | None:
    """The choice in a user attribute; None where it is none that this version reads."""
    try:
        return msgspec.convert(raw, Choice)
    except msgspec.ValidationError:
        return None
