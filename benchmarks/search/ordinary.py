"""A world without physics: eight ordinary flags, a smooth response, interactions, a failing corner.

No flag of it is speculative, so that a cost model of speculation has nothing to say here.
"""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.core.objective import objective_values
from autotune.core.pareto import Point
from autotune.core.trial import Failure, FailureKind, Flags, FlagValue, Interval, Phase, TrialRecord
from autotune.space import SearchSpace
from autotune.space.parameter import Choice, DecimalRange, IntegerRange, Parameter, Switch
from benchmarks.search.jitter import Noise, rng_of
from benchmarks.search.record import as_told, interval
from benchmarks.search.world import SERVING, Candidates

_CHUNK, _GRAPHS = "chunked_prefill_size", "cuda_graph_max_bs"
_PARAMETERS: dict[str, Parameter] = {
    _CHUNK: Choice((1024, 2048, 4096, 8192, 16384)),
    "schedule_conservativeness": DecimalRange(0.3, 1.5, 0.1),
    _GRAPHS: IntegerRange(8, 64, 8),
    "attention_backend": Choice(("fa3", "flashinfer", "triton")),
    "schedule_policy": Choice(("fcfs", "lpm", "dfs-weight")),
    "num_continuous_decode_steps": IntegerRange(1, 8),
    "page_size": Choice((1, 16, 64)),
    "enable_mixed_chunk": Switch(),
}
_BASELINE: dict[str, FlagValue] = {
    _CHUNK: 8192, "schedule_conservativeness": 1.0, _GRAPHS: 32, "attention_backend": "flashinfer",
    "schedule_policy": "fcfs", "num_continuous_decode_steps": 1, "page_size": 1,
    "enable_mixed_chunk": False,
}  # fmt: skip
_N_REF = 256
_CURVE, _STEP, _PAIR = 0.6, 0.4, 0.35
"""Relative sizes of a number's curve, of a word's own effect, of an effect of two flags."""
_N_PAIRS = 8
_SPREAD = 0.05
"""Standard deviation of the response over all configurations, in nats."""
_LAUNCH_S, _MEASURE_S = 80.0, 150.0

Array = npt.NDArray[np.float64]


class OrdinaryWorld:
    """One response over the eight flags: quadratic in numbers, free in words, and pairwise terms.

    Latency and throughput have optima of their own, which lie near each other.
    """

    name = "ordinary-flags"

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.space = SearchSpace(self.name, "eight ordinary flags", _PARAMETERS)
        rng = rng_of("ordinary", seed)
        self.noise = Noise(*(v * math.exp(rng.normal(0, 0.25)) for v in (0.01, 0.015, 0.025)))
        self._values = {flag: p.values() for flag, p in self.space.parameters.items()}
        self._single, self._loaded = self._effects(rng)
        self._base_s, self._base_tok_s = float(rng.uniform(0.6, 4)), float(rng.uniform(400, 3000))
        # Large graphs beside large prefill chunks run out of memory; with one backend sooner.
        self._room = float(rng.uniform(1.35, 1.65))
        self._greedy = str(rng.choice(_PARAMETERS["attention_backend"].values()))

    @property
    def baseline(self) -> dict[str, FlagValue]:
        """SGLang's defaults, about."""
        return dict(_BASELINE)

    @cached_property
    def candidates(self) -> Candidates:
        """Every configuration that lives: the whole grid at once."""
        indices = (
            np.indices([len(v) for v in self._values.values()]).reshape(len(_PARAMETERS), -1).T
        )
        alive = indices[~self._is_dead(indices)]
        single, loaded = (self._sum(effects, alive) for effects in (self._single, self._loaded))
        return Candidates(self._base_s * np.exp(single), self._base_tok_s * np.exp(-loaded))

    def risk(self, flags: Flags) -> tuple[float, Point | None]:
        """All or nothing."""
        place = self._place(flags)
        if self._is_dead(place)[0]:
            return 1.0, None
        single, loaded = (self._sum(effects, place)[0] for effects in (self._single, self._loaded))
        return 0.0, (self._base_s * math.exp(single), self._base_tok_s * math.exp(-loaded))

    def _place(self, flags: Flags) -> npt.NDArray[np.intp]:
        return np.array([[v.index(flags[flag]) for flag, v in self._values.items()]])

    def launch(self, flags: Flags, number: int) -> dict[str, Any]:
        """The record of trial ``number``."""
        rng = rng_of("launch", self.name, self.seed, number)
        place = self._place(flags)
        crashed = rng.random() < self.noise.crash
        if crashed or self._is_dead(place)[0]:
            kind = FailureKind.CRASHED if crashed else FailureKind.GRAPH_CAPTURE_OOM
            text = "CUDA error" if crashed else "torch.OutOfMemoryError: CUDA out of memory."
            return self._record(number, flags, failure=Failure(kind, "capture", text, ""))
        luck = math.exp(rng.normal(0, self.noise.launch))
        if rng.random() < self.noise.outlier:
            luck *= 1.0 - rng.uniform(0.08, 0.35)
        turn_s = self._base_s * math.exp(self._sum(self._single, place)[0])
        all_tok_s = self._base_tok_s * math.exp(-self._sum(self._loaded, place)[0])
        phases = [self._phase(1, turn_s / luck, _N_REF / turn_s * luck, self.noise.single, rng)]
        for concurrency, share in zip(SERVING, (0.8, 1.25), strict=True):
            tok_s = share * all_tok_s * luck
            slow_s = concurrency * _N_REF / tok_s
            phases.append(self._phase(concurrency, slow_s, tok_s, self.noise.serving, rng))
        return self._record(number, flags, phases=phases)

    @staticmethod
    def _phase(
        concurrency: int, turn_s: float, tok_s: float, sd: float, rng: np.random.Generator
    ) -> Phase:
        speed, told = math.exp(rng.normal(0, sd)), sd * float(rng.uniform(0.7, 1.3))

        def seen(value: float) -> Interval:
            return interval(value, told)

        return Phase(
            role="latency" if concurrency == 1 else "serving",
            concurrency=concurrency,
            n_requests=4 * concurrency + 20,
            n_failed=0,
            duration_s=60.0,
            ttft_s=seen(0.1 * turn_s / speed),
            tpot_s=seen(0.9 * turn_s / _N_REF / speed),
            e2e_s=seen(turn_s / speed),
            turn_latency_s=seen(turn_s / speed),
            decode_tok_s=seen(_N_REF / (0.9 * turn_s) * speed),
            output_tok_s=seen(tok_s * speed),
            accept_length=None,
            in_flight_mean=concurrency * 0.995,
        )

    @staticmethod
    def _record(
        number: int, flags: Flags, phases: list[Phase] | None = None, failure: Failure | None = None
    ) -> dict[str, Any]:
        return as_told(
            TrialRecord(
                number=number,
                status="failed" if failure else "complete",
                flags=dict(flags),
                effective={"weights_gb": 30.0} | ({} if failure else {"max_running_requests": 64}),
                phases=phases or [],
                objectives=objective_values(phases) if phases else None,
                failure=failure,
                timings={
                    "launch_s": _LAUNCH_S * (0.7 if failure else 1.0),
                    "measure_s": 0.0 if failure else _MEASURE_S,
                    "stop_s": 4.0,
                },
                machine={"gpu": "80 GB GPU", "n_gpus": 1, "gpu_memory_gb": 80.0},
            )
        )

    # ---- the response -------------------------------------------------------------------------

    def _effects(self, rng: np.random.Generator) -> tuple[_Effects, _Effects]:
        names = list(self._values)
        pairs = list(itertools.combinations(range(len(names)), 2))
        chosen = [pairs[i] for i in rng.permutation(len(pairs))[:_N_PAIRS]]
        shared = [self._alone(flag, rng) for flag in names]
        both = []
        for _ in range(2):
            alone = [
                0.7 * s + 0.5 * self._alone(f, rng) for s, f in zip(shared, names, strict=True)
            ]
            together = {pair: self._together(pair, rng) for pair in chosen}
            both.append((alone, together))
        return self._scaled(*both[0]), self._scaled(*both[1])

    def _scaled(self, alone: list[Array], together: _Pairs) -> _Effects:
        """Effects of a typical size in all."""
        total = sum(float(table.var()) for table in (*alone, *together.values()))
        factor = _SPREAD / math.sqrt(total)
        return [factor * t for t in alone], {pair: factor * t for pair, t in together.items()}

    def _alone(self, flag: str, rng: np.random.Generator) -> Array:
        n = len(self._values[flag])
        if isinstance(self._values[flag][0], str | bool):
            return np.asarray(rng.normal(0, _STEP, n))
        at = np.linspace(0, 1, n)
        return np.asarray(_CURVE * math.exp(rng.normal(0, 0.5)) * (at - rng.uniform(0, 1)) ** 2 * 2)

    def _together(self, pair: tuple[int, int], rng: np.random.Generator) -> Array:
        """A smooth or free table of two flags, of about the same size."""
        sides = []
        for which in pair:
            values = list(self._values.values())[which]
            if isinstance(values[0], str | bool):
                sides.append(rng.normal(size=len(values)))
            else:
                sides.append(np.sin(np.linspace(0, 2.5, len(values)) + rng.uniform(0, 6.28)) * 1.4)
        return np.asarray(_PAIR * np.outer(*sides))

    @staticmethod
    def _sum(effects: _Effects, indices: npt.NDArray[np.intp]) -> Array:
        alone, together = effects
        total = np.zeros(len(indices))
        for column, table in enumerate(alone):
            total += table[indices[:, column]]
        for (a, b), table in together.items():
            total += table[indices[:, a], indices[:, b]]
        return total

    def _is_dead(self, indices: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        names = list(self._values)
        chunk, graphs, backend = (
            indices[:, names.index(flag)] for flag in (_CHUNK, _GRAPHS, "attention_backend")
        )
        greedy = backend == self._values["attention_backend"].index(self._greedy)
        return np.asarray(chunk / 4 + graphs / 7 + 0.15 * greedy > self._room)


_Pairs = dict[tuple[int, int], Array]
_Effects = tuple[list[Array], _Pairs]
