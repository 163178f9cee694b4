"""What an earlier study is worth to this one: moved priors, believed as far as launches bear out.

An earlier study (of another machine, another model, or a table of hand measurements) leaves a
posterior over the unknowns of the cost model. Here it stands as a pseudo-observation of those
unknowns, with their drift between boxes added to its variance. How fast a box is as a whole does
not carry over: the scales stay with the first launch.

Two groups carry over each by itself, because another machine changes the costs and keeps the
acceptance, and another model or workload may do the reverse. Which of them to believe is decided by
the evidence of this study's own launches (Laplace), so that what misleads is dropped as soon as
they speak against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from optuna.study import Study
from optuna.trial import TrialState, create_trial

from autotune.core.objective import Objective
from autotune.core.trial import Flags
from autotune.errors import SpaceError
from autotune.search.cost import INDEX
from autotune.search.least_squares import Posterior
from autotune.search.observation import Observation, observe
from autotune.space import SearchSpace
from autotune.space.rules import MEMORY

Array = npt.NDArray[np.float64]

ATTRIBUTE = "warm_start"
"""Name of the Optuna study's user attribute that holds a ``WarmStart``."""

ACCEPTANCE = tuple(INDEX[name] for name in ("q_logit", "log_spread", "log_decay", "rho_logit"))
COSTS = tuple(
    i
    for name, i in INDEX.items()
    if i not in ACCEPTANCE and name not in ("log_latency", "log_load")
)
_DRIFT_SD = 0.35
"""Of each unknown between boxes that are alike, in standard deviations of its broad prior."""
_DOUBT = 1.0
"""Log odds against each belief before any launch: a prior that is right soon makes up for it."""
_MOST_FIRST = 2


class WarmStart(msgspec.Struct, frozen=True, kw_only=True):
    """What a study was started from, kept in it.

    Attributes:
        source: where it comes from, in words.
        records: trial records (schema 1), as far as they are known.
        first: configurations to launch first, by searched flag; at most two are.
    """

    source: str
    records: tuple[dict[str, Any], ...] = ()
    first: tuple[dict[str, int | float | str | bool], ...] = ()


def warm_start_of(study: Study) -> WarmStart | None:
    """What a study was started from; None: nothing that this version reads."""
    raw = study.user_attrs.get(ATTRIBUTE)
    if raw is None:
        return None
    try:
        return msgspec.convert(raw, WarmStart, strict=False)
    except msgspec.ValidationError:
        return None


def keep_warm_start(study: Study, warm: WarmStart) -> None:
    """Keeps it in a study that has none yet."""
    if ATTRIBUTE not in study.user_attrs:
        study.set_user_attr(ATTRIBUTE, msgspec.to_builtins(warm))


def observed(warm: WarmStart, space: SearchSpace) -> list[Observation]:
    """Its measured records, as observations of this space; what the space does not know is left."""
    found = []
    for number, record in enumerate(warm.records):
        trial = create_trial(state=TrialState.RUNNING, user_attrs={"record": record})
        trial.number = number
        seen = observe(trial, space)
        if seen is not None and seen.outcome == "measured":
            found.append(replace(seen, violations={}))
    return found


def first_launches(
    warm: WarmStart, space: SearchSpace, objective: Objective, seen: Sequence[Observation]
) -> Iterator[dict[str, Any]]:
    """Legal configurations to launch first, the most promising first.

    Those that were named, else the best measured one where no physics can carry it over. The memory
    fraction is that of the first launch of this study, which lived: another machine's may not.
    """
    named: list[Flags] = list(warm.first)
    if not named and space.tree is None:
        named = _best_first(observed(warm, space), objective)[:1]
    base = next((o.flags for o in seen if o.outcome == "measured"), {})
    for flags in named[:_MOST_FIRST]:
        known = {name: value for name, value in flags.items() if name in space.names}
        kept = {MEMORY: base[MEMORY]} if MEMORY in base else {}
        try:
            yield space.nearest_legal({**base, **known, **kept})
        except SpaceError:
            continue


def _best_first(measured: Sequence[Observation], objective: Objective) -> list[Flags]:
    w = objective.latency_weight
    scored = [
        ((1 - w) * o.throughput.log - w * o.latency.log, o.flags)
        for o in measured
        if o.latency is not None and o.throughput is not None
    ]
    return [flags for _, flags in sorted(scored, key=lambda pair: -pair[0])]


@dataclass(frozen=True, slots=True)
class Belief:
    """A pseudo-observation of some unknowns.

    Attributes:
        names: which of the two groups carry over.
        places: indices of the unknowns.
        centre: shape (n,).
        covariance: shape (n, n).
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    centre: Array
    covariance: Array

    def log_odds(self, posterior: Posterior, loss: float) -> float:
        """Laplace evidence of the launches under this belief; comparable between beliefs.

        Args:
            posterior: of a fit that had this pseudo-observation among its blocks.
            loss: of that fit at its centre, pseudo-observation and prior included.
        """
        evidence = -loss - float(np.log(np.diag(posterior.factor)).sum())
        if not self.places:
            return evidence
        whole = self.covariance + np.eye(len(self.places))
        evidence += 0.5 * float(self.centre @ np.linalg.solve(whole, self.centre))
        evidence += 0.5 * float(np.linalg.slogdet(whole)[1])
        evidence -= 0.5 * float(np.linalg.slogdet(self.covariance)[1])
        return evidence - _DOUBT * len(self.names)


NOTHING = Belief((), (), np.zeros(0), np.zeros((0, 0)))


@dataclass(frozen=True, slots=True)
class EarlierKnowledge:
    """The posterior that earlier measurements left over the unknowns of the cost model.

    Attributes:
        centre: shape (unknowns,), in standard deviations of the broad prior.
        covariance: shape (unknowns, unknowns).
    """

    centre: Array
    covariance: Array
    beliefs: tuple[Belief, ...] = field(init=False)

    def __post_init__(self) -> None:
        groups = {"acceptance": ACCEPTANCE, "costs": COSTS}
        chosen = (("acceptance", "costs"), ("acceptance",), ("costs",))
        told = tuple(
            self._belief(names, tuple(i for name in names for i in groups[name]))
            for names in chosen
        )
        object.__setattr__(self, "beliefs", (*told, NOTHING))

    def _belief(self, names: tuple[str, ...], places: tuple[int, ...]) -> Belief:
        at = np.array(places)
        covariance = self.covariance[np.ix_(at, at)] + _DRIFT_SD**2 * np.eye(at.size)
        return Belief(names, places, self.centre[at], covariance)

    @classmethod
    def of(cls, posterior: Posterior) -> EarlierKnowledge:
        """From the posterior of an earlier fit."""
        inverse = np.linalg.inv(posterior.factor)
        return cls(posterior.centre, np.asarray(inverse.T @ inverse))


def earlier_knowledge(study: Study, space: SearchSpace) -> EarlierKnowledge | None:
    """What the warm start of a study teaches of the physics; None: nothing."""
    warm = warm_start_of(study)
    if warm is None or not warm.records or space.tree is None:
        return None
    return _learned(msgspec.json.encode(warm.records), space)


@lru_cache(maxsize=8)
def _learned(records: bytes, space: SearchSpace) -> EarlierKnowledge | None:
    """Once for each warm start: it does not change while a study runs."""
    from autotune.search.encoding import Encoder
    from autotune.search.surrogate import Surrogate

    seen = observed(WarmStart(source="", records=tuple(msgspec.json.decode(records))), space)
    if not seen:
        return None
    posterior = Surrogate(Encoder(space), seen, np.random.default_rng(0), 2).posterior
    return None if posterior is None else EarlierKnowledge.of(posterior)
