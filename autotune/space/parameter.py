"""The kinds of searched flag: a whole-number range, a decimal range, a choice, a switch.

A parameter knows its values and nothing else: not its own name, not the other flags, not SGLang.
Decimal ranges are exact: 0.60 plus 32 steps of 0.01 is 0.92, as a person would write it, never
0.9199999. Optuna is imported only where one of its objects is asked for.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from autotune.core.trial import FlagValue
from autotune.errors import SpaceError

if TYPE_CHECKING:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

MAX_VALUES = 10_000
"""More values than this in one range is a missing step, not a search."""

_ON_GRID_STEPS = Decimal("0.001")
"""A decimal this close to a grid value (in steps) is that value with rounding noise."""


_N = TypeVar("_N", bound=float)


class SuggestingTrial(Protocol):
    """What is used of an Optuna ``Trial``, ``FixedTrial`` or ``FrozenTrial``."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1) -> int: ...

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None
    ) -> float: ...

    def suggest_categorical(self, name: str, choices: Sequence[FlagValue]) -> FlagValue | None: ...


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """Whole numbers from ``low`` to ``high``, both included, ``step`` apart.

    Raises:
        SpaceError: the bounds are crossed, ``step`` does not lead from one to the other, or the
            range holds more than ``MAX_VALUES`` values.
    """

    low: int
    high: int
    step: int = 1

    def __post_init__(self) -> None:
        _check_range(Decimal(self.low), Decimal(self.high), Decimal(self.step))

    @property
    def n_values(self) -> int:
        return (self.high - self.low) // self.step + 1

    def values(self) -> tuple[int, ...]:
        return tuple(range(self.low, self.high + 1, self.step))

    def coerce(self, value: FlagValue) -> FlagValue:
        """``value`` as an int if it stands for a whole number (``4.0``, ``"4"``), else itself."""
        number = _number(value)
        whole = number is not None and number == number.to_integral_value()
        return int(number) if number is not None and whole else value

    def contains(self, value: FlagValue) -> bool:
        whole = self.coerce(value)
        return type(whole) is int and whole in range(self.low, self.high + 1, self.step)

    def nearest(self, value: FlagValue) -> int:
        """The range's value nearest to ``value``; the lower one of two equally near.

        Raises:
            SpaceError: ``value`` is not a number.
        """
        return _nearest(self.values(), value)

    def describe(self) -> str:
        by = "" if self.step == 1 else f" in steps of {self.step}"
        return f"{self.low} to {self.high}{by}"

    def reaching(self, low: float, high: float) -> IntegerRange:
        """The same grid, at least as long, going on up to ``low`` and ``high``."""
        below, above = (max(0, int(x)) // self.step for x in (self.low - low, high - self.high))
        return IntegerRange(self.low - below * self.step, self.high + above * self.step, self.step)

    def distribution(self) -> IntDistribution:
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, step=self.step)

    def suggest(self, trial: SuggestingTrial, name: str) -> FlagValue:
        return self.coerce(trial.suggest_int(name, self.low, self.high, step=self.step))


@dataclass(frozen=True, slots=True)
class DecimalRange:
    """Decimals from ``low`` to ``high``, both included, exactly ``step`` apart.

    Raises:
        SpaceError: as for ``IntegerRange``, or a bound is not finite.
    """

    low: float
    high: float
    step: float

    def __post_init__(self) -> None:
        _check_range(*self._exact())

    @property
    def n_values(self) -> int:
        low, high, step = self._exact()
        return int((high - low) / step) + 1

    def values(self) -> tuple[float, ...]:
        return _grid(*self._exact())

    def coerce(self, value: FlagValue) -> FlagValue:
        """The grid value that ``value`` stands for; another number as a float, others as is.

        A number off the grid is kept, not moved: it may be the setting a user runs today.
        """
        number = _number(value)
        if number is None:
            return value
        on_grid = self._on_grid(number)
        return float(number if on_grid is None else on_grid)

    def contains(self, value: FlagValue) -> bool:
        number = _number(value)
        return number is not None and self._on_grid(number) is not None

    def nearest(self, value: FlagValue) -> float:
        """As ``IntegerRange.nearest``."""
        if type(value) is float and value in self.values():
            return value
        return _nearest(self.values(), value)

    def describe(self) -> str:
        return f"{self.low} to {self.high} in steps of {self.step}"

    def reaching(self, low: float, high: float) -> DecimalRange:
        """As ``IntegerRange.reaching``."""
        start, end, step = self._exact()
        below, above = (
            max(Decimal(0), x) // step for x in (start - _written(low), _written(high) - end)
        )
        return DecimalRange(float(start - below * step), float(end + above * step), self.step)

    def distribution(self) -> FloatDistribution:
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, step=self.step)

    def suggest(self, trial: SuggestingTrial, name: str) -> FlagValue:
        return self.coerce(trial.suggest_float(name, self.low, self.high, step=self.step))

    def _on_grid(self, number: Decimal) -> Decimal | None:
        low, high, step = self._exact()
        on_grid = low + round((number - low) / step) * step
        near = abs(number - on_grid) <= step * _ON_GRID_STEPS
        return on_grid if near and low <= on_grid <= high else None

    def _exact(self) -> tuple[Decimal, Decimal, Decimal]:
        """(low, high, step) as they are written, not as binary fractions."""
        return _written(self.low), _written(self.high), _written(self.step)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several numbers or words, in the order in which they were given.

    Raises:
        SpaceError: no choice, one given twice, or true or false among them (that is ``Switch``).
    """

    choices: tuple[int | float | str, ...]

    def __post_init__(self) -> None:
        if not self.choices:
            raise SpaceError("choices is empty")
        for i, choice in enumerate(self.choices):
            if isinstance(choice, bool):
                raise SpaceError("true and false are not choices: write 'switch: true'")
            if isinstance(choice, float) and _number(choice) is None:
                raise SpaceError(f"{choice} is not a finite number")
            # The text matters too: 8 and "8" are one setting on a command line.
            if any(choice == c or str(choice) == str(c) for c in self.choices[:i]):
                raise SpaceError(f"{choice} is given twice in choices")

    @property
    def n_values(self) -> int:
        return len(self.choices)

    def values(self) -> tuple[int | float | str, ...]:
        return self.choices

    def coerce(self, value: FlagValue) -> FlagValue:
        """The choice that ``value`` stands for (``8.0`` or ``"8"`` for 8), else itself."""
        if not isinstance(value, bool):
            for choice in self.choices:
                if choice == value or str(choice) == str(value):
                    return choice
        return value

    def contains(self, value: FlagValue) -> bool:
        return not isinstance(value, bool) and self.coerce(value) in self.choices

    def nearest(self, value: FlagValue) -> int | float | str:
        """The choice itself, or the numerically nearest one.

        Raises:
            SpaceError: ``value`` is neither a choice nor a number beside numbers.
        """
        choice = self.coerce(value)
        if self.contains(choice):
            return self.choices[self.choices.index(choice)]
        numeric = [c for c in self.choices if not isinstance(c, str)]
        if not numeric:
            raise SpaceError(f"{value!r} is not {self.describe()}")
        return _nearest(numeric, value)

    def describe(self) -> str:
        words = [str(choice) for choice in self.choices]
        return " or ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)

    def distribution(self) -> CategoricalDistribution:
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.choices)

    def suggest(self, trial: SuggestingTrial, name: str) -> FlagValue:
        return self.choices[self.choices.index(trial.suggest_categorical(name, self.choices))]


@dataclass(frozen=True, slots=True)
class Switch:
    """A flag that stands on the command line or does not."""

    @property
    def n_values(self) -> int:
        return 2

    def values(self) -> tuple[bool, bool]:
        return False, True

    def coerce(self, value: FlagValue) -> FlagValue:
        return {"true": True, "false": False}.get(str(value).lower(), value)

    def contains(self, value: FlagValue) -> bool:
        return isinstance(self.coerce(value), bool)

    def nearest(self, value: FlagValue) -> bool:
        """``value`` itself.

        Raises:
            SpaceError: ``value`` is neither true nor false.
        """
        state = self.coerce(value)
        if not isinstance(state, bool):
            raise SpaceError(f"{value!r} is not {self.describe()}")
        return state

    def describe(self) -> str:
        return "true or false"

    def distribution(self) -> CategoricalDistribution:
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values())

    def suggest(self, trial: SuggestingTrial, name: str) -> FlagValue:
        return bool(trial.suggest_categorical(name, self.values()))


Parameter: TypeAlias = IntegerRange | DecimalRange | Choice | Switch


@lru_cache(maxsize=256)
def _written(number: float) -> Decimal:
    return Decimal(str(number))


@lru_cache(maxsize=64)
def _grid(low: Decimal, high: Decimal, step: Decimal) -> tuple[float, ...]:
    return tuple(float(low + i * step) for i in range(int((high - low) / step) + 1))


def _number(value: FlagValue) -> Decimal | None:
    """The finite number that ``value`` is or spells, digit by digit; None for anything else."""
    # numbers.Real, because a sampler may hand over numpy's integers, which are not int.
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, str)):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _nearest(values: Iterable[_N], value: FlagValue) -> _N:
    number = _number(value)
    if number is None:
        raise SpaceError(f"{value!r} is not a number")
    return min(values, key=lambda v: abs(_written(v) - number))


def _check_range(low: Decimal, high: Decimal, step: Decimal) -> None:
    if not (low.is_finite() and high.is_finite() and step.is_finite()):
        raise SpaceError("low, high and step must be finite numbers")
    if low > high:
        raise SpaceError(f"low {low} is above high {high}")
    if step <= 0:
        raise SpaceError(f"step {step} must be above 0")
    last = low + (high - low) // step * step
    if last != high:
        raise SpaceError(
            f"steps of {step} from low {low} do not meet high {high}: the last one is {last}"
        )
    if (high - low) / step >= MAX_VALUES:
        raise SpaceError(f"{low} to {high} holds more than {MAX_VALUES:,} values: give a step")
