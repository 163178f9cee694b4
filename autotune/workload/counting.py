"""Counts over a stream of any length in memory that does not grow with it."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable, Sequence

_EXACT_BITS = 7
"""Numbers below 128 have a bin each; above, 64 bins per doubling: quantiles err by 1 %."""
_ID_SLOTS = 2**27
_MIX = 0x9E3779B97F4A7C15
MAX_VALUES = 4_000_000
"""Numbers in a ``Bag``, of 8 bytes each."""


class Lengths:
    """Whole numbers >= 0 in logarithmic bins: their mean exactly, their quantiles to 1 %."""

    __slots__ = ("_bins", "highest", "n", "total")

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self.n = 0
        self.total = 0
        self.highest = 0

    def add(self, number: int) -> None:
        shift = number.bit_length() - _EXACT_BITS
        key = number if shift <= 0 else (shift << _EXACT_BITS - 1) + (number >> shift)
        self._bins[key] = self._bins.get(key, 0) + 1
        self.n += 1
        self.total += number
        if number > self.highest:
            self.highest = number

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else 0.0

    def quantile(self, q: float) -> int:
        """The smallest number that at least a share ``q`` of all does not exceed; 0 of none."""
        wanted, seen = q * self.n, 0
        for low, high, count in self._sorted():
            seen += count
            if seen >= wanted:
                return min(self.highest, (low + high) // 2)
        return 0

    def share_above(self, limit: int) -> float:
        """Share of the numbers above ``limit``."""
        above = sum(count for low, _, count in self._sorted() if low > limit)
        return above / self.n if self.n else 0.0

    def by_doubling(self) -> dict[int, int]:
        """How many numbers are in [2^k, 2^(k+1)), by k; 0 counts as 1."""
        found: dict[int, int] = {}
        for low, _, count in self._sorted():
            power = max(1, low).bit_length() - 1
            found[power] = found.get(power, 0) + count
        return found

    def _sorted(self) -> Iterable[tuple[int, int, int]]:
        """Lowest and highest number of each bin, and how many are in it."""
        for key, count in sorted(self._bins.items()):
            shift = max(0, (key >> _EXACT_BITS - 1) - 1)
            low = (key - (shift << _EXACT_BITS - 1)) << shift
            yield low, low + (1 << shift) - 1, count


class SeenIds:
    """A set of block ids in 128 MiB at most, which are used as far as ids are high.

    Exact for ids below 2^27. Higher ones, such as hashes, share slots by chance: of ten million
    ids 7 % look as if they had been there, each of which lengthens one prefix by one block.
    """

    def __init__(self) -> None:
        self._slots = mmap.mmap(-1, _ID_SLOTS)  # zeros that take no memory until they are written

    def add_all(self, ids: Sequence[int]) -> int:
        """Adds the ids of a prompt; how many at its beginning were known before."""
        slots = self._slots
        if not ids:
            return 0
        if max(ids) >= _ID_SLOTS or min(ids) < 0:
            ids = [n if 0 <= n < _ID_SLOTS else (n * _MIX >> 20) % _ID_SLOTS for n in ids]
        n_known = 0
        for number in ids:
            if not slots[number]:
                break
            n_known += 1
        for number in ids[n_known:]:
            slots[number] = 1
        return n_known


class Bag:
    """The first ``MAX_VALUES`` numbers of a stream, for what needs them all."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = array("d")

    def add(self, value: float) -> None:
        if len(self.values) < MAX_VALUES:
            self.values.append(value)
