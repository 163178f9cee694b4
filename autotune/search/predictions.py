"""What the models say of configurations that were not launched, or not often enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_DEATH_COST = 0.5
"""Score that is given for a server that does not run out of memory some day."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Of configurations; draws have the shape (draws, configurations).

    Attributes:
        log_latency, log_throughput: means given the unknowns of each draw.
        latency_sd, throughput_sd: of the Gaussian process around each draw, shape (n,).
        survival: probability of a launch that ends well, shape (n,).
        headroom: probability that memory lasts under load, shape (n,): part of ``survival``, and
            what is left to fear of a launch that ended well.
        lasting: ``headroom`` as it will be once a launch has ended well, shape (n,).
        feasible: probability that every constraint is kept, shape (n,).
    """

    log_latency: Array
    log_throughput: Array
    latency_sd: Array
    throughput_sd: Array
    survival: Array
    headroom: Array
    lasting: Array
    feasible: Array

    def score(self, latency_weight: float) -> Array:
        """``-w ln latency + (1 - w) ln throughput`` of each draw."""
        w = latency_weight
        return np.asarray((1.0 - w) * self.log_throughput - w * self.log_latency)

    def worth(self, latency_weight: float) -> Array:
        """The score of each draw, less what the risk to run out of memory in service costs."""
        return self.score(latency_weight) - _DEATH_COST * (1.0 - self.headroom)

    def worth_if_it_lives(self, latency_weight: float) -> Array:
        """``worth`` as it will be once a launch has ended well; the other end is ``survival``."""
        return self.score(latency_weight) - _DEATH_COST * (1.0 - self.lasting)

    def score_sd(self, latency_weight: float) -> Array:
        w = latency_weight
        spread = (w * self.latency_sd) ** 2 + ((1.0 - w) * self.throughput_sd) ** 2
        return np.asarray(np.sqrt(spread))
