"""What each candidate may add: to the best score in hand, and to the front."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.core.ranking import flag_key
from autotune.search.acquisition import (
    expected_hypervolume_improvement,
    expected_improvement,
    told_by_a_launch,
    value_of_replicate,
)
from autotune.search.knowledge import Knowledge
from autotune.search.surrogate import LAUNCH_SD

Array = npt.NDArray[np.float64]

_NOISE = 0.02
_REFERENCE = 0.1


def score_gain(known: Knowledge) -> Array:
    """What a launch of each candidate is expected to add to the best score, shape (n,), log scale.

    Expected improvement where nothing was launched, the worth of a replicate elsewhere; provided
    that the candidate lives and keeps the constraints.
    """
    flags, predictions = known.candidates
    kept, held = known.in_hand
    scores = predictions.worth_if_it_lives(known.weight)
    sd = told_by_a_launch(predictions.score_sd(known.weight), _NOISE)
    in_hand = held.worth(known.weight)
    gain = expected_improvement(scores, sd, in_hand.max(axis=1))
    means = in_hand.mean(axis=0)
    place = {flag_key(o.flags): i for i, o in enumerate(kept)}
    for i, each in enumerate(flags):
        at = place.get(flag_key(each))
        if at is not None:
            others = np.delete(means, at)
            gain[i] = 0.0
            if others.size:
                gain[i] = value_of_replicate(float(means[at]), float(sd[i]), float(others.max()))
    return gain


def front_gain(known: Knowledge) -> Array:
    """What a launch of each candidate is expected to add to the front's hypervolume, shape (n,).

    Above a point a little below all that was measured; log scale, and the same proviso.
    """
    predictions = known.candidates[1]
    _, held = known.in_hand
    front = np.column_stack([-held.log_latency.mean(axis=0), held.log_throughput.mean(axis=0)])
    reference = front.min(axis=0) - _REFERENCE
    normals = known.rng.standard_normal((2, *predictions.log_latency.shape))
    told = [
        told_by_a_launch(sd, LAUNCH_SD * 1.5)
        for sd in (predictions.latency_sd, predictions.throughput_sd)
    ]
    sampled = np.stack(
        [
            -(predictions.log_latency + told[0] * normals[0]),
            predictions.log_throughput + told[1] * normals[1],
        ],
        axis=-1,
    )
    return expected_hypervolume_improvement(sampled, front, reference)
