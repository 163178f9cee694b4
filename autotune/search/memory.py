"""Memory: which fractions and trees live, and how many requests they hold.

Two walls, both monotone. Below, the static pool must hold the weights and a KV cache
(``fraction * gpu - weights > 0``); above, what is left outside it must hold activations and CUDA
graphs, whose size grows with the draft tokens (``(1 - fraction) * gpu - activations - graphs *
draft > margin``). Each launch tells its free memory after capture and its KV tokens, each death a
side of a wall, and newer servers print the bound itself.

The posterior is a set of weighted draws: the told amounts by exact linear regression, the deaths
and successes by weighting. Sizes are GB per GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr

from autotune.core.trial import FailureKind
from autotune.search.observation import Observation
from autotune.space.rules import DRAFT, MEMORY

Array = npt.NDArray[np.float64]

_TOO_MUCH = (FailureKind.GRAPH_CAPTURE_OOM, FailureKind.RUNTIME_OOM)
_TOO_LITTLE = (FailureKind.KV_DOES_NOT_FIT, FailureKind.WEIGHTS_DO_NOT_FIT)
MEMORY_KINDS = frozenset((*_TOO_MUCH, *_TOO_LITTLE))

USUAL_FRACTION = 0.85
"""Where neither the flags nor the server tell the fraction: near SGLang's own choice."""
_USUAL_GPU = (60.0, 30.0)
_WEIGHTS_SHARE = (0.5, 0.2)
_FREE_SD_GB = 0.15
_POOL_SD_GB = 0.4
_MARGIN_GB = (0.45, 0.25)
"""Free after capture is not free under load: below about this much a server may die serving."""
_STATE_LOG_GB = (-5.3, 1.4)
"""ln GB that a draft token takes from the pool: little, but for models that keep states of every
draft position (hybrids with linear attention), where 20 of them take gigabytes."""
_EDGE_GB = 0.2
_SLACK_GB = 0.1
"""A server that lived through a measurement may yet have stood so far inside its margin."""


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """Weighted draws of the two walls.

    Attributes:
        gpu_gb, outside_gb, graph_gb, margin_gb: of the upper wall, one per draw: memory of a GPU,
            what activations take, what graphs take per draft token, what load needs beside.
        weights_gb, weights_draft_gb: of the lower wall.
        weight: of each draw; they sum to 1.
    """

    gpu_gb: Array
    outside_gb: Array
    graph_gb: Array
    margin_gb: Array
    weights_gb: Array
    weights_draft_gb: Array
    weight: Array

    def survival(self, fraction: Array, draft: Array) -> Array:
        """Probability that a launch at these settings outlives its walls; shape as given."""
        above, below = self._rooms(fraction, draft)
        return np.asarray(self.weight @ (ndtr(above / _EDGE_GB) * ndtr(below / _POOL_SD_GB)))

    def survival_and_lasting(self, fraction: Array, draft: Array) -> Array:
        """``survival``, and the same once a launch at these very settings has ended well.

        Where the wall is only not known, one such launch shows that it is elsewhere. Shape (2, n).
        """
        above, below = self._rooms(fraction, draft)
        fits = ndtr(below / _POOL_SD_GB)
        lives = ndtr(above / _EDGE_GB) * fits
        shown = self.weight[:, None] * (ndtr((above + _SLACK_GB) / _EDGE_GB) * fits)
        lasting = (shown * lives).sum(axis=0) / np.maximum(shown.sum(axis=0), 1e-12)
        return np.stack([self.weight @ lives, lasting])

    def pool_start(self) -> Array:
        """The fraction at which the KV pool begins, one per draw."""
        return np.clip(self.weights_gb / self.gpu_gb, 0.0, 0.985)

    def resampled(self, n: int, rng: np.random.Generator) -> Array:
        """``pool_start`` of ``n`` draws by weight."""
        return self.pool_start()[rng.choice(self.weight.size, size=n, p=self.weight)]

    def _rooms(self, fraction: Array, draft: Array) -> tuple[Array, Array]:
        """GB to either wall, the upper and the lower, of each draw: shape (draws, settings)."""
        above = self._free(fraction, draft) - self.margin_gb[:, None]
        return above, self._pool(fraction, draft)

    def _free(self, fraction: Array, draft: Array) -> Array:
        outside = (1.0 - fraction)[None, :] * self.gpu_gb[:, None]
        return np.asarray(
            outside - self.outside_gb[:, None] - self.graph_gb[:, None] * draft[None, :]
        )

    def _pool(self, fraction: Array, draft: Array) -> Array:
        pool = fraction[None, :] * self.gpu_gb[:, None] - self.weights_gb[:, None]
        return np.asarray(pool - self.weights_draft_gb[:, None] * draft[None, :])


def fraction_of(observation: Observation) -> float:
    """The memory fraction that ran, as far as it is known."""
    value = observation.flags.get(MEMORY)
    return float(value) if isinstance(value, int | float) else USUAL_FRACTION


def draft_of(observation: Observation) -> float:
    """Draft tokens; 1 without speculation."""
    value = observation.flags.get(DRAFT, 1)
    return float(value) if isinstance(value, int | float) else 1.0


def learn_memory(
    seen: Sequence[Observation], rng: np.random.Generator, n: int = 400
) -> MemoryModel:
    """The posterior after a study's launches; the prior where there are none."""
    upper = _upper_draws(seen, rng, n)
    gpu, outside, graph = np.maximum(upper[:, 0], 4.0), upper[:, 1], np.abs(upper[:, 2])
    weights = _weights_draws(seen, gpu, rng)
    model = MemoryModel(
        gpu,
        outside,
        graph,
        np.abs(rng.normal(*_MARGIN_GB, size=n)),
        weights,
        np.exp(rng.normal(*_STATE_LOG_GB, size=n)),
        np.full(n, 1.0 / n),
    )
    return _weighted(model, seen)


def _upper_draws(seen: Iterable[Observation], rng: np.random.Generator, n: int) -> Array:
    """Draws of (gpu, outside, graph per draft token): linear regression on the free memory told."""
    told = [o.gpu_gb for o in seen if o.gpu_gb is not None]
    mean = np.array([told[-1] if told else _USUAL_GPU[0], 2.5, 0.25])
    covariance = np.diag([0.02 * told[-1] if told else _USUAL_GPU[1], 1.5, 0.2]) ** 2
    known = [o for o in seen if o.free_gb is not None and o.outcome == "measured"]
    if known:
        rows = np.array([[1.0 - fraction_of(o), -1.0, -draft_of(o)] for o in known])
        free = np.array([o.free_gb for o in known])
        gain = covariance @ rows.T
        gain = gain @ np.linalg.inv(rows @ gain + np.eye(len(known)) * _FREE_SD_GB**2)
        mean = mean + gain @ (free - rows @ mean)
        covariance = covariance - gain @ rows @ covariance
    covariance = (covariance + covariance.T) / 2 + 1e-9 * np.eye(3)
    return rng.multivariate_normal(mean, covariance, size=n, method="eigh")


def _weights_draws(seen: Sequence[Observation], gpu: Array, rng: np.random.Generator) -> Array:
    """Where the static pool begins: from KV tokens at two fractions, else from the weights told."""
    z = rng.standard_normal(gpu.size)
    line = _kv_line([o for o in seen if o.kv_tokens is not None])
    if line is not None:
        start, sd = line
        return (start + sd * z) * gpu
    told = [o.weights_gb for o in seen if o.weights_gb is not None]
    if told:
        return told[-1] + 0.015 * gpu * (1.0 + z)
    return np.maximum(0.02, _WEIGHTS_SHARE[0] + _WEIGHTS_SHARE[1] * z) * gpu


def _kv_line(known: Sequence[Observation]) -> tuple[float, float] | None:
    """(fraction at which the KV pool begins, its standard error); None: cannot be told."""
    fractions = np.array([fraction_of(o) for o in known])
    tokens = np.array([o.kv_tokens or 0.0 for o in known])
    if len(known) < 2 or np.ptp(fractions) < 0.015:
        return None
    slope, at_zero = np.polyfit(fractions, tokens, 1)
    if slope <= 0:
        return None
    off = tokens - (slope * fractions + at_zero)
    sd = max(0.004, float(np.std(off)) / slope)
    return float(-at_zero / slope), sd


def _weighted(model: MemoryModel, seen: Iterable[Observation]) -> MemoryModel:
    """The draws weighted by what lived, what died, and the bounds that servers told."""
    log_weight = np.zeros(model.weight.size)
    for o in seen:
        fraction, draft = np.array([fraction_of(o)]), np.array([draft_of(o)])
        free, pool = model._free(fraction, draft)[:, 0], model._pool(fraction, draft)[:, 0]
        if o.outcome == "measured":
            log_weight += log_ndtr((free - model.margin_gb + _SLACK_GB) / _EDGE_GB)
            log_weight += log_ndtr(pool / _POOL_SD_GB)
        elif o.failure is not None and o.failure.bound and o.failure.bound.flag == MEMORY:
            at = np.array([o.failure.bound.value])
            if o.failure.bound.side == "at_least":
                room = model._pool(at, draft)[:, 0] / (0.01 * model.gpu_gb)
            else:
                room = (model._free(at, draft)[:, 0] - model.margin_gb) / _EDGE_GB
            log_weight -= 0.5 * np.minimum(room**2, 80.0)
        elif o.failure is not None and o.failure.kind in _TOO_MUCH:
            needs = model.margin_gb if o.failure.kind is FailureKind.RUNTIME_OOM else 0.0
            log_weight += log_ndtr((needs - free) / _EDGE_GB)
        elif o.failure is not None and o.failure.kind in _TOO_LITTLE:
            log_weight += log_ndtr(-pool / _POOL_SD_GB)
    # Contradictions (a wall that moved, a lie in the log) must not leave one draw alone.
    log_weight = np.maximum(log_weight - log_weight.max(), -12.0)
    weight = np.exp(log_weight)
    return MemoryModel(
        model.gpu_gb,
        model.outside_gb,
        model.graph_gb,
        model.margin_gb,
        model.weights_gb,
        model.weights_draft_gb,
        weight / weight.sum(),
    )


def each_once(probability: Callable[[Array, Array], Array], fraction: Array, draft: Array) -> Array:
    """A probability of many configurations, each pair computed once; the last axis is theirs."""
    pairs, place = np.unique(np.column_stack([fraction, draft]), axis=0, return_inverse=True)
    return probability(pairs[:, 0], pairs[:, 1])[..., place.reshape(-1)]
