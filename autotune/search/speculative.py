"""The sampler: where the next launch teaches or gains most for its minutes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from autotune.core.objective import Objective
from autotune.core.ranking import flag_key
from autotune.core.trial import Flags, FlagValue
from autotune.search.acquisition import per_minute
from autotune.search.gains import front_gain, score_gain
from autotune.search.knowledge import Knowledge
from autotune.search.memory import (
    MEMORY_KINDS,
    USUAL_FRACTION,
    learn_memory,
)
from autotune.search.observation import Observation, has_tree, observations
from autotune.search.predictions import Predictions
from autotune.search.warm import earlier_knowledge, first_launches, warm_start_of
from autotune.space import SearchSpace
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK

Array = npt.NDArray[np.float64]

_STARTS = ((3, 1, 4), (5, 4, 8), (2, 1, 3))
"""Before anything was measured: SGLang's own automatic choices."""
_SAFE = 0.9
_FRONT_FROM = 5
"""Measured configurations after which every second launch serves the front."""
_BOTH_PATHS_BY = 2
"""Measured configurations after which a chain and a tree must have been launched."""


class SpeculativeSampler(BaseSampler):
    """Bayesian optimisation on top of a cost model of speculative decoding.

    It learns from the user attribute ``record`` of each trial (``autotune.core.trial``), and from
    the two values alone where there is none. Its state is the study: a resumed study goes on as if
    it had never stopped, and running trials count as taken, so that parallel workers do not propose
    the same. It needs no baseline; where one was enqueued, it learns from it.

    Args:
        space: the canonical space.
        objective: its weight decides what a gain is.
        seed: makes the proposals reproducible for the same study.
    """

    def __init__(
        self, space: SearchSpace, objective: Objective, *, seed: int | None = None
    ) -> None:
        self._space = space
        self._objective = objective
        self._seed = seed

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The whole space, the same for every trial."""
        return self._space.distributions()

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """What ``propose`` says; nothing for an enqueued trial."""
        if "fixed_params" in trial.system_attrs:  # Optuna's mark of an enqueued trial
            return {}
        flags = self.propose(study, trial.number)
        return {name: flags[name] for name in search_space if name in flags}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:  # noqa: ANN401 (Optuna's signature)
        """Only reached for a range that ``sample_relative`` did not draw: at random."""
        random = RandomSampler(seed=self._entropy(trial.number)[0] * 100_003 + trial.number)
        return random.sample_independent(study, trial, param_name, param_distribution)

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """The canonical flags for trial ``number``: always legal.

        A space that was launched to the last configuration gives the one whose second launch says
        most.
        """
        seen = observations(study, self._space, but=number)
        if not any(o.outcome == "measured" for o in seen):
            return dict(self._first(seen, np.random.default_rng(self._entropy(number))))
        asked = self._asked_first(study, seen)
        if asked is not None:
            return asked
        earlier = earlier_knowledge(study, self._space)
        known = Knowledge(self._space, self._objective, seen, self._entropy(number), earlier)
        flags, predictions = known.candidates
        if not flags:
            return dict(self._least_launched(known))
        worth = self._worth(known, flags, predictions)
        return dict(flags[int(np.argmax(np.where(_due(known, flags), worth, -np.inf)))])

    def _asked_first(
        self, study: Study, seen: Sequence[Observation]
    ) -> dict[str, FlagValue] | None:
        """A configuration that the warm start wants to see first and nobody has launched."""
        warm = warm_start_of(study)
        if warm is None:
            return None
        taken = {flag_key(o.flags) for o in seen}
        asked = first_launches(warm, self._space, self._objective, seen)
        return next((flags for flags in asked if flag_key(flags) not in taken), None)

    def _entropy(self, number: int) -> list[int]:
        return [self._seed or 0, number]

    # ---- with nothing measured yet ------------------------------------------------------------

    def _first(self, seen: Sequence[Observation], rng: np.random.Generator) -> Flags:
        """A usual tree at a fraction that lives, else anything that was not tried."""
        taken = {flag_key(o.flags) for o in seen}
        for tree in _STARTS:
            flags = self._at_safe_fraction(tree, seen, rng)
            if flags is not None and flag_key(flags) not in taken:
                return flags
        choice: Flags = {}
        for _ in range(64):
            values = {n: p.values() for n, p in self._space.parameters.items()}
            point = {n: each[int(rng.integers(len(each)))] for n, each in values.items()}
            choice = self._space.nearest_legal(point)
            if flag_key(choice) not in taken:
                break
        return choice

    def _at_safe_fraction(
        self, tree: tuple[int, int, int], seen: Sequence[Observation], rng: np.random.Generator
    ) -> Flags | None:
        usual: dict[str, FlagValue] = dict(zip((STEPS, TOPK, DRAFT), tree, strict=True))
        point: dict[str, FlagValue] = {}
        for name, parameter in self._space.parameters.items():
            values = parameter.values()
            point[name] = usual.get(name, values[len(values) // 2])
        if MEMORY in point:
            point[MEMORY] = self._safe_fraction(float(tree[2]), seen, rng)
        return self._space.nearest_legal(point)

    def _safe_fraction(
        self, draft: float, seen: Sequence[Observation], rng: np.random.Generator
    ) -> float:
        grid = np.array([float(v) for v in self._space.parameters[MEMORY].values()])
        died = [o for o in seen if o.failure is not None and o.failure.kind in MEMORY_KINDS]
        if not died:
            return float(grid[np.argmin(np.abs(grid - USUAL_FRACTION))])
        lives = learn_memory(seen, rng).survival(grid, np.full(grid.size, draft))
        return float(grid[int(np.argmax(lives))])

    # ---- with something to learn from ---------------------------------------------------------

    def _worth(self, known: Knowledge, flags: Sequence[Flags], predictions: Predictions) -> Array:
        """Of each candidate: the gain it may bring, for each minute it may take."""
        n_measured = len(known.surrogate.measured)
        if not known.is_feasible:
            # Nothing can be deployed yet: what comes closest to the limits, whatever it costs.
            features = known.catalogue.encoder.features(flags)
            closer = known.surrogate.progress(features, predictions, known.closest.violations)
            return np.asarray(closer * predictions.survival)
        if n_measured >= _FRONT_FROM and n_measured % 2:
            gain = front_gain(known)
        else:
            gain = score_gain(known)
        ended = known.surrogate.ended
        whole = [o.minutes for o in ended if o.minutes and o.outcome == "measured"]
        failed = [o.minutes for o in ended if o.minutes and o.outcome == "failed"]
        return per_minute(
            gain * predictions.feasible,
            predictions.survival,
            float(np.mean(whole)) if whole else 1.0,
            float(np.mean(failed)) if whole and failed else None,
        )

    def _least_launched(self, known: Knowledge) -> Flags:
        """Of the configurations that lived, the one with the fewest launches, the best first."""
        kept, predictions = known.in_hand
        means = predictions.score(known.weight).mean(axis=0)
        launches = [sum(flag_key(o.flags) == flag_key(k.flags) for o in known.seen) for k in kept]
        inside = [i for i, o in enumerate(kept) if self._space.contains(o.flags)]
        if not inside:
            return next(self._space.configurations())
        return kept[min(inside, key=lambda i: (launches[i], -means[i]))].flags


def _due(known: Knowledge, flags: Sequence[Flags]) -> npt.NDArray[np.bool_]:
    """Which candidates may be launched next: all, but chains alone after trees alone, or trees.

    Chains and trees run through other code. Where the physics are wrong of one of them, nothing
    that is launched of the other shows it, so that both are looked at early.
    """
    everything = np.ones(len(flags), dtype=bool)
    launched = {int(o.flags[TOPK]) > 1 for o in known.seen if has_tree(o.flags)}
    if len(known.chosen_from) < _BOTH_PATHS_BY or len(launched) != 1:
        return everything
    other = np.array([has_tree(f) and (int(f[TOPK]) > 1) not in launched for f in flags])
    return other if other.any() else everything
