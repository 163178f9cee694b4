"""The hand sweep that the scenario ``qwen3.5-122b-sweep`` is fitted to, and its procedure.

Qwen3.5-122B-A10B in BF16 on RTX PRO 6000 Blackwell 96 GB, EAGLE, topk 1. ``aggregate`` is all
tokens over the wall time of the whole run, so its ramp and its tail are in it; ``per_request`` is
the mean speed of one request.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from autotune.engine.simulated.physics import Speculation
from autotune.engine.simulated.scenarios import SCENARIOS
from autotune.engine.simulated.virtual import Played, Shape, deploy, play

SCENARIO = SCENARIOS["qwen3.5-122b-sweep"]
FRACTION = 0.85
N_REQUESTS = {1: 4, 4: 8, 16: 32, 32: 64}


@dataclass(frozen=True, slots=True)
class Cell:
    steps: int
    concurrency: int
    per_request_tok_s: float | None = None
    aggregate_tok_s: float | None = None


CELLS = (
    Cell(1, 1, 123.0),
    Cell(2, 1, 186.0),
    Cell(3, 1, 234.0),
    Cell(3, 16, None, 1733.0),
    Cell(4, 1, 277.4, 270.4),
    Cell(4, 4, None, 830.3),
    Cell(4, 16, None, 1595.7),
    Cell(4, 32, None, 1773.0),
    Cell(5, 1, 281.7, 274.4),
    Cell(5, 4, 221.6, 785.1),
    Cell(5, 16, 186.8, 1119.4),
    Cell(5, 32, 190.7, 1273.3),
)
RUNNING_LIMITS = {1: 26, 4: 14}


def swept(steps: int, concurrency: int, seed: int = 0) -> Played:
    """One cell as it was measured: a burst of requests, 1,000 tokens each at C=1.

    At the other loads the sweep's answers were 925 to 969 tokens long on average: here 43 % of
    them end early, spread evenly from 444 to 1,000 tokens, and the rest are cut at 1,000.
    """
    n = N_REQUESTS[concurrency]
    n_short = 0 if concurrency == 1 else round(0.434 * n)
    lengths = [int(444 + 556 * (i + 0.5) / n_short) for i in range(n_short)]
    lengths += [1000] * (n - n_short)
    Random(seed).shuffle(lengths)
    deployment, accept = deploy(SCENARIO, Speculation(steps, 1, steps + 1), mem_fraction=FRACTION)
    shapes = [Shape(887, length) for length in lengths]
    return play(deployment, accept, shapes, concurrency, seed=seed)
