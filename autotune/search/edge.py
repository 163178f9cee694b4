"""A recommended value that is the last one searched: whether more lies beyond.

A range is somebody's guess. Where the best configuration stands at its end, the model that was
learned inside is asked what it expects outside. Draft steps go on for as long as it expects more;
for the other flags it is only said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
from optuna.study import Study

from autotune.core.objective import Objective
from autotune.core.ranking import flag_key
from autotune.core.trial import Flags, FlagValue
from autotune.search.knowledge import Knowledge
from autotune.search.observation import observations
from autotune.search.prospects import MIN_CONFIGURATIONS
from autotune.search.recommend import TIE
from autotune.search.warm import earlier_knowledge
from autotune.space import SearchSpace
from autotune.space.parameter import DecimalRange, IntegerRange
from autotune.space.rules import DRAFT, LIMITS, MEMORY, SHORT_NAMES, STEPS, TOPK, TREE_FLAGS

MAX_STEPS = 16
"""Draft steps beyond which nobody has published a gain; the search does not go there by itself."""
ATTRIBUTE = "widened"
"""Name of the Optuna study's user attribute: flag to the lowest and highest value of its range."""

Ranges = dict[str, tuple[float, float]]
_LIVES = 0.5
_LESS_MEMORY = 0.03
_A_LITTLE = 1e-9
_DEAD = -10.0


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """The recommended value of a flag is the last one of its range.

    Attributes:
        side: the end of the range.
        beyond: where the model expects most outside; None: no server runs anything there.
        gain_frac: expected of the best configuration with that value over the recommended one,
            both by the model; below 0 it is worse. Each way in which the unknowns may stand has a
            best configuration of its own, which further launches would find.
    """

    flag: str
    value: float
    side: Literal["most", "least"]
    beyond: float | None
    gain_frac: float

    @property
    def expects_more(self) -> bool:
        """Whether the model expects more beyond, and more than a tie."""
        return self.beyond is not None and self.gain_frac > TIE

    def text(self) -> str:
        """One sentence without its end."""
        name = SHORT_NAMES.get(self.flag, self.flag)
        name = {DRAFT: "draft tokens", MEMORY: "memory fraction"}.get(self.flag, name)
        is_was = "is the {} that was" if self.flag == MEMORY else "are the {} that were"
        told = f"the best {name}, {self.value:g}, {is_was.format(self.side)} searched"
        if self.beyond is None:
            return f"{told}; the server runs nothing beyond"
        if self.expects_more:
            return f"{told}; the model expects {100 * self.gain_frac:.1f} % more at {self.beyond:g}"
        return f"{told}; the model expects nothing more beyond"


@dataclass(frozen=True, slots=True)
class Widening:
    """A longer range to search.

    Attributes:
        ranges: of all flags that change, for ``SearchSpace.reaching``.
        text: what and why, in one sentence without its end.
    """

    ranges: Ranges
    text: str


def edges(
    study: Study, space: SearchSpace, objective: Objective, flags: Flags, *, seed: int = 0
) -> tuple[Edge, ...]:
    """The flags of a recommended configuration that stand at an end of their range, steps first.

    Ends that SGLang itself sets (one step, two draft tokens) are none. Before three configurations
    are measured the model knows too little to be asked.
    """
    ends = list(_ends(space, flags))
    if not ends:
        return ()
    seen, earlier = observations(study, space), earlier_knowledge(study, space)
    if len({flag_key(o.flags) for o in seen if o.outcome == "measured"}) < MIN_CONFIGURATIONS:
        return ()
    known = Knowledge(space, objective, seen, [seed, len(seen)], earlier)
    found = (_beyond(known, flags, flag, side) for flag, side in ends)
    return tuple(edge for edge in found if edge is not None)


def widening(space: SearchSpace, found: tuple[Edge, ...]) -> Widening | None:
    """How to go on beyond an edge; None: the model expects too little there.

    Only draft steps go on, up to ``MAX_STEPS``: one more than the model likes best, so that its
    best guess is no edge again.
    """
    edge = next((e for e in found if e.flag == STEPS and e.expects_more), None)
    parameter = space.parameters.get(STEPS)
    if edge is None or edge.beyond is None or not isinstance(parameter, IntegerRange):
        return None
    low, high = (
        (parameter.low, min(MAX_STEPS, int(edge.beyond) + parameter.step))
        if edge.side == "most"
        else (max(int(LIMITS[STEPS][0]), int(edge.beyond) - parameter.step), parameter.high)
    )
    ranges = _with_room(space, low, high)
    after = space.reaching(ranges).parameters[STEPS]
    return Widening(
        ranges,
        f"steps widened to {after.describe()}: the model expects {100 * edge.gain_frac:.1f} % more "
        f"at {edge.beyond:g} than at {edge.value:g}",
    )


def kept_ranges(study: Study) -> Ranges:
    """The ranges that the study was widened to; whatever else stands there is passed over."""
    try:
        return msgspec.convert(study.user_attrs.get(ATTRIBUTE, {}), Ranges)
    except msgspec.ValidationError:
        return {}


def keep_ranges(study: Study, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Keeps them with the study, beside those that it has."""
    kept = {**kept_ranges(study), **ranges}
    study.set_user_attr(ATTRIBUTE, {flag: list(ends) for flag, ends in kept.items()})


# ---- where an end is -------------------------------------------------------------------------


def _ends(space: SearchSpace, flags: Flags) -> list[tuple[str, Literal["most", "least"]]]:
    """Flags at an end of their range that could go on."""
    found: list[tuple[str, Literal["most", "least"]]] = []
    for flag in (STEPS, DRAFT, MEMORY):
        parameter, value = space.parameters.get(flag), flags.get(flag)
        if not isinstance(parameter, IntegerRange | DecimalRange) or isinstance(value, str | None):
            continue
        if flag == DRAFT and flags.get(TOPK) == 1:
            continue  # it follows from the steps
        low, high = _searched(space, flag, flags)
        limits = _farthest(flag, parameter)
        if value >= high and limits[1] >= high + parameter.step:
            found.append((flag, "most"))
        elif value <= low and limits[0] <= low - parameter.step:
            found.append((flag, "least"))
    return found


def _searched(space: SearchSpace, flag: str, flags: Flags) -> tuple[float, float]:
    """Lowest and highest value: of steps, only those whose tree the draft tokens leave room for."""
    parameter, topk = space.parameters[flag], flags.get(TOPK)
    values = [v for v in parameter.values() if isinstance(v, int | float)]
    if flag == STEPS and space.tree is not None and isinstance(topk, int):
        values = list(space.tree.steps_for(topk)) or values
    return min(values), max(values)


def _farthest(flag: str, parameter: IntegerRange | DecimalRange) -> tuple[float, float]:
    """How far out the model is asked."""
    low, high = LIMITS[flag]
    if flag == STEPS:
        return low, max(MAX_STEPS, parameter.high)
    if flag == DRAFT:
        return low, min(high, 2 * parameter.high)
    return max(low, parameter.low - 0.1), min(high, parameter.high + 0.04)


def _with_room(space: SearchSpace, low: float, high: float) -> Ranges:
    """The steps, and as many draft tokens as a chain of them takes where those are a range too."""
    ranges: Ranges = {STEPS: (low, high)}
    draft = space.parameters.get(DRAFT)
    if isinstance(draft, IntegerRange) and not draft.low <= low + 1 <= high + 1 <= draft.high:
        ranges[DRAFT] = (min(draft.low, low + 1), max(draft.high, high + 1))
    return ranges


# ---- what lies beyond ------------------------------------------------------------------------


def _beyond(
    known: Knowledge, flags: Flags, flag: str, side: Literal["most", "least"]
) -> Edge | None:
    """The best beyond one end; None where the recommended configuration was not measured."""
    space, at = known.space, float(flags[flag])
    parameter = space.parameters[flag]
    assert isinstance(parameter, IntegerRange | DecimalRange)
    kept, held = known.in_hand
    keys = [flag_key(o.flags) for o in kept]
    if flag_key(flags) not in keys:
        return None
    own = held.score(known.weight)[:, keys.index(flag_key(flags))]
    far = _farthest(flag, parameter)
    wide = space.reaching(_with_room(space, *far) if flag == STEPS else {flag: far})
    sign = 1.0 if side == "most" else -1.0
    outside = [
        moved
        for moved in _moved(wide, flags, flag)
        if sign * (float(moved[flag]) - at) > _A_LITTLE and wide.contains(moved)
    ]
    if not outside:
        return Edge(flag=flag, value=at, side=side, beyond=None, gain_frac=0.0)
    predictions = known.surrogate.predict(outside, known.catalogue.encoder.features(outside))
    more = predictions.score(known.weight) - own[:, None]
    more = np.where(predictions.survival >= _LIVES, more, _DEAD)
    values = np.array([float(moved[flag]) for moved in outside])
    expected = {v: more[:, values == v].max(axis=1).mean() for v in np.unique(values).tolist()}
    best = max(expected, key=lambda value: (expected[value], -abs(value - at)))
    return Edge(
        flag=flag, value=at, side=side, beyond=best, gain_frac=float(np.expm1(expected[best]))
    )  # fmt: skip


def _moved(wide: SearchSpace, flags: Flags, flag: str) -> Iterator[dict[str, FlagValue]]:
    """The recommended configuration with other trees, or with other values of the flag alone.

    A larger tree may need some of the memory: each is asked at a little less of it as well.
    """
    if flag not in TREE_FLAGS or wide.tree is None:
        yield from ({**flags, flag: value} for value in wide.parameters[flag].values())
        return
    fractions: list[dict[str, FlagValue]] = [{}]
    own, parameter = flags.get(MEMORY), wide.parameters.get(MEMORY)
    if parameter is not None and isinstance(own, float):
        fractions.append({MEMORY: parameter.nearest(own - _LESS_MEMORY)})
    for triple in wide.tree.triples():
        for fraction in fractions:
            yield {**flags, **dict(zip(TREE_FLAGS, triple, strict=True)), **fraction}
