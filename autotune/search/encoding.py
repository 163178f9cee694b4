"""Configurations as arrays: what the cost model and the Gaussian process read of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.core.ranking import FlagKey, flag_key
from autotune.core.trial import Flags, FlagValue
from autotune.search.acceptance import Triple
from autotune.search.observation import has_tree
from autotune.search.residual import Features
from autotune.space import SearchSpace
from autotune.space.parameter import DecimalRange, IntegerRange, Parameter
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK, TREE_FLAGS

Array = npt.NDArray[np.float64]

_LENGTHS = {STEPS: 2.0, TOPK: 1.5, DRAFT: 1.2, MEMORY: 0.5}
"""Length scales: steps; doublings of topk and of the draft; the fraction itself."""
_LOGARITHMIC = 16.0
"""Ranges whose ends differ by so much are read on a log scale."""
OFF: Triple = (0, 1, 1)


@dataclass(slots=True)
class Encoder:
    """Turns flags of one space into points, giving equal configurations equal numbers."""

    space: SearchSpace
    _numbers: dict[FlagKey, int] = field(default_factory=dict)

    @property
    def physical(self) -> tuple[str, ...]:
        """The flags of the tree and the fraction, as far as the space has them."""
        names = TREE_FLAGS if self.space.tree is not None else ()
        return (*names, *((MEMORY,) if MEMORY in self.space.parameters else ()))

    @property
    def others(self) -> tuple[str, ...]:
        """Searched flags without physics."""
        return tuple(name for name in self.space.parameters if name not in self.physical)

    def features(self, configurations: Sequence[Flags]) -> Features:
        """Points of the Gaussian process."""
        tree = [[_physical(name, flags) for name in self.physical] for flags in configurations]
        columns = [_Column.of(self.space.parameters[name]) for name in self.others]
        named = list(zip(self.others, columns, strict=True))
        other = [
            [column.place(flags.get(name)) for name, column in named] for flags in configurations
        ]
        kinds = [column.is_category for column in columns]
        own = [self._numbers.setdefault(flag_key(f), len(self._numbers)) for f in configurations]
        n = len(configurations)
        return Features(
            np.array(tree, dtype=np.float64).reshape(n, len(self.physical)),
            np.array(other, dtype=np.float64).reshape(n, len(self.others)),
            np.array(kinds, dtype=np.bool_),
            np.array(own, dtype=np.int64),
        )


@dataclass(frozen=True, slots=True)
class _Column:
    """Where the values of one flag without physics stand.

    Attributes:
        is_category: words and switches; numbers to choose from have an order.
    """

    parameter: Parameter
    is_category: bool
    places: Mapping[FlagValue, float]

    @classmethod
    def of(cls, parameter: Parameter) -> _Column:
        if isinstance(parameter, IntegerRange | DecimalRange):
            return cls(parameter, False, {v: _scaled(parameter, v) for v in parameter.values()})
        values = list(parameter.values())
        is_category = any(isinstance(value, bool | str) for value in values)
        last = 1 if is_category else max(1, len(values) - 1)
        return cls(parameter, is_category, {v: i / last for i, v in enumerate(values)})

    def place(self, value: FlagValue | None) -> float:
        """The index of a category; of a number its place between the ends, 0 and 1."""
        if value is not None and value in self.places:
            return self.places[value]
        if isinstance(self.parameter, IntegerRange | DecimalRange):
            return _scaled(self.parameter, value)
        return -1.0 if self.is_category else -1.0 / max(1, len(self.places) - 1)


def _scaled(parameter: IntegerRange | DecimalRange, value: FlagValue | None) -> float:
    low, high = float(parameter.low), float(parameter.high)
    number = float(value) if isinstance(value, int | float) else (low + high) / 2
    if low > 0 and number > 0 and high / low >= _LOGARITHMIC:
        return math.log(number / low) / math.log(high / low)
    return (number - low) / (high - low) if high > low else 0.0


def _physical(name: str, flags: Flags) -> float:
    value = flags.get(name)
    number = float(value) if isinstance(value, int | float) else (0.85 if name == MEMORY else 1.0)
    if name in (TOPK, DRAFT):
        number = math.log2(max(number, 1.0))
    return number / _LENGTHS[name]


def triple_of(flags: Flags) -> Triple:
    """(steps, topk, draft tokens); speculation off where the flags have no tree."""
    if not has_tree(flags):
        return OFF
    steps, topk, draft = int(flags[STEPS]), int(flags[TOPK]), int(flags[DRAFT])
    if steps < 1 or topk < 1:
        return OFF
    return min(steps, 64), min(topk, 64), max(draft, 1)


def fractions(configurations: Sequence[Flags], otherwise: float) -> Array:
    """Memory fractions, shape (n,)."""
    found = (flags.get(MEMORY, otherwise) for flags in configurations)
    return np.array([float(f) if isinstance(f, int | float) else otherwise for f in found])


ENUMERABLE = 60_000
_SAMPLED = 300
_PAIRS = 30
"""Of flags that are moved together, for each configuration whose neighbours are looked at."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Legal configurations to choose from.

    Attributes:
        complete: it holds the whole space.
    """

    configurations: tuple[Flags, ...]
    complete: bool

    @classmethod
    def whole(cls, space: SearchSpace) -> Pool | None:
        """Every configuration of a space that is small enough; else None."""
        if space.size > ENUMERABLE:
            return None
        return cls(tuple(space.configurations()), True)

    @classmethod
    def sampled(cls, space: SearchSpace, near: Iterable[Flags], rng: np.random.Generator) -> Pool:
        """Random configurations, and neighbours of good ones: one or two flags moved."""
        found: dict[FlagKey, Flags] = {}
        values = {name: parameter.values() for name, parameter in space.parameters.items()}
        triples = list(space.tree.triples()) if space.tree is not None else []
        for _ in range(_SAMPLED):
            point = {name: each[int(rng.integers(len(each)))] for name, each in values.items()}
            if triples:
                point |= zip(TREE_FLAGS, triples[int(rng.integers(len(triples)))], strict=True)
            drawn = _accepted(space, {name: {**space.fixed, **point}[name] for name in space.names})
            found[flag_key(drawn)] = drawn
        for good in near:
            found |= {flag_key(legal): legal for legal in neighbours(space, good, rng)}
        return cls(tuple(found.values()), False)


def _accepted(space: SearchSpace, flags: Flags) -> Flags:
    """Itself, where it is in the space but for what the server refuses; else the nearest one."""
    if space.server is None or space.server.refusal(flags) is None:
        return flags
    return space.nearest_legal(flags)


def neighbours(space: SearchSpace, flags: Flags, rng: np.random.Generator) -> Iterable[Flags]:
    """Legal configurations with one flag moved, and some with two; none of what is no whole one."""
    if any(name not in flags for name in space.parameters):
        return
    inside = space.nearest_legal(flags)
    values = {name: list(parameter.values()) for name, parameter in space.parameters.items()}
    for name in space.parameters:
        for value in _close(values[name], inside[name], rng):
            yield _moved(space, inside, {name: value})
    pairs = list(itertools.combinations(space.parameters, 2))
    for place in rng.permutation(len(pairs))[:_PAIRS]:
        pair = pairs[place]
        close = {name: _close(values[name], inside[name], rng) for name in pair}
        yield _moved(
            space,
            inside,
            {name: each[int(rng.integers(len(each)))] for name, each in close.items() if each},
        )


def _moved(space: SearchSpace, flags: Flags, to: Mapping[str, FlagValue]) -> Flags:
    moved = {**flags, **to}
    # Only the flags of the tree have rules among each other.
    return _accepted(space, space.with_legal_tree(moved) if set(to) & set(TREE_FLAGS) else moved)


def _close(values: list[FlagValue], value: FlagValue, rng: np.random.Generator) -> list[FlagValue]:
    """A few values around one, and one from anywhere."""
    place = values.index(value) if value in values else int(rng.integers(len(values)))
    near = {place - 1, place + 1, place - 3, place + 3, int(rng.integers(len(values)))}
    return [values[i] for i in sorted(near) if 0 <= i < len(values) and values[i] != value]
