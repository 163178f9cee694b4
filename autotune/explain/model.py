"""What the search's own model says of configurations, launched or not. Nothing is fitted here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from autotune.core.ranking import flag_key
from autotune.core.trial import Flags
from autotune.errors import SpaceError
from autotune.explain.document import Figure
from autotune.search.cost import Costs, Room
from autotune.search.knowledge import Knowledge
from autotune.search.observation import Observation
from autotune.search.recommend import TIE
from autotune.search.teaching import room_seen
from autotune.space.rules import MEMORY

Array = npt.NDArray[np.float64]

_SHIFTS = np.linspace(-8.0, 3.0, 89)
"""Added to the logit of the probability that a first choice is accepted: 0.98 becomes 0.02 to
0.999."""
_ENDLESS = Room(np.full(1, np.inf), np.full(1, np.inf))


@dataclass(frozen=True, slots=True)
class Shares:
    """Of one decode cycle, in [0, 1]; ``by_memory``: memory and not arithmetic limits verifying."""

    verify: float
    draft: float
    by_memory: bool


@dataclass(frozen=True, slots=True)
class Range:
    """For which accept lengths a configuration stays the best of those measured.

    Attributes:
        low, high: ends as a factor on its own accept length.
        below, above: who wins beyond them, as places among ``Learned.kept``; None: no further
            accept length was looked at.
        has_any: it is the best for some of them; without that the rest means nothing.
    """

    low: float
    high: float
    below: int | None
    above: int | None
    has_any: bool


class Learned:
    """The model of a study in which something with a draft tree was measured."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._surrogate = knowledge.surrogate

    @classmethod
    def of(cls, knowledge: Knowledge | None) -> Learned | None:
        """None: nothing with a draft tree is known."""
        is_physical = knowledge is not None and knowledge.surrogate.is_physical
        return cls(knowledge) if knowledge is not None and is_physical else None

    @property
    def kept(self) -> list[Observation]:
        """Measured configurations that keep the constraints, once each."""
        return self._knowledge.kept

    def knows(self, flags: Flags) -> bool:
        """Whether these flags lie inside the searched space."""
        return self._knowledge.space.contains(self._canonical(flags))

    def _canonical(self, flags: Flags) -> Flags:
        """As the search spells them; as they are where its space does not hold them."""
        space = self._knowledge.space
        try:
            return space.canonical({n: flags[n] for n in space.names if n in flags})
        except (SpaceError, ValueError):
            return flags

    def _costs(self, flags: Flags) -> Costs:
        return self._surrogate.costs([self._canonical(flags)])

    def with_more_memory(self, flags: Flags, more: float) -> Flags | None:
        """The flags with a larger static fraction; None where the study does not search it."""
        known = self._knowledge.space.parameters.get(MEMORY)
        value = flags.get(MEMORY)
        if known is None or not isinstance(value, float):
            return None
        larger = {**flags, MEMORY: round(value + more, 4)}
        return larger if self.knows(larger) else None

    # ---- of one configuration -----------------------------------------------------------------

    def accept_length(self, flags: Flags) -> Figure:
        return _figure(np.exp(self._costs(flags).log_accept[:, 0]), "tokens")

    def running_limit(self, flags: Flags) -> Figure | None:
        """Requests that may run at once; None where no server of the study told a limit."""
        limits = np.ravel(self._surrogate.room([self._canonical(flags)]).running_limit)
        return _figure(limits, "requests") if np.isfinite(limits).all() else None

    def survival(self, flags: Flags) -> float:
        """Probability of a launch that ends well."""
        known = [self._canonical(flags)]
        features = self._knowledge.catalogue.encoder.features(known)
        return float(self._surrogate.predict(known, features).survival[0])

    def cycle(self, flags: Flags, n_running: float) -> Shares:
        """What a decode cycle of ``n_running`` requests goes into."""
        cycle = self._costs(flags).cycle(np.array([max(1.0, n_running)]))
        total = cycle.total
        return Shares(
            float(np.mean(cycle.verify / total)),
            float(np.mean(cycle.draft / total)),
            bool(np.mean(cycle.verify_memory) >= np.mean(cycle.verify_compute)),
        )

    def with_room_for_all(
        self, flags: Flags, concurrency: int, running_limit: float, kv_tokens: float | None
    ) -> Figure:
        """How much throughput would grow if nothing had to wait, in percent."""
        costs = self._costs(flags)
        told = Room(np.array([running_limit]), np.array([kv_tokens or np.inf]))
        gained = costs.log_throughput(concurrency, _ENDLESS) - costs.log_throughput(
            concurrency, told
        )
        return _figure(100.0 * np.expm1(gained[:, 0]), "%")

    # ---- one against another ------------------------------------------------------------------

    def change(self, flags: Flags, other: Flags, concurrency: int | None) -> Figure:
        """Of latency (no concurrency) or of throughput at one, from ``flags`` to ``other``, %."""
        pair = [self._canonical(flags), self._canonical(other)]
        costs = self._surrogate.costs(pair)
        features = self._knowledge.catalogue.encoder.features(pair)
        latency, throughput = self._surrogate.corrections(features)[0]
        if concurrency is None:
            logs = costs.log_latency() + latency
        else:
            logs = costs.log_throughput(concurrency, self._surrogate.room(pair)) + throughput
        return _figure(100.0 * np.expm1(logs[:, 1] - logs[:, 0]), "%")

    def chance_better(self, flags: Flags, other: Flags) -> float:
        """Probability that the first has the higher score."""
        pair, weight = [self._canonical(f) for f in (flags, other)], self._knowledge.weight
        features = self._knowledge.catalogue.encoder.features(pair)
        scores = self._surrogate.predict(pair, features).score(weight)
        drawn = scores + self._surrogate.score_deviations(features, weight)
        lead = drawn[:, 0] - drawn[:, 1]
        return float(ndtr(lead.mean() / max(float(lead.std()), 1e-9)))

    # ---- other text ---------------------------------------------------------------------------

    def holds_for(self, flags: Flags) -> Range | None:
        """For which accept lengths these flags stay the best; None: they are none of the kept.

        Acceptance is made easier and harder for all configurations alike, and their scores are
        computed anew; limits and what the physics miss stay as they are.
        """
        key = flag_key(self._canonical(flags))
        place = next((i for i, o in enumerate(self.kept) if flag_key(o.flags) == key), None)
        if place is None:
            return None
        scores, lengths = self._under_other_acceptance()
        holds = scores[:, place] >= scores.max(axis=1) - TIE
        if not holds.any():
            return Range(1.0, 1.0, None, None, has_any=False)
        now = int(np.argmin(np.abs(_SHIFTS)))
        start = now if holds[now] else int(np.flatnonzero(holds)[np.argmin(
            np.abs(np.flatnonzero(holds) - now))])  # fmt: skip
        first = last = start
        while first > 0 and holds[first - 1]:
            first -= 1
        while last < holds.size - 1 and holds[last + 1]:
            last += 1
        factor = lengths[:, place] / lengths[now, place]
        winners = scores.argmax(axis=1)
        has_low, has_high = first > 0, last < holds.size - 1
        return Range(
            float(factor[first]),
            float(factor[last]),
            int(winners[first - 1]) if has_low else None,
            int(winners[last + 1]) if has_high else None,
            has_any=True,
        )

    def _under_other_acceptance(self) -> tuple[Array, Array]:
        """Mean scores and accept lengths of all kept ones, both of shape (shifts, kept)."""
        kept, surrogate, w = self.kept, self._surrogate, self._knowledge.weight
        flags = [o.flags for o in kept]
        limits = room_seen(kept)
        features = self._knowledge.catalogue.encoder.features(flags)
        latency, throughput = (more.mean(axis=0) for more in surrogate.corrections(features)[0])
        scores, lengths = [], []
        for shift in _SHIFTS:
            costs = surrogate.costs(flags, float(shift))
            served = [costs.log_throughput(c, limits) for c in surrogate.concurrencies]
            mean = np.mean(served, axis=0).mean(axis=0) + throughput
            turn = costs.log_latency().mean(axis=0) + latency
            scores.append((1.0 - w) * mean - w * turn)
            lengths.append(np.exp(costs.log_accept).mean(axis=0))
        return np.array(scores), np.array(lengths)


def _figure(draws: Array, unit: str) -> Figure:
    low, middle, high = (float(x) for x in np.quantile(draws, (0.025, 0.5, 0.975)))
    return Figure(middle, unit, "model", low, high)
