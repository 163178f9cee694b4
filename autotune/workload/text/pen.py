"""The pen: a source of chance with the few draws that writing needs, made cheap.

A session is written while a server is measured, in the process that measures it: a draw costs a
tenth of what ``Random.choice`` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp
from random import Random
from typing import TypeVar

from autotune.workload.text.words import ADJECTIVES, ADVERBS, KINDS, NOUNS, ROLES, VERBS

Item = TypeVar("Item")

_FEWEST_KNOWN = 24
_KNOWN_FRAC = 0.4
"""Share of the names that were there before, once there are some."""


class Pen:
    """Draws; the same ones for the same seed in every process.

    What one pen writes keeps coming back to the same names, as a session about one code base does.

    Args:
        seed: any text.
    """

    __slots__ = ("_gauss", "_known", "bits", "draw")

    def __init__(self, seed: str) -> None:
        rng = Random(seed)
        self.draw = rng.random
        self.bits = rng.getrandbits
        self._gauss = rng.gauss
        self._known: list[str] = []

    def pick(self, options: Sequence[Item]) -> Item:
        return options[int(self.draw() * len(options))]

    def chance(self, probability: float) -> bool:
        return self.draw() < probability

    def number(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included."""
        return low + int(self.draw() * (high - low + 1))

    def size(self, low: int, high: int) -> int:
        """As ``number``, but small ones are likelier, as in counts that people meet."""
        return low + int(self.draw() ** 3 * (high - low + 1))

    def lognormal(self, median: float, sigma: float) -> float:
        return median * exp(sigma * self._gauss(0.0, 1.0))

    def hexa(self, n_bits: int) -> str:
        return f"{self.bits(n_bits):x}"

    def version(self) -> str:
        return f"{self.number(0, 9)}.{self.number(0, 30)}.{self.number(0, 12)}"

    # ---- names --------------------------------------------------------------------------------

    def snake(self) -> str:
        """``stale_voucher_index``: a variable, not seldom one that was named before."""
        known = self._known
        if len(known) >= _FEWEST_KNOWN and self.draw() < _KNOWN_FRAC:
            return self.pick(known)
        shape = self.draw()
        if shape < 0.4:
            name = f"{self.pick(NOUNS)}_{self.pick(KINDS)}"
        elif shape < 0.65:
            name = f"{self.pick(ADJECTIVES)}_{self.pick(NOUNS)}"
        elif shape < 0.8:
            name = f"{self.pick(ADJECTIVES)}_{self.pick(NOUNS)}_{self.pick(KINDS)}"
        else:
            name = f"{self.pick(NOUNS)}_{self.pick(NOUNS)}"
        known.append(name)
        return name

    def function(self) -> str:
        """``settle_voucher_index``: something that is called."""
        if self.draw() < 0.6:
            return f"{self.pick(VERBS)}_{self.pick(NOUNS)}"
        return f"{self.pick(VERBS)}_{self.snake()}"

    def type_name(self) -> str:
        """``VoucherResolver``: a class."""
        if self.draw() < 0.7:
            return f"{self.pick(NOUNS)}_{self.pick(ROLES)}".title().replace("_", "")
        return f"{self.pick(ADJECTIVES)}_{self.pick(NOUNS)}".title().replace("_", "")

    def path(self, suffix: str) -> str:
        """``voucher/settlement/open_ledger.py``."""
        roots = ("src", "lib", "app", "services", "packages", "core", "internal", "tools")
        parts = [self.pick(roots), self.pick(NOUNS)]
        if self.draw() < 0.4:
            parts.append(f"{self.pick(ROLES)}s")
        return "/".join(parts) + f"/{self.snake()}{suffix}"

    # ---- words in sentences -------------------------------------------------------------------

    def thing(self) -> str:
        """``the stale voucher``: a noun with what stands before it."""
        shape, noun = self.draw(), self.pick(NOUNS)
        if shape < 0.3:
            return f"the {noun}"
        if shape < 0.55:
            return f"the {self.pick(ADJECTIVES)} {noun}"
        if shape < 0.75:
            return f"every {noun}"
        if shape < 0.9:
            return f"{self.pick(('our', 'their', 'this', 'that', 'its'))} {noun} {self.pick(ROLES)}"
        return f"each {self.pick(ADJECTIVES)} {noun}"

    def things(self) -> str:
        """``stale vouchers``."""
        noun = plural(self.pick(NOUNS))
        return f"{self.pick(ADJECTIVES)} {noun}" if self.draw() < 0.6 else noun

    def does(self) -> str:
        """A verb in the third person, sometimes with an adverb."""
        verb = third(self.pick(VERBS))
        return f"{self.pick(ADVERBS)} {verb}" if self.draw() < 0.3 else verb


def plural(noun: str) -> str:
    return third(noun)


def third(verb: str) -> str:
    """The third person of a regular verb, which is also how a regular noun gets its plural."""
    if verb.endswith(("s", "x", "ch", "sh", "z")):
        return f"{verb}es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ies"
    return f"{verb}s"


def past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}ed"


def gerund(verb: str) -> str:
    return f"{verb[:-1]}ing" if verb.endswith("e") and not verb.endswith("ee") else f"{verb}ing"


def fill(unit: Callable[[], str], n_chars: int, between: str) -> str:
    """As many units as come nearest to ``n_chars`` characters, at least one."""
    parts = [unit()]
    size = len(parts[0])
    while size < n_chars:
        part = unit()
        if size + (len(part) + len(between)) / 2 > n_chars:
            break
        parts.append(part)
        size += len(part) + len(between)
    return between.join(parts)
