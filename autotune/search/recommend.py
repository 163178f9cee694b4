"""What to deploy now, and whether another launch would pay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from optuna.study import Study

from autotune.core.objective import Objective
from autotune.core.ranking import simplicity
from autotune.core.trial import Flags
from autotune.search.gains import score_gain
from autotune.search.knowledge import Knowledge
from autotune.search.observation import observations
from autotune.search.warm import earlier_knowledge
from autotune.space import SearchSpace

Array = npt.NDArray[np.float64]

TIE = 0.004
"""Scores this close are a tie: no practical study resolves them, and the simpler flags win."""
_CONTENDERS = 150
_STOP_GAIN = 0.01
_STOP_NEXT = 0.001
_STOP_MOST, _STOP_SURE = 0.03, 0.8
"""Enough is known where the next launch is expected to bring less than the first, and it is this
sure that nothing left is better by the second. One alone is not: in a wide space no single launch
promises much, and where much is alike something is always a little better by luck."""
_DOUBT = 1.5
"""By how much the process is taken to be wider than it says: its own shape is a guess."""
_ROUNDS = 8
"""Joint draws of what the physics miss, for each draw of their unknowns."""
_HOPELESS = 0.97
"""So sure that no configuration keeps the limits that the search gives up."""
_NEVER_SURER = 0.99
"""Some dozen draws cannot show more."""
_MIN_MEASURED = 4


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The best configuration in hand.

    Attributes:
        flags: canonical; empty where nothing was measured.
        trial: number of its first launch; None where nothing was measured.
        score: against the first launch, posterior mean (log scale); not the best value observed,
            which is too good by luck.
        score_sd: its standard deviation.
        next_gain: that one more launch is expected to bring, as a fraction.
        expected_further_gain: of the best configuration not in hand over this one, as a fraction.
        sure_below: probability that this gain is below 1 %.
        stop: a further launch is not worth its minutes.
        n_launches: that it rests on.
        keeps_limits: it keeps every constraint; where none does, ``sure_below`` is the probability
            that the likeliest configuration does not either.
    """

    flags: Flags
    trial: int | None
    score: float
    score_sd: float
    next_gain: float
    expected_further_gain: float
    sure_below: float
    stop: bool
    n_launches: int
    keeps_limits: bool = True

    def why(self) -> str:
        """The state of the search in one sentence."""
        if not self.keeps_limits:
            return (
                "no launch has kept every limit, and the likeliest one left does so with "
                f"{100 * (1 - self.sure_below):.0f} %"
            )
        sure = min(self.sure_below, _NEVER_SURER)
        return (
            f"expected further gain {100 * self.expected_further_gain:.1f} %, "
            f"{100 * sure:.0f} % sure it is below {100 * _STOP_GAIN:.0f} %, "
            f"the next launch would bring {100 * self.next_gain:.1f} %"
        )


_INF = float("inf")
NOTHING = Recommendation({}, None, 0.0, _INF, _INF, _INF, 0.0, False, 0)


def recommend(
    study: Study, space: SearchSpace, objective: Objective, *, seed: int = 0
) -> Recommendation:
    """The configuration to deploy after the launches of a study so far.

    Only configurations that were measured are recommended, by their posterior value, and among
    those the ones that keep every constraint; where none does, the one that comes closest.
    """
    seen = observations(study, space)
    if not any(o.outcome == "measured" for o in seen):
        return NOTHING
    earlier = earlier_knowledge(study, space)
    return recommended(Knowledge(space, objective, seen, [seed, len(seen)], earlier))


def recommended(known: Knowledge) -> Recommendation:
    """As ``recommend``, from what was already learned."""
    kept, predictions = known.in_hand
    scores = predictions.score(known.weight)
    worth = predictions.worth(known.weight).mean(axis=0)
    tied = np.flatnonzero(worth >= worth.max() - TIE)
    chosen = int(min(tied, key=lambda i: (simplicity(kept[i].flags), -worth[i])))
    n_measured = len(known.chosen_from)
    if known.is_feasible:
        gain, next_gain = _further_gain(known, chosen), _next_gain(known)
        expected, sure = float(np.expm1(gain).mean()), _share_below(gain, _STOP_GAIN)
        enough = next_gain <= _STOP_NEXT and _share_below(gain, _STOP_MOST) >= _STOP_SURE
    else:
        chosen = next(i for i, o in enumerate(kept) if o is known.closest)
        expected, next_gain, sure = _INF, _INF, 1.0 - _likeliest(known)
        enough = sure >= _HOPELESS
    return Recommendation(
        flags=kept[chosen].flags,
        trial=kept[chosen].number,
        score=float(scores[:, chosen].mean()),
        score_sd=float(
            np.hypot(scores[:, chosen].std(), predictions.score_sd(known.weight)[chosen])
        ),
        next_gain=next_gain,
        expected_further_gain=expected,
        sure_below=sure,
        stop=n_measured >= _MIN_MEASURED and enough,
        n_launches=n_measured,
        keeps_limits=known.is_feasible,
    )


def _share_below(gain: Array, bound: float) -> float:
    return float((gain < np.log1p(bound)).mean())


def _next_gain(known: Knowledge) -> float:
    """What the launch that promises most is expected to bring, as a fraction."""
    _, predictions = known.candidates
    lives = predictions.survival * predictions.feasible
    return float(np.max(np.expm1(score_gain(known)) * lives, initial=0.0))


def _likeliest(known: Knowledge) -> float:
    """The best chance that a configuration not in hand lives and keeps every constraint."""
    _, predictions = known.candidates
    return float(np.max(predictions.feasible * predictions.survival, initial=0.0))


def _further_gain(known: Knowledge, chosen: int) -> Array:
    """Draws of how far the best configuration that lives lies above the chosen one, at least 0.

    Drawn jointly over the most promising configurations and those in hand: neighbours rise and
    fall together, strangers do not.
    """
    kept, held = known.in_hand
    flags, predictions = known.candidates
    worth = predictions.worth_if_it_lives(known.weight)
    promise = worth.mean(axis=0) + predictions.score_sd(known.weight) + worth.std(axis=0)
    order = np.argsort(promise)[::-1][:_CONTENDERS]
    looked_at = [kept[chosen].flags, *(flags[i] for i in order)]
    features = known.catalogue.encoder.features(looked_at)
    means = np.column_stack([held.worth(known.weight)[:, chosen], worth[:, order]])
    may_be = (predictions.survival * predictions.feasible)[order]
    gains = []
    for _ in range(_ROUNDS):
        values = means + _DOUBT * known.surrogate.score_deviations(features, known.weight)
        lives = known.rng.random((values.shape[0], order.size)) < may_be
        best = np.where(lives, values[:, 1:], -np.inf).max(axis=1, initial=-np.inf)
        gains.append(np.maximum(best - values[:, 0], 0.0))
    return np.concatenate(gains)
