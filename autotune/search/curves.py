"""What the models of a study say of flags that were not launched, for pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.core.trial import Flags, FlagValue, Interval
from autotune.search.knowledge import Knowledge
from autotune.space.rules import DRAFT, STEPS, TOPK

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curves:
    """Of chains (topk 1) at one memory fraction, one entry for each step count.

    Attributes:
        accept_length: tokens per verify pass with its 95 % band; empty: the model knows none.
        running_limit: requests that run at once; empty: the model knows none.
    """

    steps: tuple[int, ...]
    accept_length: tuple[Interval, ...]
    running_limit: tuple[Interval, ...]


def chain_curves(known: Knowledge | None, steps: Sequence[int], like: Flags) -> Curves:
    """What is believed of them; both empty where nothing with a tree was measured.

    Args:
        like: a configuration whose other flags the chains have.
    """
    if known is None or not known.surrogate.is_physical or not steps:
        return Curves(tuple(steps), (), ())
    surrogate = known.surrogate
    chains = [{**like, STEPS: n, TOPK: 1, DRAFT: n + 1} for n in steps]
    limits = surrogate.room(chains).running_limit
    bounded = bool(np.isfinite(limits).all())
    accept = np.exp(surrogate.costs(chains).log_accept)
    return Curves(tuple(steps), _bands(accept), _bands(limits) if bounded else ())


@dataclass(frozen=True, slots=True)
class Effect:
    """One flag moved alone.

    Attributes:
        values: that it may take while the other flags stay, or follow where a rule ties them.
        change: of the score against where it was moved from, one for each value, 95 % band.
        survival: probability that such a launch lives.
    """

    flag: str
    values: tuple[FlagValue, ...]
    change: tuple[Interval, ...]
    survival: tuple[float, ...]

    @property
    def variance(self) -> float:
        """Of the change over the values, each weighted by its survival."""
        weights = np.maximum(np.array(self.survival), 1e-9)
        means = np.array([change.value for change in self.change])
        centre = np.average(means, weights=weights)
        return float(np.average((means - centre) ** 2, weights=weights))


def effects(known: Knowledge | None, around: Flags) -> list[Effect]:
    """Each searched flag moved alone from ``around``; empty where nothing was measured."""
    if known is None:
        return []
    space = known.space
    around = {name: around[name] for name in space.names if name in around}
    if any(name not in around for name in space.parameters):
        return []
    found = []
    for flag, parameter in space.parameters.items():
        asked = (space.nearest_legal({**around, flag: v}) for v in _some(parameter.values()))
        moved = {flags[flag]: flags for flags in asked if flag in flags}
        if len(moved) > 1:
            found.append(_effect(known, flag, moved, around))
    return found


_MOST_VALUES = 40


def _some(values: Sequence[FlagValue]) -> list[FlagValue]:
    """All of a few, some of many."""
    step = max(1, -(-len(values) // _MOST_VALUES))
    return list(values)[::step]


def _effect(known: Knowledge, flag: str, moved: Mapping[FlagValue, Flags], around: Flags) -> Effect:
    configurations = [around, *moved.values()]
    features = known.catalogue.encoder.features(configurations)
    predictions = known.surrogate.predict(configurations, features)
    scores = predictions.score(known.weight)
    scores = scores + known.surrogate.score_deviations(features, known.weight)
    change = scores[:, 1:] - scores[:, :1]
    survival = tuple(float(p) for p in predictions.survival[1:])
    return Effect(flag, tuple(moved), _bands(change), survival)


def _bands(draws: Array) -> tuple[Interval, ...]:
    low, middle, high = np.percentile(draws, (2.5, 50, 97.5), axis=0)
    return tuple(
        Interval(float(m), float(a), float(b)) for a, m, b in zip(low, middle, high, strict=True)
    )
