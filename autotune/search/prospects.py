"""Whether a launch is worth its long phases, once its first one is measured.

The first phase tells how fast one request is, how many tokens a verify pass yields, and what fits
into memory; together with all earlier launches that leaves a posterior of the throughput that the
long phases would measure. Where it says that no throughput to be expected makes this
configuration the recommended one, or adds to the front, the long phases are minutes for nothing.

Measured elsewhere: launches that are left after C=1 by a fixed margin of 10 % save 13 to 18 % of
all minutes, and 2 to 5 % of them are left wrongly. Here no margin is fixed: the doubt decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from optuna.study import Study
from optuna.trial import TrialState, create_trial
from scipy.special import ndtr

from autotune.core.objective import Objective
from autotune.core.ranking import flag_key
from autotune.search.acquisition import expected_hypervolume_improvement, hypervolume
from autotune.search.constraints import NOISE_SD, squeezed
from autotune.search.knowledge import Knowledge
from autotune.search.observation import Observation, observations, observe
from autotune.search.recommend import TIE
from autotune.search.warm import earlier_knowledge
from autotune.space import SearchSpace

Array = npt.NDArray[np.float64]

MIN_CONFIGURATIONS = 3
"""Measured ones; with fewer the model has not yet been shown where it is wrong."""
_LIKELY = 0.01
_GROWTH = 0.005
"""Probability of being best, and growth of the front, that are too little for the long phases."""
_ROUNDS = 16
"""Joint draws of what the physics miss, for each draw of their unknowns."""
_BEYOND = 0.1
"""The front's area is counted from this far (log scale) below the worst value in sight."""


@dataclass(frozen=True, slots=True)
class Prospects:
    """Of a launch whose first phase is measured.

    Attributes:
        best: probability that it would be recommended, ties with what is recommended included; what
            breaks a constraint beyond doubt is not.
        front: expected growth of the front's area, as a share of it.
        is_faster: it keeps the constraints so far, and serves one request faster than what is
            recommended now, as measured or by the model; then it is always worth the long phases.
    """

    best: float
    front: float
    is_faster: bool

    @property
    def are_hopeless(self) -> bool:
        """Whether the long phases could change nothing worth their minutes."""
        return not self.is_faster and self.best < _LIKELY and self.front < _GROWTH

    def why(self) -> str:
        """The state of things in words, after "pruned after C=1:"."""
        return (
            f"{_less(self.best)} likely to become the best, and the front would grow by "
            f"{_less(self.front)}"
        )


def prospects(
    study: Study,
    space: SearchSpace,
    objective: Objective,
    record: Mapping[str, Any],
    *,
    seed: int = 0,
) -> Prospects | None:
    """What the long phases of a running launch may still bring.

    Args:
        record: of the launch as far as it is: flags, effective settings, its first phase.

    Returns:
        None where too little is known to tell: fewer than three measured configurations, none that
        keeps the constraints, or a first phase without a latency.
    """
    number = int(record["number"])
    seen = observations(study, space, but=number)
    new = _so_far(record, space)
    kept = [o for o in seen if o.is_feasible and not o.is_reference]
    if new is None or len({flag_key(o.flags) for o in kept}) < MIN_CONFIGURATIONS:
        return None
    earlier = earlier_knowledge(study, space)
    return _judged(Knowledge(space, objective, [*seen, new], [seed, number], earlier), new)


def _so_far(record: Mapping[str, Any], space: SearchSpace) -> Observation | None:
    """The launch as it would be known if it ended here."""
    trial = create_trial(
        state=TrialState.RUNNING, user_attrs={"record": {**record, "status": "pruned"}}
    )
    trial.number = int(record["number"])
    new = observe(trial, space)
    return new if new is not None and new.latency is not None else None


def _judged(known: Knowledge, new: Observation) -> Prospects:
    kept, held = known.in_hand
    features = known.catalogue.encoder.features([new.flags, *(o.flags for o in kept)])
    own = known.surrogate.predict([new.flags], features.at(np.array([0])))
    w = known.weight
    means = np.hstack([own.score(w), held.score(w)])
    rounds = [means + known.surrogate.score_deviations(features, w) for _ in range(_ROUNDS)]
    scores = np.vstack(rounds)
    now = int(np.argmax(held.score(w).mean(axis=0)))
    rival = kept[now].latency
    is_faster = bool(own.log_latency.mean() < held.log_latency[:, now].mean())
    if rival is not None and new.latency is not None:
        is_faster |= new.latency.log < rival.log
    kept_yet = _keeps(new)
    growth = _growth(known, own.log_latency, own.log_throughput, own.latency_sd, own.throughput_sd)
    return Prospects(
        best=kept_yet * float((scores[:, 0] >= scores[:, 1:].max(axis=1) - TIE).mean()),
        front=kept_yet * growth,
        is_faster=is_faster and kept_yet >= _LIKELY,
    )


def _keeps(new: Observation) -> float:
    """Probability that the constraints broken so far are kept in truth, and noise broke them."""
    off = squeezed(np.array([v for v in new.violations.values() if v > 0]))
    return float(np.prod(ndtr(-off / NOISE_SD)))


def _growth(
    known: Knowledge, latency: Array, throughput: Array, latency_sd: Array, throughput_sd: Array
) -> float:
    """Expected growth of the area that the front in hand dominates, as a share of it."""
    _, held = known.in_hand
    front = np.column_stack([-held.log_latency.mean(axis=0), held.log_throughput.mean(axis=0)])
    own = np.array([[-latency.mean(), throughput.mean()]])
    reference = np.vstack([front, own]).min(axis=0) - _BEYOND
    normals = known.rng.standard_normal((2, _ROUNDS, *latency.shape))
    sampled = np.stack(
        [
            -(latency + latency_sd * normals[0]).reshape(-1, 1),
            (throughput + throughput_sd * normals[1]).reshape(-1, 1),
        ],
        axis=-1,
    )
    grown = expected_hypervolume_improvement(sampled, front, reference)
    return float(grown[0] / hypervolume(front, reference))


def _less(share: float) -> str:
    return "less than 0.1 %" if share < 0.001 else f"{100 * share:.1f} %"
