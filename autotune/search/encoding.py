"""Configurations as arrays: what the cost model and the Gaussian process read of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.core.ranking import FlagKey, flag_key
from autotune.core.trial import Flags, FlagValue
from autotune.search.acceptance import Triple
from autotune.search.observation import has_tree
from autotune.search.residual import Features
from autotune.space import SearchSpace
from autotune.space.parameter import Choice, DecimalRange, IntegerRange, Parameter, Switch
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK, TREE_FLAGS

Array = npt.NDArray[np.float64]

_LENGTHS = {STEPS: 2.0, TOPK: 1.5, DRAFT: 1.2, MEMORY: 0.15}
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
        other = [[self._other(name, flags) for name in self.others] for flags in configurations]
        kinds = [_is_category(self.space.parameters[name]) for name in self.others]
        own = [self._numbers.setdefault(flag_key(f), len(self._numbers)) for f in configurations]
        n = len(configurations)
        return Features(
            np.array(tree, dtype=np.float64).reshape(n, len(self.physical)),
            np.array(other, dtype=np.float64).reshape(n, len(self.others)),
            np.array(kinds, dtype=np.bool_),
            np.array(own, dtype=np.int64),
        )

    def _other(self, name: str, flags: Flags) -> float:
        parameter, value = self.space.parameters[name], flags.get(name)
        if isinstance(parameter, Choice | Switch):
            values = list(parameter.values())
            place = values.index(value) if value in values else -1
            return float(place) if _is_category(parameter) else place / max(1, len(values) - 1)
        return _scaled(parameter, value)


def _is_category(parameter: Parameter) -> bool:
    """Words and switches; numbers to choose from have an order."""
    return not isinstance(parameter, IntegerRange | DecimalRange) and any(
        isinstance(value, bool | str) for value in parameter.values()
    )


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
    steps, topk, draft = (int(flags[name]) for name in TREE_FLAGS)
    if steps < 1 or topk < 1:
        return OFF
    return min(steps, 64), min(topk, 64), max(draft, 1)


def fractions(configurations: Sequence[Flags], otherwise: float) -> Array:
    """Memory fractions, shape (n,)."""
    found = (flags.get(MEMORY, otherwise) for flags in configurations)
    return np.array([float(f) if isinstance(f, int | float) else otherwise for f in found])


ENUMERABLE = 60_000
_SAMPLED = 2_000


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
        ruled = space.tree is not None or space.server is not None or bool(space.fixed)
        values = {name: parameter.values() for name, parameter in space.parameters.items()}
        for _ in range(_SAMPLED):
            point = {name: each[int(rng.integers(len(each)))] for name, each in values.items()}
            drawn = space.nearest_legal(point) if ruled else point
            found[flag_key(drawn)] = drawn
        for good in near:
            found |= {flag_key(legal): legal for legal in _neighbours(space, good, rng)}
        return cls(tuple(found.values()), False)


def _neighbours(space: SearchSpace, flags: Flags, rng: np.random.Generator) -> Iterable[Flags]:
    names = [name for name in space.parameters if name in flags]
    if len(names) < len(space.parameters):
        return
    for name in names:
        values = list(space.parameters[name].values())
        for value in _close(values, flags[name], rng):
            yield space.nearest_legal({**{n: flags[n] for n in names}, name: value})
    for pair in itertools.combinations(names, 2):
        moved = {
            name: values[int(rng.integers(len(values)))]
            for name in pair
            if (values := _close(list(space.parameters[name].values()), flags[name], rng))
        }
        yield space.nearest_legal({**{n: flags[n] for n in names}, **moved})


def _close(values: list[FlagValue], value: FlagValue, rng: np.random.Generator) -> list[FlagValue]:
    """A few values around one, and one from anywhere."""
    place = values.index(value) if value in values else int(rng.integers(len(values)))
    near = {place - 1, place + 1, place - 3, place + 3, int(rng.integers(len(values)))}
    return [values[i] for i in sorted(near) if 0 <= i < len(values) and values[i] != value]
