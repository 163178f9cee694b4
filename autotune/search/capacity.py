"""How many requests a configuration can run at once, before it was launched.

Most servers run up to a fixed limit, and the KV pool decides below it. Hybrid (state-space) models
keep one recurrent state per draft token and request, so that the limit itself falls with the draft
and grows with the memory: ``limit = at_zero - a * draft ** p + b * fraction``. Every launch prints
its limit; which of the two laws holds, and where the second stands, is learned from them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.search.cost import Room
from autotune.search.least_squares import fit
from autotune.search.memory import MemoryModel, draft_of, fraction_of
from autotune.search.observation import Observation

Array = npt.NDArray[np.float64]

_FALL = (-1.2, 1.0)
"""ln of the share of the limit that the states of the draft take, at the draft first seen."""
_POWER = (0.55, 0.3)
_RISE = (1.1, 0.8)
"""ln of the share gained per unit of fraction: 0.05 more memory, about 15 % more requests."""
_LIMIT_SD = 0.03
_LEAST = 0.04
_ALL_ALIKE = 0.97
_ONE_SEEN = 0.5
_DEFAULT_LIMIT = 48
"""SGLang's own limit under speculation where none is asked (server_args.py, 0.4.6 to 0.5.23)."""


def room(
    seen: Sequence[Observation],
    memory: MemoryModel,
    fraction: Array,
    draft: Array,
    rng: np.random.Generator,
    n: int,
) -> Room:
    """Draws of what configurations hold: arrays of shape (n, configurations)."""
    shape = (n, fraction.size)
    limit = _limits(seen, fraction, draft, rng, n)
    tokens = _kv_tokens(seen, memory, fraction, rng, n)
    return Room(
        np.full(shape, np.inf) if limit is None else limit,
        np.full(shape, np.inf) if tokens is None else tokens,
    )


def _limits(
    seen: Sequence[Observation], fraction: Array, draft: Array, rng: np.random.Generator, n: int
) -> Array | None:
    known = [o for o in seen if o.running_limit is not None and draft_of(o) > 1]
    if not known:
        return None
    limits = np.array([o.running_limit or 0.0 for o in known])
    fractions = np.array([fraction_of(o) for o in known])
    drafts = np.array([draft_of(o) for o in known])
    scale, f0, d0 = limits[0], fractions[0], drafts[0]

    def law(z: Array, f: Array, d: Array) -> Array:
        fall = np.exp(_FALL[0] + _FALL[1] * z[:, 1:2])
        power = np.exp(_POWER[0] + _POWER[1] * z[:, 2:3])
        rise = np.exp(_RISE[0] + _RISE[1] * z[:, 3:4])
        share = 1.0 + 0.02 * z[:, 0:1] - fall * ((d / d0) ** power - 1.0) + rise * (f - f0)
        # A soft floor: memory divided by the states of one request keeps a few slots.
        share = _LEAST + np.logaddexp(0.0, (share - _LEAST) / 0.03) * 0.03
        return np.asarray(np.minimum(share, max(1.0, _most(limits) / scale)))

    constant = _share_constant(limits, drafts, fractions)
    drawn = np.full((n, fraction.size), limits.max())
    if constant < 1.0:
        noise = np.full(limits.size, _LIMIT_SD**2)
        posterior = fit(lambda z: law(z, fractions, drafts), limits / scale, [noise], 4)
        varied = scale * law(posterior.draw(rng.standard_normal((n, 4))), fraction, draft)
        chosen = rng.random(n) >= constant
        drawn[chosen] = varied[chosen]
    return drawn


def keeps_states(seen: Sequence[Observation]) -> bool:
    """Whether the running limits tell of a hybrid model: they are no round default, or differ."""
    limits = {o.running_limit for o in seen if o.running_limit is not None}
    return bool(limits) and limits != {float(_DEFAULT_LIMIT)} and not _all_alike(seen)


def _all_alike(seen: Sequence[Observation]) -> bool:
    known = [o for o in seen if o.running_limit is not None]
    drafts = {draft_of(o) for o in known}
    return len({o.running_limit for o in known}) == 1 and len(drafts) > 1


def _most(limits: Array) -> float:
    """No draw exceeds the largest limit that any server takes by itself, or what was seen."""
    return max(float(limits.max()), float(_DEFAULT_LIMIT))


def _share_constant(limits: Array, drafts: Array, fractions: Array) -> float:
    """Probability that the limit is the same for every configuration."""
    if np.ptp(limits) > 0:
        return 0.0
    if limits[0] == _DEFAULT_LIMIT:
        return _ALL_ALIKE
    return _ALL_ALIKE if np.ptp(drafts) > 0 else _ONE_SEEN


def _kv_tokens(
    seen: Sequence[Observation],
    memory: MemoryModel,
    fraction: Array,
    rng: np.random.Generator,
    n: int,
) -> Array | None:
    """In proportion to the distance from the fraction at which the pool begins."""
    known = [o for o in seen if o.kv_tokens is not None]
    if not known:
        return None
    start = np.minimum(memory.resampled(n, rng), min(fraction_of(o) for o in known) - 1e-3)
    slopes = [(o.kv_tokens or 0.0) / (fraction_of(o) - start) for o in known]
    slope = np.mean(slopes, axis=0)
    return np.asarray(np.maximum(1.0, slope[:, None] * (fraction[None, :] - start[:, None])))
