"""Samplers to hold the default one against, all on the same canonical space, and all by name.

Random, grid and sweep know no model: they are what is done by hand. None of them launches a
configuration twice.
"""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.core.objective import Objective
from autotune.core.ranking import FlagKey, flag_key
from autotune.core.trial import FlagValue, record_from
from autotune.errors import ConfigError, nearest
from autotune.search.observation import observations
from autotune.search.sampler import CanonicalTPESampler, SpaceExhausted
from autotune.search.speculative import SpeculativeSampler
from autotune.space import SearchSpace
from autotune.space.rules import TREE_FLAGS

DEFAULT = "speculative"
_TRIES = 200
_SWEEP_VALUES = 8
"""A person tries no more values of one flag than this."""
_GRID_LIMIT = 100_000


class Proposer(Protocol):
    """What a tuner asks of a sampler."""

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """The canonical flags for trial ``number``.

        Raises:
            SpaceExhausted: none is left.
        """
        ...


class SimpleSampler(BaseSampler):
    """What Optuna's protocol wants besides ``propose``. Its state is the study alone.

    Args:
        space: the canonical space.
        seed: makes the proposals reproducible for the same study.
    """

    def __init__(self, space: SearchSpace, *, seed: int = 0) -> None:
        self._space, self._seed = space, seed

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """The whole space, the same for every trial."""
        return self._space.distributions()

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """What ``propose`` says; nothing for an enqueued trial or when nothing is left."""
        if "fixed_params" in trial.system_attrs:  # Optuna's mark of an enqueued trial
            return {}
        try:
            flags = self.propose(study, trial.number)
        except SpaceExhausted:
            return {}
        return {name: flags[name] for name in search_space}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, name: str, distribution: BaseDistribution
    ) -> Any:  # noqa: ANN401 (Optuna's signature)
        """Only reached for a range that ``sample_relative`` did not draw: the first value."""
        return self._space.parameters[name].values()[0]

    @abstractmethod
    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """See ``Proposer``."""

    def _uniform(self, study: Study, number: int) -> dict[str, FlagValue]:
        """A legal configuration that was not launched yet, each as likely as any other."""
        rng = np.random.default_rng([self._seed, number])
        taken = _taken(study, self._space, number)
        triples = [] if self._space.tree is None else list(self._space.tree.triples())
        for _ in range(_TRIES):
            flags: dict[str, FlagValue] = {}
            for name, parameter in self._space.parameters.items():
                values = parameter.values()
                flags[name] = values[rng.integers(len(values))]
            if triples:
                flags |= dict(zip(TREE_FLAGS, triples[rng.integers(len(triples))], strict=True))
            flags = self._space.nearest_legal(flags)
            if flag_key(flags) not in taken:
                return flags
        left = (f for f in self._space.configurations() if flag_key(f) not in taken)
        found = next(left, None)
        if found is None:
            raise SpaceExhausted
        return found


class RandomSampler(SimpleSampler):
    """Uniform on the legal configurations."""

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """A legal configuration that was not launched yet."""
        return self._uniform(study, number)


class GridSampler(SimpleSampler):
    """Every configuration of the space, far apart first: each launch halves the widest gap.

    Raises:
        ConfigError: the space is too large for a grid.
    """

    def __init__(self, space: SearchSpace, *, seed: int = 0) -> None:
        super().__init__(space, seed=seed)
        if space.size > _GRID_LIMIT:
            raise ConfigError(
                f"space {space.name} has {space.size:,} configurations, too many for a grid",
                hint="give fewer values, or use --sampler random",
            )
        self._configurations: list[dict[str, FlagValue]] = []

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """The next one that was not launched yet."""
        taken = _taken(study, self._space, number)
        self._configurations = self._configurations or list(self._space.configurations())
        for place in _far_apart(len(self._configurations)):
            if flag_key(self._configurations[place]) not in taken:
                return self._configurations[place]
        raise SpaceExhausted


class SweepSampler(SimpleSampler):
    """The hand sweep: one flag at a time around the best so far, then the next flag.

    Where a better configuration turns up, its flags are swept in turn.
    """

    def __init__(self, space: SearchSpace, objective: Objective, *, seed: int = 0) -> None:
        super().__init__(space, seed=seed)
        self._objective = objective
        self._factors = sorted(space.parameters, key=lambda name: name not in TREE_FLAGS)

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """The first value of the first flag that was not tried around the best so far."""
        taken = _taken(study, self._space, number)
        centre = self._centre(study, number)
        for flags in self._around(centre) if centre else ():
            if flag_key(flags) not in taken:
                return flags
        return self._uniform(study, number)

    def _around(self, centre: Mapping[str, FlagValue]) -> Iterator[dict[str, FlagValue]]:
        for factor in self._factors:
            values = self._space.parameters[factor].values()
            places = np.linspace(0, len(values) - 1, min(len(values), _SWEEP_VALUES)).round()
            for place in places:
                yield self._space.nearest_legal({**centre, factor: values[int(place)]})

    def _centre(self, study: Study, number: int) -> dict[str, FlagValue] | None:
        """The flags of the best measured score that keeps the constraints; None: there is none."""
        w, best, flags = self._objective.latency_weight, -np.inf, None
        for seen in observations(study, self._space, but=number):
            if not seen.is_feasible or seen.latency is None or seen.throughput is None:
                continue
            if self._space.parameters.keys() - seen.flags.keys():
                continue  # speculation off, or flags that nobody knows
            score = (1 - w) * seen.throughput.log - w * seen.latency.log
            if score > best:
                best, flags = score, seen.flags
        return flags


class GaussianProcessSampler(SimpleSampler):
    """Optuna's GPSampler on the rectangle of all ranges, moved to the nearest legal configuration.

    Failed launches are passed over, as Optuna does; a repetition is drawn at random instead.
    """

    _N_STARTUP = 6

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """What Optuna's process likes best, if it was not launched yet."""
        inner = GPSampler(seed=self._seed * 1009 + number, n_startup_trials=self._N_STARTUP)
        newcomer = create_trial(state=TrialState.RUNNING)
        newcomer.number = number
        drawn = inner.sample_relative(study, newcomer, self._space.distributions())
        flags = self._space.nearest_legal(drawn) if drawn else self._uniform(study, number)
        if flag_key(flags) in _taken(study, self._space, number):
            return self._uniform(study, number)
        return flags


def _taken(study: Study, space: SearchSpace, number: int) -> set[FlagKey]:
    """Configurations of the other trials, but for launches that were cut off."""
    taken: set[FlagKey] = set()
    for trial in study.get_trials(deepcopy=False):
        record = record_from(trial.user_attrs.get("record"))
        if trial.number == number or (record and record.is_interrupted):
            continue
        if record is not None:
            taken.add(flag_key(record.flags))
        elif trial.params.keys() >= space.parameters.keys():
            known = {name: trial.params[name] for name in space.parameters}
            taken.add(flag_key(space.canonical(known)))
    return taken


def _far_apart(n: int) -> Iterator[int]:
    """0 to n - 1, each as far from those before as can be (van der Corput's order)."""
    bits = max(1, (n - 1).bit_length())
    for i in range(2**bits):
        place = int(f"{i:0{bits}b}"[::-1], 2)
        if place < n:
            yield place


AnySampler = SpeculativeSampler | CanonicalTPESampler | SimpleSampler
_MAKERS: dict[str, Callable[[SearchSpace, Objective, int], AnySampler]] = {
    DEFAULT: lambda space, objective, seed: SpeculativeSampler(space, objective, seed=seed),
    "tpe": lambda space, objective, seed: CanonicalTPESampler(space, seed=seed),
    "gp": lambda space, objective, seed: GaussianProcessSampler(space, seed=seed),
    "random": lambda space, objective, seed: RandomSampler(space, seed=seed),
    "grid": lambda space, objective, seed: GridSampler(space, seed=seed),
    "sweep": lambda space, objective, seed: SweepSampler(space, objective, seed=seed),
}
SAMPLERS = tuple(_MAKERS)


def sampler_named(name: str, space: SearchSpace, objective: Objective, *, seed: int) -> AnySampler:
    """The sampler of this name.

    Raises:
        ConfigError: there is none, something that it needs is not installed, or it cannot search
            this space.
    """
    if name not in _MAKERS:
        raise ConfigError(f"there is no sampler named {name!r}: {nearest(name, SAMPLERS)}")
    if name == "gp" and importlib.util.find_spec("torch") is None:
        raise ConfigError(
            "the sampler gp needs torch, which is not installed",
            hint="pip install torch, or use --sampler speculative, which needs none",
        )
    return _MAKERS[name](space, objective, seed)
