"""A study as the search sees it: its launches, the surrogate, and where it may go next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from autotune.core.objective import Objective
from autotune.core.ranking import FlagKey, flag_key
from autotune.core.trial import Flags
from autotune.search.encoding import Encoder, Pool, fractions, triple_of
from autotune.search.memory import USUAL_FRACTION
from autotune.search.observation import Observation
from autotune.search.residual import Features
from autotune.search.surrogate import Predictions, Surrogate, memory_survival
from autotune.space import SearchSpace
from autotune.space.rules import MEMORY

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.intp]

N_DRAWS = 48
_SURVIVALS = (0.98, 0.93, 0.85, 0.7, 0.5)
"""For each draft the largest fractions that live with these probabilities are looked at."""
MAX_LAUNCHES = 2
"""Of one configuration: a third launch teaches less than another configuration."""
_MAX_TREE_LAUNCHES = 4
_SAME_FRACTION = 0.015


@dataclass(slots=True)
class Catalogue:
    """The configurations of a space with all that can be computed of them once."""

    encoder: Encoder
    pool: Pool
    features: Features
    fraction: Array
    draft: Array

    @classmethod
    def of(cls, encoder: Encoder, pool: Pool) -> Catalogue:
        flags = pool.configurations
        draft = np.array([triple_of(f)[2] for f in flags], dtype=np.float64)
        return cls(encoder, pool, encoder.features(flags), fractions(flags, USUAL_FRACTION), draft)

    @classmethod
    def sampled(
        cls, encoder: Encoder, near: Sequence[Flags], rng: np.random.Generator
    ) -> Catalogue:
        return cls.of(encoder, Pool.sampled(encoder.space, near, rng))


@lru_cache(maxsize=8)
def _whole(space: SearchSpace, _rules: tuple[object, ...]) -> Catalogue | None:
    pool = Pool.whole(space)
    return None if pool is None else Catalogue.of(Encoder(space), pool)


class Knowledge:
    """Everything learned from the observations of one study.

    Args:
        seen: at least one of them measured.
        seed: of all draws; equal seeds and studies give equal answers.
    """

    def __init__(
        self, space: SearchSpace, objective: Objective, seen: Sequence[Observation], seed: list[int]
    ) -> None:
        self.space, self.objective, self.seen = space, objective, list(seen)
        self.rng = np.random.default_rng(seed)
        whole = _whole(space, space.removals)
        encoder = whole.encoder if whole is not None else Encoder(space)
        self.surrogate = Surrogate(encoder, seen, self.rng, N_DRAWS)
        measured = [o.flags for o in self.surrogate.measured]
        self.catalogue = whole or Catalogue.sampled(encoder, self._good(measured), self.rng)
        self._launches = Counter(flag_key(o.flags) for o in self.seen)

    @property
    def weight(self) -> float:
        return self.objective.latency_weight

    def _good(self, measured: Sequence[Flags]) -> list[Flags]:
        """The configurations with the best values so far, one launch each being enough."""
        w = self.weight
        scores = [
            (1 - w) * o.throughput.log - w * o.latency.log
            for o in self.surrogate.measured
            if o.latency and o.throughput
        ]
        order = np.argsort(scores)[::-1][:6]
        return [measured[i] for i in order]

    # ---- configurations in hand ---------------------------------------------------------------

    def in_hand(self) -> tuple[list[Observation], Predictions]:
        """Measured configurations that keep the constraints, once each, and what is known of them.

        Where none keeps them, all measured ones.
        """
        once: dict[FlagKey, Observation] = {}
        bad = {flag_key(o.flags) for o in self.surrogate.measured if not o.is_feasible}
        for o in self.surrogate.measured:
            once.setdefault(flag_key(o.flags), o)
        kept = [o for key, o in once.items() if key not in bad] or list(once.values())
        return kept, self._predict([o.flags for o in kept])

    def _predict(self, configurations: Sequence[Flags]) -> Predictions:
        features = self.catalogue.encoder.features(configurations)
        return self.surrogate.predict(configurations, features)

    # ---- where to go next ---------------------------------------------------------------------

    def candidates(self) -> tuple[list[Flags], Predictions]:
        """Configurations worth a thought; none that was launched often enough or must die."""
        index = self._worth_a_thought()
        flags = [self.catalogue.pool.configurations[i] for i in index]
        free = [i for i, each in enumerate(flags) if not self._is_taken(each)]
        flags = [flags[i] for i in free]
        if not flags:
            return [], self._predict([o.flags for o in self.surrogate.measured[:1]])
        features = self.catalogue.features.at(index[np.array(free, dtype=np.intp)])
        return flags, self.surrogate.predict(flags, features)

    def _worth_a_thought(self) -> Index:
        """All of the catalogue, but of the fractions only those near the wall and those in use."""
        catalogue = self.catalogue
        if MEMORY not in self.space.parameters or len(catalogue.pool.configurations) < 2000:
            return np.arange(len(catalogue.pool.configurations), dtype=np.intp)
        lives = memory_survival(self.surrogate.memory, catalogue.fraction, catalogue.draft)
        keep = np.zeros(lives.size, dtype=bool)
        for draft in np.unique(catalogue.draft):
            here = catalogue.draft == draft
            for least in _SURVIVALS:
                enough = here & (lives >= least)
                if enough.any():
                    keep |= enough & (catalogue.fraction == catalogue.fraction[enough].max())
        used = {self._fraction(o.flags) for o in self.surrogate.measured[-6:]}
        keep |= np.isin(catalogue.fraction, list(used)) & (lives > 0.3)
        return np.flatnonzero(keep)

    @staticmethod
    def _fraction(flags: Flags) -> float:
        value = flags.get(MEMORY)
        return float(value) if isinstance(value, int | float) else USUAL_FRACTION

    def _is_taken(self, flags: Flags) -> bool:
        """Launched often enough, running, or dead before."""
        key = flag_key(flags)
        if key in self._closed:
            return True
        if self._launches[key] >= MAX_LAUNCHES:
            return True
        near, tree = self._near_launches(flags)
        return near >= MAX_LAUNCHES or tree >= _MAX_TREE_LAUNCHES

    @property
    def _closed(self) -> set[FlagKey]:
        return {flag_key(o.flags) for o in self.seen if o.outcome != "measured"}

    def _near_launches(self, flags: Flags) -> tuple[int, int]:
        """(launches of these flags near this fraction, at any fraction)."""
        if MEMORY not in self.space.parameters:
            return 0, 0
        known = self._by_rest.get(_rest(flags), ())
        at = self._fraction(flags)
        return sum(abs(f - at) < _SAME_FRACTION for f in known), len(known)

    @property
    def _by_rest(self) -> dict[FlagKey, list[float]]:
        found: dict[FlagKey, list[float]] = {}
        for o in self.seen:
            if o.outcome != "failed":
                found.setdefault(_rest(o.flags), []).append(self._fraction(o.flags))
        return found


def _rest(flags: Flags) -> FlagKey:
    """Everything but the fraction."""
    return flag_key({name: value for name, value in flags.items() if name != MEMORY})
