"""All that a study has taught, as predictions for configurations that were not launched.

Physics for the mean, a Gaussian process for what it misses, memory and crash models for what may
not live. Predictions are draws: each is one way in which the unknowns may stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.core.trial import Flags
from autotune.search import crashes
from autotune.search.acceptance import Triple
from autotune.search.capacity import keeps_states, room
from autotune.search.constraints import Constraints
from autotune.search.cost import (
    INDEX,
    NAMES,
    PRIORS,
    Configurations,
    Costs,
    Room,
    log_mean_throughput,
)
from autotune.search.encoding import Encoder, fractions, triple_of
from autotune.search.halfway import with_halfway
from autotune.search.least_squares import Posterior, fit
from autotune.search.memory import (
    MemoryModel,
    draft_of,
    each_once,
    fraction_of,
    learn_memory,
)
from autotune.search.misfit import Misfit, odd_variances
from autotune.search.observation import MIN_LOG_SD, Measured, Observation, has_tree
from autotune.search.predictions import Predictions
from autotune.search.residual import (
    Features,
    Kernel,
    Process,
    fit_other,
)
from autotune.search.teaching import (
    concurrencies_of,
    most_telling,
    room_seen,
    served_at,
    usual_fraction,
)
from autotune.search.warm import NOTHING, Belief, EarlierKnowledge

Array = npt.NDArray[np.float64]

LAUNCH_SD = 0.012
"""ln(value) differs so much between launches of the same flags, which no single launch can see."""
_FIRST_TREE_SD = 0.06
_ACCEPT_SD = 0.03
_TTFT_SD = 0.3
_NO_PHYSICS_SD = 0.3
_CARE = 0.05
"""By how much (log scale) a value is expected to be worse with every other flag changed."""
_WORSE = (1.0, -1.0)
"""Which way is worse: more latency, less throughput."""


class _Output:
    """One of the two values: what was seen, and the process on what the physics left."""

    def __init__(self, values: Sequence[Measured]) -> None:
        self.y = np.array([value.log for value in values])
        sd = np.array([max(value.sd, MIN_LOG_SD) for value in values])
        self.noise = sd**2 + LAUNCH_SD**2


class Surrogate:
    """Learned from the observations of one study.

    Args:
        seen: measured, failed and pending ones, in any order; at least one measured.
        n_draws: ways in which the unknowns may stand.
        earlier: what another study left; believed as far as this one bears it out.

    Attributes:
        is_physical: something with a draft tree was measured, so that the physics say something.
        concurrencies: serving loads that were measured.
    """

    def __init__(
        self,
        encoder: Encoder,
        seen: Sequence[Observation],
        rng: np.random.Generator,
        n_draws: int,
        earlier: EarlierKnowledge | None = None,
    ) -> None:
        self._encoder, self._rng, self._n_draws = encoder, rng, n_draws
        self.posterior: Posterior | None = None
        self.belief = NOTHING
        self._earlier = earlier
        self.ended = [o for o in seen if o.outcome != "pending" and not o.is_accident]
        self.measured = [o for o in self.ended if o.latency and o.throughput]
        self._pending = [o for o in seen if o.outcome == "pending"]
        self.is_physical = encoder.space.tree is not None and any(
            has_tree(o.flags) for o in self.measured
        )
        self.memory: MemoryModel = learn_memory(self.ended, rng)
        self._fraction = usual_fraction(self.ended)
        self._taught_by = most_telling(with_halfway(self.measured, self.ended))
        self._points = encoder.features([o.flags for o in self._taught_by])
        self._odd = np.zeros(len(self._taught_by))
        self._latency = _Output([o.latency for o in self._taught_by if o.latency])
        self._throughput = _Output([o.throughput for o in self._taught_by if o.throughput])
        self._keeps_states = keeps_states(self._taught_by)
        self.concurrencies = concurrencies_of(self._taught_by)
        self._learn()

    # ---- learning -----------------------------------------------------------------------------

    def _learn(self) -> None:
        n = len(self._taught_by)
        if self.is_physical:
            self._configurations = Configurations.of([triple_of(o.flags) for o in self._taught_by])
            self._room = room_seen(self._taught_by)
            self.belief = self._believed()
            misfits = self._misfits(self._fit(_FIRST_TREE_SD, _FIRST_TREE_SD))
            self._odd = odd_variances(misfits)
            sds = self._amplitudes(misfits)
            self.posterior = self._fit(*sds)
            self._z = self.posterior.draw(self._rng.standard_normal((self._n_draws, len(NAMES))))
            costs = self._costs(self._z, self._configurations)
            means = (
                costs.log_latency(),
                log_mean_throughput(costs, self.concurrencies, self._room),
            )
        else:
            self._odd = odd_variances(list(map(self._about_a_mean, self._outputs, _WORSE)))
            sds = (_NO_PHYSICS_SD, _NO_PHYSICS_SD)
            flat = np.ones((self._n_draws, n))
            means = flat * self._latency.y.mean(), flat * self._throughput.y.mean()
        self._constraints = Constraints.learn(
            [o.violations for o in self._taught_by],
            self._points,
            np.column_stack([output.y for output in self._outputs]),
        )
        away = self._away(self._points)
        self._processes = [
            self._process(output, sd, mean + sign * away)
            for sign, output, sd, mean in zip(_WORSE, self._outputs, sds, means, strict=True)
        ]

    def _away(self, at: Features) -> Array:
        """How much worse the other flags make a value by prior, shape (n,).

        Somebody chose what was launched first, or it is SGLang's own default: each flag that is
        changed, and all of them at random even more, is likelier to harm than to help.
        """
        if not at.other.shape[1]:
            return np.zeros(at.own.size)
        apart = np.abs(at.other - self._points.other[0])
        far = np.where(at.categorical, apart > 0, np.minimum(2.0 * apart, 1.0))
        return np.asarray(_CARE * far.mean(axis=1))

    @property
    def _outputs(self) -> tuple[_Output, _Output]:
        return self._latency, self._throughput

    def _costs(self, z: Array, configurations: Configurations) -> Costs:
        return Costs(z, self._centre(), configurations, self._keeps_states)

    def _centre(self) -> tuple[float, float]:
        """Scales of the first launch at an accept length of 2.5: where the prior stands."""
        batch = float(np.mean(self.concurrencies))
        latency, throughput = self._latency.y[0], self._throughput.y[0]
        return latency + np.log(2.5), float(np.log(batch) - throughput + np.log(2.5))

    def _believed(self) -> Belief:
        """How much of the earlier knowledge the launches bear out."""
        if self._earlier is None:
            return NOTHING
        odds = []
        for belief in self._earlier.beliefs:
            self.belief = belief
            posterior = self._fit(_FIRST_TREE_SD, _FIRST_TREE_SD)
            odds.append(belief.log_odds(posterior, posterior.loss))
        return self._earlier.beliefs[int(np.argmax(odds))]

    def _fit(self, latency_sd: float, throughput_sd: float) -> Posterior:
        """The physics, with the misfit that the Gaussian process will take."""
        seen, points = self._taught_by, self._points
        configurations, limits = self._configurations, self._room
        blocks = [self._latency.y]
        covariances = [_covariance(latency_sd, points, self._latency.noise + self._odd)]
        rows: list[tuple[int, npt.NDArray[np.intp]]] = []
        for concurrency in self.concurrencies:
            served = [served_at(o, concurrency, len(self.concurrencies)) for o in seen]
            has = np.array([i for i, value in enumerate(served) if value], dtype=np.intp)
            if has.size:
                output = _Output([value for value in served if value])
                rows.append((concurrency, has))
                blocks.append(output.y)
                noise = output.noise + self._odd[has]
                covariances.append(_covariance(throughput_sd, points.at(has), noise))
        told = np.array([i for i, o in enumerate(seen) if o.accept_length], dtype=np.intp)
        told = told[configurations.steps[told] > 0]
        if told.size:
            blocks.append(np.array([seen[i].accept_length.log for i in told]))
            noise = np.full(told.size, 0.015**2)
            covariances.append(_covariance(_ACCEPT_SD, points.at(told), noise))
        ttft = [o.ttft.log for o in seen if o.ttft]
        if ttft:
            blocks.append(np.array([float(np.median(ttft))]))
            covariances.append(np.array([[_TTFT_SD**2]]))
        carried = list(self.belief.places)
        if carried:
            blocks.append(self.belief.centre)
            covariances.append(self.belief.covariance)

        def model(z: Array) -> Array:
            costs = self._costs(z, configurations)
            parts = [costs.log_latency()]
            for concurrency, has in rows:
                parts.append(costs.log_throughput(concurrency, limits)[:, has])
            if told.size:
                parts.append(costs.log_accept[:, told])
            if ttft:
                parts.append(costs.log_ttft())
            if carried:
                parts.append(z[:, carried])
            return np.concatenate(parts, axis=1)

        return fit(model, np.concatenate(blocks), covariances, len(NAMES))

    def _misfits(self, posterior: Posterior) -> list[Misfit]:
        """What the physics leaves of both values, its unknowns about the most plausible ones."""
        z = posterior.centre
        steps = np.vstack([z, z + 1e-4 * np.eye(z.size)])
        costs = self._costs(steps, self._configurations)
        values = (costs.log_latency(), log_mean_throughput(costs, self.concurrencies, self._room))
        found = []
        for output, value, worse in zip(self._outputs, values, _WORSE, strict=True):
            jacobian = (value[1:] - value[0]).T / 1e-4
            residual = output.y - value[0] + jacobian @ z
            found.append(Misfit(self._points, residual, output.noise, jacobian, worse))
        return found

    def _about_a_mean(self, output: _Output, worse: float) -> Misfit:
        residual, unknown = output.y - np.median(output.y), np.full((output.y.size, 1), 1.0)
        return Misfit(self._points, residual, output.noise, _NO_PHYSICS_SD * unknown, worse)

    def _amplitudes(self, misfits: Sequence[Misfit]) -> tuple[float, float]:
        """How far the physics misses latency and throughput."""
        if len(self._taught_by) < 3:
            return _FIRST_TREE_SD, _FIRST_TREE_SD
        latency, throughput = (misfit.amplitude(self._odd) for misfit in misfits)
        return latency, throughput

    def _process(self, output: _Output, sd: float, means: Array) -> tuple[Process, Array]:
        """The process over measured and pending points, and its weights for each draw."""
        residuals = output.y[:, None] - means.T
        average = residuals.mean(axis=1)
        kernel = Kernel(sd, 0.15, np.ones(self._points.other.shape[1]))
        noise = output.noise + self._odd
        kernel = fit_other(kernel, self._points, average, noise)
        process = Process.over(kernel, self._points, noise)
        weights = process.solve(residuals)
        if not self._pending:
            return process, weights
        pending = self._encoder.features([o.flags for o in self._pending])
        expected = process.weights(pending)[0] @ weights
        both = self._points.joined(pending)
        noise = np.concatenate([noise, np.full(len(self._pending), LAUNCH_SD**2 * 2)])
        process = Process.over(kernel, both, noise)
        return process, process.solve(np.vstack([residuals, expected]))

    # ---- predicting ---------------------------------------------------------------------------

    def predict(self, configurations: Sequence[Flags], features: Features) -> Predictions:
        """Of legal configurations; ``features`` are theirs, from the same encoder."""
        triples = [triple_of(flags) for flags in configurations]
        draft = np.array([triple[2] for triple in triples], dtype=np.float64)
        fraction = fractions(configurations, self._fraction)
        one, place = _alike(triples, fraction, features)
        means = self._means([triples[i] for i in one], fraction[one])
        away = self._away(features)
        added, sds = self.corrections(features)
        logs = [
            mean[:, place] + sign * away + more
            for sign, mean, more in zip(_WORSE, means, added, strict=True)
        ]
        both = each_once(self.memory.survival_and_lasting, fraction[one], draft[one])
        memory, lasting = both[:, place]
        survival = memory * self._lives_otherwise(features)
        return Predictions(
            logs[0], logs[1], sds[0], sds[1], survival, memory, lasting,
            self._constraints.probability(
                features, np.column_stack([log.mean(axis=0) for log in logs])
            ),
        )  # fmt: skip

    def progress(
        self, features: Features, predictions: Predictions, so_far: Mapping[str, float]
    ) -> Array:
        """How much closer to the constraints configurations are expected to come, shape (n,).

        Args:
            predictions: of these configurations.
            so_far: the violations of the one that came closest.
        """
        logs = (predictions.log_latency.mean(axis=0), predictions.log_throughput.mean(axis=0))
        return self._constraints.progress(features, np.column_stack(logs), so_far)

    def corrections(self, features: Features) -> tuple[list[Array], list[Array]]:
        """What the processes add to the physics of ln latency and ln throughput, and their sd.

        Shapes (draws, n) and (n,).
        """
        added, sds = [], []
        for process, weights in self._processes:
            cross, variance = process.weights(features)
            added.append((cross @ weights).T)
            sds.append(np.sqrt(variance))
        return added, sds

    def score_deviations(self, features: Features, latency_weight: float) -> Array:
        """Joint draws of how far scores lie from the mean of each draw, shape (draws, n)."""
        shape = (self._n_draws, features.own.size)
        latency, throughput = (
            process.draws(features, self._rng.standard_normal(shape))
            for process, _ in self._processes
        )
        return (1.0 - latency_weight) * throughput - latency_weight * latency

    def _means(self, triples: Sequence[Triple], fraction: Array) -> tuple[Array, Array]:
        if not self.is_physical:
            flat = np.ones((self._n_draws, len(triples)))
            return flat * self._latency.y.mean(), flat * self._throughput.y.mean()
        limits = self._room_at(triples, fraction)
        costs = self._costs(self._z, Configurations.of(triples))
        return costs.log_latency(), log_mean_throughput(costs, self.concurrencies, limits)

    def costs(self, configurations: Sequence[Flags], accept_shift: float = 0.0) -> Costs:
        """The physics of configurations in each draw; only where ``is_physical``.

        Args:
            accept_shift: added to the logit of the probability that a first choice is accepted, to
                see what other text would do.
        """
        z = self._z.copy()
        z[:, INDEX["q_logit"]] += accept_shift / PRIORS["q_logit"].sd
        triples = [triple_of(flags) for flags in configurations]
        return self._costs(z, Configurations.of(triples))

    def room(self, configurations: Sequence[Flags]) -> Room:
        """Draws of how many requests and KV tokens configurations hold."""
        triples = [triple_of(flags) for flags in configurations]
        return self._room_at(triples, fractions(configurations, self._fraction))

    def _room_at(self, triples: Sequence[Triple], fraction: Array) -> Room:
        draft = np.array([triple[2] for triple in triples], dtype=np.float64)
        return room(self.ended, self.memory, fraction, draft, self._rng, self._n_draws)

    def _lives_otherwise(self, features: Features) -> Array:
        points, lasts = self._ends
        return crashes.survival(self.ended, points, features, lasts)

    @cached_property
    def _ends(self) -> tuple[Features, Array]:
        """Where launches ended, and the probability that memory would last there."""
        points = self._encoder.features([o.flags for o in self.ended])
        if not points.tree.shape[1]:
            return points, np.ones(len(self.ended))
        fraction = np.array([fraction_of(o) for o in self.ended])
        draft = np.array([draft_of(o) for o in self.ended])
        return points, each_once(self.memory.survival, fraction, draft)


def _alike(
    triples: Sequence[Triple], fraction: Array, features: Features
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """One configuration of each that the physics cannot tell apart, and for each which one.

    Only other flags make twins: without them nothing is looked for.
    """
    if not features.other.shape[1] or not triples:
        every = np.arange(len(triples))
        return every, every
    columns = np.column_stack([np.array(triples, dtype=np.float64), fraction])
    _, one, place = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return one, place.reshape(-1)


def _covariance(sd: float, points: Features, noise: Array) -> Array:
    kernel = Kernel(sd, 0.15, np.ones(points.other.shape[1]))
    return kernel.between(points, points) + np.diag(noise)
