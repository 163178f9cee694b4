"""Optuna's TPE on the canonical space: legal configurations, each launched once.

TPE proposes on the rectangle of all ranges; a proposal is moved to the nearest legal configuration
and passed over when it was launched before, is running, or lies behind a wall that a failed launch
has shown. Optuna's own TPE does none of this: it ignores failed trials and repeats points.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState, create_trial

from autotune.core.ranking import FlagKey, flag_key
from autotune.core.trial import Flags, FlagValue, TrialRecord, record_from
from autotune.search.walls import MemoryWalls
from autotune.space import SearchSpace
from autotune.space.rules import DRAFT

_TRIES = 64
_RANDOM_TRIES = 2048
_SMALL_TREES = 2.5
"""Power that bends random draft tokens towards small trees: of all legal trees nine in ten verify
more than 16 tokens, and published recipes verify 3 to 16."""
_ENUMERABLE = 20_000
"""Spaces up to this size are searched to the last configuration; larger ones never run out."""


class SpaceExhausted(Exception):
    """Every configuration that can live was launched."""


class CanonicalTPESampler(BaseSampler):
    """Multi-objective TPE over the legal configurations of a space.

    Its state is the study alone, so a resumed study goes on where it stopped. Safe for one process;
    running trials count as taken, so that parallel workers do not propose the same.

    Args:
        space: the canonical space.
        n_startup: random proposals before TPE has enough trials to learn from.
        seed: makes the proposals reproducible for the same study.
    """

    def __init__(self, space: SearchSpace, *, n_startup: int = 6, seed: int | None = None) -> None:
        self._space = space
        self._seed = seed
        self._n_startup = n_startup

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

    def propose(self, study: Study, number: int) -> dict[str, FlagValue]:
        """The canonical flags for trial ``number``: legal, and not launched yet.

        Raises:
            SpaceExhausted: none is left.
        """
        taken, walls = self._known(study, number)
        for flags in self._proposals(study, number):
            if flag_key(flags) not in taken and walls.why_not(flags) is None:
                return flags
        raise SpaceExhausted

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:  # noqa: ANN401 (Optuna's signature)
        """Only reached for a range that ``sample_relative`` did not draw."""
        return self._tpe(trial.number).sample_independent(
            study, trial, param_name, param_distribution
        )

    def _tpe(self, number: int) -> TPESampler:
        """Optuna's sampler, seeded by the trial's number: a resumed study proposes the same."""
        seed = None if self._seed is None else (self._seed * 100_003 + number) % 2**32
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return TPESampler(
                n_startup_trials=self._n_startup,
                multivariate=True,
                constant_liar=False,  # running trials are passed over here, not there
                seed=seed,
            )

    def _known(self, study: Study, number: int) -> tuple[set[FlagKey], MemoryWalls]:
        taken: set[FlagKey] = set()
        records: list[TrialRecord] = []
        for other in study.get_trials(deepcopy=False):
            record = record_from(other.user_attrs.get("record"))
            if record is not None:
                records.append(record)
            if other.number == number or (record and record.is_interrupted):
                continue
            flags = record.flags if record else other.params
            if flags:
                taken.add(flag_key(flags if record else self._canonical(flags)))
        return taken, MemoryWalls.learn(records)

    def _canonical(self, params: Flags) -> dict[str, FlagValue]:
        known = {name: v for name, v in params.items() if name in self._space.parameters}
        return self._space.canonical(known)

    def _proposals(self, study: Study, number: int) -> Iterator[dict[str, FlagValue]]:
        """TPE's proposals, then random ones, then what is left of a small space."""
        tpe, search_space = self._tpe(number), self._space.distributions()
        newcomer = create_trial(state=TrialState.RUNNING)
        newcomer.number = number
        rng = np.random.default_rng([self._seed or 0, number])
        for _ in range(_TRIES):
            drawn = tpe.sample_relative(study, newcomer, search_space)
            yield self._space.nearest_legal(drawn or self._random_point(rng))
        if self._space.size > _ENUMERABLE:
            for _ in range(_RANDOM_TRIES):
                yield self._space.nearest_legal(self._random_point(rng))
            return
        configurations = list(self._space.configurations())
        for index in rng.permutation(len(configurations)):
            yield configurations[index]

    def _random_point(self, rng: np.random.Generator) -> dict[str, FlagValue]:
        point = {}
        for name, parameter in self._space.parameters.items():
            values = parameter.values()
            place = rng.random() ** (_SMALL_TREES if name == DRAFT else 1.0)
            point[name] = values[int(place * len(values))]
        return point
