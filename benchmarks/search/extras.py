"""Ordinary flags beside the four of speculation: they too cost time, memory, and each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autotune.core.trial import Flags, FlagValue
from autotune.space.parameter import Choice, IntegerRange, Parameter, Switch
from benchmarks.search.jitter import rng_of

_BACKEND, _CHUNK, _STEPS, _MIXED = (
    "attention_backend", "chunked_prefill_size", "num_continuous_decode_steps",
    "enable_mixed_chunk",
)  # fmt: skip
PARAMETERS: Mapping[str, Parameter] = {
    _BACKEND: Choice(("fa3", "flashinfer", "triton")),
    _CHUNK: Choice((2048, 4096, 8192, 16384)),
    _STEPS: IntegerRange(1, 4),
    _MIXED: Switch(),
}
TODAY: Mapping[str, FlagValue] = {_BACKEND: "fa3", _CHUNK: 8192, _STEPS: 1, _MIXED: False}


@dataclass(frozen=True, slots=True)
class Extras:
    """Effects of the flags, each on C=1 and under load, as logarithms of a time.

    Attributes:
        backend: of each backend.
        tree: of each backend, with trees besides.
        chunk: nats per doubling, around the best size.
        best_chunk: logarithm (base 2) of the size that suits.
        decode_steps: nats per step above one.
        mixed: of the switch.
        chunk_gb: activations per 8192 tokens of a chunk beyond the usual 8192, GB.
    """

    backend: Mapping[str, tuple[float, float]]
    tree: Mapping[str, float]
    chunk: tuple[float, float]
    best_chunk: float
    decode_steps: tuple[float, float]
    mixed: tuple[float, float]
    chunk_gb: float

    def configurations(self) -> Iterator[dict[str, FlagValue]]:
        """Every combination."""
        for values in itertools.product(*(p.values() for p in PARAMETERS.values())):
            yield dict(zip(PARAMETERS, values, strict=True))

    def slowdown(self, flags: Flags, topk: int, is_loaded: bool) -> float:
        """Factor on every time."""
        which, backend = int(is_loaded), str(flags[_BACKEND])
        total = self.backend[backend][which]
        total += self.tree[backend] if topk > 1 else 0.0
        total += self.chunk[which] * (math.log2(int(flags[_CHUNK])) - self.best_chunk) ** 2
        total += self.decode_steps[which] * (int(flags[_STEPS]) - 1)
        total += self.mixed[which] if flags[_MIXED] else 0.0
        return math.exp(total)

    def taken_gb(self, flags: Flags) -> float:
        """Memory beside the static pool, beyond what the default chunk takes."""
        return self.chunk_gb * (int(flags[_CHUNK]) / 8192 - 1)


def extras_of(seed: int) -> Extras:
    """Of the box with this number."""
    rng = rng_of("extras", seed)
    backends = [str(name) for name in PARAMETERS[_BACKEND].values()]

    def pair(sd: float) -> tuple[float, float]:
        return float(rng.normal(0, sd)), float(rng.normal(0, sd))

    return Extras(
        backend={name: pair(0.03) for name in backends},
        tree={name: abs(float(rng.normal(0, 0.06))) for name in backends},
        chunk=(abs(float(rng.normal(0, 0.006))), abs(float(rng.normal(0, 0.012)))),
        best_chunk=float(rng.uniform(11.5, 13.5)),
        decode_steps=(float(rng.normal(0, 0.008)), float(rng.normal(-0.005, 0.008))),
        mixed=pair(0.02),
        chunk_gb=float(rng.uniform(0.3, 1.2)),
    )
