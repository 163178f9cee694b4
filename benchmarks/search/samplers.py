"""The samplers that are compared, all on the same canonical space, and how each recommends."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

import autotune.search
from autotune.core.objective import Objective
from autotune.core.ranking import FlagKey, flag_key
from autotune.core.trial import FlagValue
from autotune.search import CanonicalTPESampler
from autotune.space import SearchSpace
from autotune.space.rules import TREE_FLAGS

Make = Callable[[SearchSpace, Objective, int], BaseSampler]

_TRIES = 200
_SWEEP_VALUES = 8
"""A person tries no more values of one flag than this."""


class _Independent(BaseSampler):
    """What Optuna's protocol wants besides ``propose``."""

    def __init__(self, space: SearchSpace, seed: int) -> None:
        self._space, self._seed = space, seed

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._space.distributions()

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if "fixed_params" in trial.system_attrs:
            return {}
        flags = self.propose(study, trial.number)
        return {name: flags[name] for name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> Any:  # noqa: ANN401 (Optuna's signature)
        raise AssertionError(f"{name} was not proposed")

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """Flags for this trial."""
        raise NotImplementedError

    def _uniform(self, study: Study, number: int) -> dict[str, FlagValue]:
        """A legal configuration that was not launched yet, each as likely as any other."""
        rng = np.random.default_rng([self._seed, number])
        taken, flags = _taken(study, self._space), dict[str, FlagValue]()
        triples = [] if self._space.tree is None else list(self._space.tree.triples())
        for _ in range(_TRIES):
            for name, parameter in self._space.parameters.items():
                values = parameter.values()
                flags[name] = values[rng.integers(len(values))]
            if triples:
                flags |= dict(zip(TREE_FLAGS, triples[rng.integers(len(triples))], strict=True))
            flags = self._space.canonical(flags)
            if flag_key(flags) not in taken:
                break
        return flags


class RandomSampler(_Independent):
    """Uniform on the legal configurations."""

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        return self._uniform(study, number)


class SweepSampler(_Independent):
    """The hand sweep: one flag after the other, from the best so far, again and again."""

    def __init__(self, space: SearchSpace, objective: Objective, seed: int) -> None:
        super().__init__(space, seed)
        self._objective = objective
        self._factors = sorted(space.parameters, key=lambda name: name not in TREE_FLAGS)
        self._waiting: list[dict[str, FlagValue]] = []
        self._n_factors = 0

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        taken = _taken(study, self._space)
        for _ in range(2 * len(self._factors)):
            self._waiting = [f for f in self._waiting if flag_key(f) not in taken]
            if self._waiting:
                return self._waiting.pop(0)
            centre = observed(study, self._space, self._objective) or self._uniform(study, number)
            factor = self._factors[self._n_factors % len(self._factors)]
            self._n_factors += 1
            self._waiting = [
                self._space.nearest_legal(centre | {factor: v}) for v in self._values(factor)
            ]
            self._waiting = list({flag_key(flags): flags for flags in self._waiting}.values())
        return self._uniform(study, number)

    def _values(self, factor: str) -> list[FlagValue]:
        values = self._space.parameters[factor].values()
        places = np.linspace(0, len(values) - 1, min(len(values), _SWEEP_VALUES)).round()
        return [values[int(place)] for place in places]


class GaussianProcessSampler(_Independent):
    """Optuna's GPSampler on the rectangle of all ranges, moved to the nearest legal configuration.

    Failed launches are passed over, as Optuna does; a repetition is drawn at random instead.
    """

    _N_STARTUP = 6

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if "fixed_params" in trial.system_attrs:
            return {}
        inner = GPSampler(seed=self._seed * 1009 + trial.number, n_startup_trials=self._N_STARTUP)
        drawn = inner.sample_relative(study, trial, search_space)
        flags = self._space.nearest_legal(drawn) if drawn else self._uniform(study, trial.number)
        if flag_key(flags) in _taken(study, self._space):
            flags = self._uniform(study, trial.number)
        return {name: flags[name] for name in search_space}


def _taken(study: Study, space: SearchSpace) -> set[FlagKey]:
    """Configurations of the trials before."""
    trials = study.get_trials(deepcopy=False)
    names = set(space.parameters)
    return {
        flag_key(space.canonical(trial.params)) for trial in trials if names <= set(trial.params)
    }


def observed(study: Study, space: SearchSpace, objective: Objective) -> dict[str, FlagValue] | None:
    """The flags of the best measured score; the mean of configurations launched twice."""
    scores: dict[FlagKey, list[float]] = {}
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        key = flag_key(space.canonical(trial.params))
        latency_s, throughput_tok_s = trial.values
        score = objective.score(latency_s, throughput_tok_s, (1.0, 1.0))
        scores.setdefault(key, []).append(score)
    if not scores:
        return None
    best = max(scores, key=lambda key: float(np.mean(scores[key])))
    return space.canonical(dict(best))


def _speculative(space: SearchSpace, objective: Objective, seed: int) -> BaseSampler:
    sampler: BaseSampler = autotune.search.SpeculativeSampler(space, objective, seed=seed)
    return sampler


SAMPLERS: dict[str, Make] = {
    "speculative": _speculative,
    "tpe": lambda space, objective, seed: CanonicalTPESampler(space, seed=seed),
    "random": lambda space, objective, seed: RandomSampler(space, seed),
    "sweep": SweepSampler,
    "gp": lambda space, objective, seed: GaussianProcessSampler(space, seed),
}
BY_MODEL = frozenset({"speculative"})
"""Samplers whose recommendation is that of their model; the others' is the best observed score."""


def why_missing(name: str) -> str | None:
    """Why a sampler cannot take part here; None: it can."""
    if name == "speculative" and not hasattr(autotune.search, "SpeculativeSampler"):
        return "this version of autotune has none"
    if name == "gp" and importlib.util.find_spec("torch") is None:
        return "it needs torch, which is not installed"
    return None if name in SAMPLERS else f"one of {', '.join(SAMPLERS)}"
