"""What is optimised: one score from a latency and a throughput, and constraints beside it.

The score is relative to the baseline and has no unit, so that 1 s and 1,700 tok/s can be weighed.
Both raw values are stored: the weight may change after the run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from autotune.core.trial import Interval, Phase
from autotune.errors import ConfigError, nearest

LATENCY = "latency_s"
THROUGHPUT = "throughput_tok_s"
DIRECTIONS: tuple[Literal["minimize"], Literal["maximize"]] = ("minimize", "maximize")
"""Optuna directions of (``latency_s``, ``throughput_tok_s``)."""


@dataclass(frozen=True, slots=True)
class Objective:
    """Weights of the two goals: ``latency_weight`` in [0, 1], the rest is throughput's."""

    name: str
    latency_weight: float

    @property
    def weights(self) -> dict[str, float]:
        return {"latency": self.latency_weight, "throughput": round(1 - self.latency_weight, 6)}

    def score(self, latency: float, throughput: float, base: tuple[float, float]) -> float:
        """``w ln(latency_base / latency) + (1 - w) ln(throughput / throughput_base)``.

        Args:
            latency: seconds, > 0.
            throughput: tokens per second, > 0.
            base: (latency, throughput) of the baseline.
        """
        gained = math.log(base[0] / latency), math.log(throughput / base[1])
        return self.latency_weight * gained[0] + (1 - self.latency_weight) * gained[1]

    def describe(self) -> str:
        w = self.weights
        return f"{self.name} ({w['latency']:g} latency, {w['throughput']:g} throughput)"


PRESETS = {
    "agentic": Objective("agentic", 0.7),
    "balanced": Objective("balanced", 0.5),
    "throughput": Objective("throughput", 0.2),
}


def gain_pct(score: float) -> float:
    """A score as a percentage gained over the baseline."""
    return 100.0 * math.expm1(score)


def objective_named(name: str) -> Objective:
    """A preset by name.

    Raises:
        ConfigError: no preset has this name.
    """
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError(
            f"there is no objective named {name!r}: {nearest(name, PRESETS)}",
            hint="a file works too: a YAML mapping with name and latency_weight (0 to 1)",
        ) from None


def objective_values(phases: Iterable[Phase]) -> dict[str, Interval]:
    """The two objective values of a trial's phases.

    ``latency_s`` is the turn latency of the latency phase; ``throughput_tok_s`` is the geometric
    mean of the output throughput over the serving phases.

    Raises:
        ValueError: a phase of either role is missing.
    """
    phases = list(phases)
    latency = [p.turn_latency_s for p in phases if p.role == "latency"]
    serving = [p.output_tok_s for p in phases if p.role == "serving"]
    if not latency or not serving:
        raise ValueError("an objective needs a latency phase and a serving phase")
    return {LATENCY: _geometric_mean(latency), THROUGHPUT: _geometric_mean(serving)}


def _geometric_mean(values: list[Interval]) -> Interval:
    """Geometric mean of independent values; half-widths add in quadrature on the log scale."""
    n = len(values)
    centre = sum(math.log(max(v.value, 1e-12)) for v in values) / n

    def spread(side: str) -> float:
        total = 0.0
        for v in values:
            total += math.log(max(getattr(v, side), 1e-12) / max(v.value, 1e-12)) ** 2
        return math.sqrt(total) / n

    return Interval(
        math.exp(centre), math.exp(centre - spread("low")), math.exp(centre + spread("high"))
    )


@dataclass(frozen=True, slots=True)
class Slo:
    """One limit on one measured metric, such as ``ttft_p95_s<=0.5`` or ``decode_tok_s@1>=50``.

    Attributes:
        metric: a metric field of ``Phase``.
        percentile: ``"p50"``, ``"p90"``, ``"p95"``, ``"p99"``, or None for the headline value.
        concurrency: the phase it holds for; None: every phase.
        at_most: True for ``<=``.
        limit: in the metric's unit.
    """

    text: str
    metric: str
    percentile: str | None
    concurrency: int | None
    at_most: bool
    limit: float

    def violation(self, phases: Iterable[Phase]) -> float:
        """How far the worst phase is over the limit, relative to it; <= 0 is feasible.

        A phase without the metric (or no phase at this concurrency) counts as violated by 1.
        """
        worst = -math.inf
        for phase in phases:
            if self.concurrency in (None, phase.concurrency):
                value = self._value(phase)
                over = 1.0 if value is None else (value - self.limit) / self.limit
                worst = max(worst, over if self.at_most or value is None else -over)
        return worst if worst > -math.inf else 1.0

    def _value(self, phase: Phase) -> float | None:
        if self.percentile is not None:
            return phase.percentiles.get(self.metric, {}).get(self.percentile)
        value = getattr(phase, self.metric)
        return value.value if isinstance(value, Interval) else value


METRICS = (
    "ttft_s", "tpot_s", "itl_s", "e2e_s", "turn_latency_s", "decode_tok_s", "output_tok_s",
    "input_tok_s", "accept_length", "goodput_req_s", "good_frac", "queue_s", "cache_hit_frac",
)  # fmt: skip
OF_LIMITS = ("goodput_req_s", "good_frac")
"""Metrics that only a measurement with limits of single requests has."""
_OF_REQUESTS = ("ttft_s", "tpot_s", "itl_s", "e2e_s", "turn_latency_s", "decode_tok_s")
_LIMITABLE = ("ttft_s", "tpot_s", "e2e_s", "turn_latency_s")
"""Metrics of which a single request can be too slow."""
_SLO = re.compile(r"^\s*([a-z0-9_]+?)(?:@(\d+))?\s*(<=|>=)\s*([0-9.eE+-]+)\s*$")
_PERCENTILE = re.compile(r"^(.*)_(p50|p90|p95|p99)_(s|tok_s)$")


def parse_slo(text: str) -> Slo:
    """Reads ``METRIC[_pNN][@C]<=LIMIT``.

    Raises:
        ConfigError: not of that form, or no such metric.
    """
    found = _SLO.match(text)
    if found is None:
        raise ConfigError(
            f"SLO {text!r} is not of the form METRIC<=LIMIT, such as 'ttft_p95_s<=0.5'",
            hint="a concurrency may follow the metric: 'decode_tok_s@1>=50'",
        )
    name, concurrency, relation, limit = found.groups()
    percentile = None
    split = _PERCENTILE.match(name)
    if split is not None:
        name, percentile = f"{split[1]}_{split[3]}", split[2]
    if name not in METRICS:
        raise ConfigError(
            f"SLO {text!r}: no metric {name!r}: {nearest(name, METRICS)}", hint=_spelling(name)
        )
    if percentile is not None and name not in _OF_REQUESTS:
        raise ConfigError(f"SLO {text!r}: {name} is one number per phase and has no percentiles")
    try:
        number = float(limit)
    except ValueError:
        number = 0.0
    if not (math.isfinite(number) and number > 0):
        raise ConfigError(f"SLO {text!r}: the limit must be a number above 0")
    at = None if concurrency is None else int(concurrency)
    return Slo(text.strip(), name, percentile, at, relation == "<=", number)


def _spelling(name: str) -> str:
    """How an unknown metric should have been written, where that can be guessed."""
    if name.endswith("_ms"):
        return "times are in seconds, such as 'ttft_p95_s<=0.5'"
    if re.search(r"(^|_)p\d+", name):
        return "percentiles are p50, p90, p95 and p99, before the unit: 'ttft_p95_s<=0.5'"
    return ""


def request_limits(texts: Iterable[str]) -> Mapping[str, float]:
    """Limits of single requests for goodput, such as ``ttft_s<=0.5``: metric to its most.

    Raises:
        ConfigError: not of that form, or no metric of a single request.
    """
    limits: dict[str, float] = {}
    for text in texts:
        slo = parse_slo(text)
        if slo.metric not in _LIMITABLE or slo.percentile or slo.concurrency or not slo.at_most:
            raise ConfigError(
                f"{text!r} is no limit of a single request, such as 'ttft_s<=0.5'",
                hint=f"one of {', '.join(_LIMITABLE)} followed by <= and a number",
            )
        limits[slo.metric] = min(slo.limit, limits.get(slo.metric, math.inf))
    return limits


def broken_for_good(slos: Iterable[Slo], phases: Iterable[Phase]) -> Mapping[str, float]:
    """Violations above 0 that the phases still to come cannot mend."""
    phases = list(phases)
    measured = {None, *(phase.concurrency for phase in phases)}
    over = {slo.text: slo.violation(phases) for slo in slos if slo.concurrency in measured}
    return {text: violation for text, violation in over.items() if violation > 0}


def violations(slos: Iterable[Slo], phases: Iterable[Phase]) -> Mapping[str, float]:
    """Violation of each SLO by its text; > 0 is infeasible (Optuna's sign)."""
    phases = list(phases)
    return {slo.text: slo.violation(phases) for slo in slos}
