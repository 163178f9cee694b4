"""A study as the search sees it: its launches, the surrogate, and where it may go next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from autotune.core.objective import Objective
from autotune.core.ranking import FlagKey, flag_key
from autotune.core.trial import Flags
from autotune.search.encoding import Encoder, Pool, fractions, neighbours, triple_of
from autotune.search.memory import USUAL_FRACTION, each_once
from autotune.search.observation import Observation
from autotune.search.predictions import Predictions
from autotune.search.residual import Features
from autotune.search.surrogate import Surrogate
from autotune.search.warm import EarlierKnowledge
from autotune.space import SearchSpace
from autotune.space.rules import MEMORY

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

N_DRAWS = 48
_SURVIVALS = (0.98, 0.93, 0.85, 0.7, 0.5)
"""For each draft the largest fractions that live with these probabilities are looked at."""
MAX_LAUNCHES = 2
"""Of one configuration: a third launch teaches less than another configuration."""
_MAX_TREE_LAUNCHES = 4
_SAME_FRACTION = 0.015
_FEW = 2000
_CLIMBS, _ABREAST = 2, 3
"""Where a space is too large to look at all of it: rounds of looking around the most promising."""
_RISK_COST = 0.1
"""Score that a climb gives for surviving, on the log scale of the probability."""


@dataclass(slots=True)
class Catalogue:
    """The configurations of a space with all that can be computed of them once.

    Attributes:
        rest: equal for configurations that differ in the fraction only.
        numbers: those numbers.
    """

    encoder: Encoder
    pool: Pool
    features: Features
    fraction: Array
    draft: Array
    rest: npt.NDArray[np.int64]
    numbers: dict[FlagKey, int]

    @classmethod
    def of(cls, encoder: Encoder, pool: Pool, features: Features | None = None) -> Catalogue:
        flags = pool.configurations
        draft = np.array([triple_of(f)[2] for f in flags], dtype=np.float64)
        numbers: dict[FlagKey, int] = {}
        rest = np.array([numbers.setdefault(_rest(f), len(numbers)) for f in flags], dtype=np.int64)
        features = encoder.features(flags) if features is None else features
        fraction = fractions(flags, USUAL_FRACTION)
        return cls(encoder, pool, features, fraction, draft, rest, numbers)


@lru_cache(maxsize=8)
def _whole(space: SearchSpace, _rules: tuple[object, ...]) -> Catalogue | None:
    pool = Pool.whole(space)
    return None if pool is None else Catalogue.of(Encoder(space), pool)


class Knowledge:
    """Everything learned from the observations of one study.

    Args:
        seen: at least one of them measured.
        seed: of all draws; equal seeds and studies give equal answers.
        earlier: what a warm start taught.
    """

    def __init__(
        self,
        space: SearchSpace,
        objective: Objective,
        seen: Sequence[Observation],
        seed: list[int],
        earlier: EarlierKnowledge | None = None,
    ) -> None:
        self.space, self.objective, self.seen = space, objective, list(seen)
        self.rng = np.random.default_rng(seed)
        whole = _whole(space, space.removals)
        encoder = whole.encoder if whole is not None else Encoder(space)
        self.surrogate = Surrogate(encoder, seen, self.rng, N_DRAWS, earlier)
        self.catalogue = whole or self._looked_around(encoder)

    @property
    def weight(self) -> float:
        return self.objective.latency_weight

    def _looked_around(self, encoder: Encoder) -> Catalogue:
        """Random configurations, and what lies around the good and, again and again, the promising.

        Few of the best configurations of a large space are among any thousand that were drawn, and
        neighbours of what was measured are a flag or two away: the model leads further.
        """
        pool = Pool.sampled(encoder.space, self._good(), self.rng)
        found = {flag_key(flags): flags for flags in pool.configurations}
        features = encoder.features(pool.configurations)
        promise = self._promise(pool.configurations, features)
        climbed: set[FlagKey] = set()
        for _ in range(_CLIMBS):
            keys, new = list(found), dict[FlagKey, Flags]()
            best = [keys[i] for i in np.argsort(-promise) if keys[i] not in climbed][:_ABREAST]
            climbed |= set(best)
            for key in best:
                around = neighbours(encoder.space, found[key], self.rng)
                new |= {k: flags for flags in around if (k := flag_key(flags)) not in found}
            if not new:
                break
            more = encoder.features(list(new.values()))
            promise = np.concatenate([promise, self._promise(list(new.values()), more)])
            features, found = features.joined(more), found | new
        return Catalogue.of(encoder, Pool(tuple(found.values()), False), features)

    def _promise(self, flags: Sequence[Flags], features: Features) -> Array:
        """How good each may well be, with what it risks, shape (n,)."""
        predictions = self.surrogate.predict(flags, features)
        scores = predictions.score(self.weight)
        spread = np.hypot(predictions.score_sd(self.weight), scores.std(axis=0))
        lives = np.maximum(predictions.survival * predictions.feasible, 1e-6)
        return np.asarray(scores.mean(axis=0) + spread + _RISK_COST * np.log(lives))

    def _good(self) -> list[Flags]:
        """The configurations with the best values so far, one launch each being enough."""
        w, measured = self.weight, [o.flags for o in self.surrogate.measured]
        scores = [
            (1 - w) * o.throughput.log - w * o.latency.log
            for o in self.surrogate.measured
            if o.latency and o.throughput
        ]
        order = np.argsort(scores)[::-1][:4]
        return [measured[i] for i in order]

    # ---- configurations in hand ---------------------------------------------------------------

    @property
    def chosen_from(self) -> list[Observation]:
        """Measured launches of the space; those of references where there is no other."""
        measured = self.surrogate.measured
        return [o for o in measured if not o.is_reference] or measured

    @cached_property
    def in_hand(self) -> tuple[list[Observation], Predictions]:
        """The kept ones, and what is known of them."""
        return self.kept, self._predict([o.flags for o in self.kept])

    @cached_property
    def kept(self) -> list[Observation]:
        """Measured configurations that keep the constraints, once each.

        Where none keeps them, all measured ones.
        """
        once: dict[FlagKey, Observation] = {}
        bad = {flag_key(o.flags) for o in self.surrogate.measured if not o.is_feasible}
        for o in self.chosen_from:
            once.setdefault(flag_key(o.flags), o)
        return [o for key, o in once.items() if key not in bad] or list(once.values())

    def _predict(self, configurations: Sequence[Flags]) -> Predictions:
        features = self.catalogue.encoder.features(configurations)
        return self.surrogate.predict(configurations, features)

    @cached_property
    def is_feasible(self) -> bool:
        """Some configuration in hand keeps every constraint."""
        return any(o.is_feasible for o in self.kept)

    @property
    def closest(self) -> Observation:
        """The configuration in hand that misses its worst constraint by the least."""
        return min(self.kept, key=lambda o: max(o.violations.values(), default=0.0))

    # ---- where to go next ---------------------------------------------------------------------

    @cached_property
    def candidates(self) -> tuple[list[Flags], Predictions]:
        """Configurations worth a thought; none that was launched often enough or died."""
        index = np.flatnonzero(self._worth_a_thought() & ~self._taken())
        flags = [self.catalogue.pool.configurations[i] for i in index]
        return flags, self.surrogate.predict(flags, self.catalogue.features.at(index))

    def _worth_a_thought(self) -> Mask:
        """All of the catalogue, but of the fractions only those near the wall and those in use."""
        catalogue = self.catalogue
        if MEMORY not in self.space.parameters or catalogue.fraction.size < _FEW:
            return np.ones(catalogue.fraction.size, dtype=bool)
        lives = each_once(self.surrogate.memory.survival, catalogue.fraction, catalogue.draft)
        keep = np.zeros(lives.size, dtype=bool)
        for draft in np.unique(catalogue.draft):
            here = catalogue.draft == draft
            for least in _SURVIVALS:
                enough = here & (lives >= least)
                if enough.any():
                    keep |= enough & (catalogue.fraction == catalogue.fraction[enough].max())
        used = {self._fraction(o.flags) for o in self.surrogate.measured[-6:]}
        return keep | (np.isin(catalogue.fraction, list(used)) & (lives > 0.3))

    @staticmethod
    def _fraction(flags: Flags) -> float:
        value = flags.get(MEMORY)
        return float(value) if isinstance(value, int | float) else USUAL_FRACTION

    def _taken(self) -> Mask:
        """Launched often enough, at this fraction or one beside it; running, or dead before."""
        catalogue = self.catalogue
        own = catalogue.encoder.features([o.flags for o in self.seen]).own
        gone = np.array([o.outcome != "measured" for o in self.seen], dtype=bool)
        numbers, launches = np.unique(own, return_counts=True)
        taken = np.isin(catalogue.features.own, own[gone])
        taken |= np.isin(catalogue.features.own, numbers[launches >= MAX_LAUNCHES])
        if MEMORY not in self.space.parameters:
            return np.asarray(taken)
        alive: dict[int, list[float]] = {}
        for o in self.seen:
            rest = catalogue.numbers.get(_rest(o.flags))
            if rest is not None and o.outcome != "failed":
                alive.setdefault(rest, []).append(self._fraction(o.flags))
        for rest, launched in alive.items():
            here = np.flatnonzero(catalogue.rest == rest)
            near = np.abs(catalogue.fraction[here, None] - np.array(launched)) < _SAME_FRACTION
            often = len(launched) >= _MAX_TREE_LAUNCHES
            taken[here] |= often | (near.sum(axis=1) >= MAX_LAUNCHES)
        return np.asarray(taken)


def _rest(flags: Flags) -> FlagKey:
    """Everything but the fraction."""
    return flag_key({name: value for name, value in flags.items() if name != MEMORY})
