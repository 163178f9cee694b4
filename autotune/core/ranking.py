"""Records to standings: one line per configuration, with its score against the baseline.

A configuration launched more than once is one standing: values are pooled on the log scale, and
the spread between launches, which no single launch can see, enters the interval.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from autotune.core import pareto
from autotune.core.objective import LATENCY, THROUGHPUT, Objective, gain_pct
from autotune.core.trial import Flags, FlagValue, Interval, TrialRecord

FlagKey = tuple[tuple[str, FlagValue], ...]


def flag_key(flags: Flags) -> FlagKey:
    """A hashable identity of canonical flags, whatever their order."""
    return tuple(sorted(flags.items()))


@dataclass(frozen=True, slots=True)
class Standing:
    """One measured configuration.

    Attributes:
        trials: numbers of its launches that carry values, first one first.
        feasible: no launch violated a constraint.
        score: of the objective, against the baseline; 0 is the baseline's own.
        constraints: worst violation of each SLO over its launches, relative to its limit; > 0 is
            infeasible, < 0 is to spare.
    """

    trials: tuple[int, ...]
    flags: Flags
    latency_s: Interval
    throughput_tok_s: Interval
    feasible: bool
    score: float
    constraints: Mapping[str, float] = field(default_factory=dict)

    @property
    def trial(self) -> int:
        return self.trials[0]

    @property
    def gain_vs_baseline_pct(self) -> float:
        return gain_pct(self.score)

    @property
    def point(self) -> pareto.Point:
        return self.latency_s.value, self.throughput_tok_s.value

    @property
    def region(self) -> pareto.Region:
        return pareto.Region(self.latency_s, self.throughput_tok_s)

    def to_dict(self) -> dict[str, Any]:
        """The ``T`` of ``autotune pareto --json``."""
        return {
            "trial": self.trial,
            "trials": list(self.trials),
            "flags": dict(self.flags),
            "latency_s": _plain(self.latency_s),
            "throughput_tok_s": _plain(self.throughput_tok_s),
            "score": self.score,
            "gain_vs_baseline_pct": self.gain_vs_baseline_pct,
            "constraints": dict(self.constraints),
        }


@dataclass(frozen=True)
class Ranking:
    """All standings of a study under one objective, best score first.

    What follows from them is worked out once: readers ask for it at every trial.

    Attributes:
        baseline: the baseline's standing; None before it is measured.
        reference: that of speculation off, which is no member of the others; None: not measured.
        front: feasible standings that no other dominates, by rising latency.
        chosen: the trial that the study recommends by its model; None: nothing recommends any.
    """

    objective: Objective
    standings: tuple[Standing, ...]
    baseline: Standing | None
    front: tuple[Standing, ...]
    counts: Mapping[str, Any]
    reference: Standing | None = None
    chosen: int | None = None

    @cached_property
    def feasible(self) -> tuple[Standing, ...]:
        return tuple(s for s in self.standings if s.feasible)

    @cached_property
    def best(self) -> Standing | None:
        """The feasible standing that the study recommends, else the one with the highest score.

        The highest of several measured scores is too high by luck, which a model sees through.
        Without one, and within half a percent, which no practical study resolves, the simpler
        flags win.
        """
        feasible = self.feasible
        for standing in feasible:
            if self.chosen in standing.trials:
                return standing
        if not feasible:
            return None
        tied = [s for s in feasible if s.score >= feasible[0].score - TIE]
        return min(tied, key=lambda s: simplicity(s.flags))

    @cached_property
    def knee(self) -> Standing | None:
        index = pareto.knee([s.point for s in self.front])
        return None if index is None else self.front[index]

    def under(self, objective: Objective) -> Ranking:
        """The same measurements under other weights; a recommendation holds for its own only."""
        if objective == self.objective or not self.standings:
            return replace(self, objective=objective)
        base = self._scored_against

        def scored(s: Standing) -> Standing:
            return replace(s, score=objective.score(*s.point, base))

        standings = sorted(map(scored, self.standings), key=lambda s: (-s.score, s.trial))
        by_trial = {s.trial: s for s in standings}
        return replace(
            self,
            objective=objective,
            standings=tuple(standings),
            baseline=by_trial[self.baseline.trial] if self.baseline else None,
            front=tuple(by_trial[s.trial] for s in self.front),
            reference=scored(self.reference) if self.reference else None,
            chosen=None,
        )

    @property
    def _scored_against(self) -> pareto.Point:
        """The baseline, or what stood in for it: the configuration that was launched first."""
        return (self.baseline or min(self.standings, key=lambda s: s.trial)).point

    @property
    def rival(self) -> str:
        """Whom the gains are against, in words."""
        if self.baseline is not None or not self.standings:
            return "the baseline"
        return f"trial {min(self.standings, key=lambda s: s.trial).trial}"

    @property
    def ties(self) -> tuple[tuple[Standing, Standing], ...]:
        """Pairs of the front that the measurements cannot tell apart."""
        pairs = itertools.combinations(self.front, 2)
        return tuple((a, b) for a, b in pairs if pareto.same(a.region, b.region))

    @property
    def perhaps(self) -> tuple[Standing, ...]:
        """Feasible standings that only noise keeps off the front, by rising latency."""
        feasible = self.feasible
        kept = (feasible[i] for i in pareto.uncertain_front([s.region for s in feasible]))
        on_it = {s.trial for s in self.front}
        return tuple(s for s in kept if s.trial not in on_it)

    @property
    def hypervolume_frac(self) -> float | None:
        """Area of the front beyond the baseline, as a share of its latency times its throughput.

        The reference point is the baseline: what it does not lose to at both goals adds nothing.
        None where there is no baseline.
        """
        return None if self.baseline is None else beyond(self.front, self.baseline.point)

    def weight_ranges(self) -> list[tuple[Standing, float, float]]:
        """Who of the front has the highest score from which latency weight to which."""
        only = [self.under(Objective("", w)) for w in (1.0, 0.0)]
        scores = [{s.trial: s.score for s in each.front} for each in only]
        gains = [(scores[0][s.trial], scores[1][s.trial]) for s in self.front]
        return [(self.front[r.member], r.low, r.high) for r in pareto.weight_ranges(gains)]

    def standing_of(self, record: TrialRecord) -> Standing | None:
        """The standing of these flags, whichever launch of them was measured; None: none was."""
        if record.role == "reference":
            return self.reference
        return self._by_flags.get(flag_key(record.flags))

    @cached_property
    def _by_flags(self) -> Mapping[FlagKey, Standing]:
        return {flag_key(s.flags): s for s in self.standings}

    def gain_error_pct(self, standing: Standing) -> float:
        """Half of the 95 % interval of the gain against the baseline, in percent points.

        The four measured values are taken as independent, weighted as the score weighs them.
        """
        if self.baseline is None:
            return 0.0
        w = self.objective.latency_weight
        total = 0.0
        for s in (standing, self.baseline):
            total += (w * s.latency_s.half_width_frac) ** 2
            total += ((1 - w) * s.throughput_tok_s.half_width_frac) ** 2
        return 100.0 * math.exp(standing.score) * math.sqrt(total)

    def to_dict(self, study: str) -> dict[str, Any]:
        """The document of ``autotune pareto --json``."""
        return {
            "study": study,
            "objective": {"name": self.objective.name, "weights": self.objective.weights},
            "baseline": self.baseline.to_dict() if self.baseline else None,
            "best": self.best.to_dict() if self.best else None,
            "knee": self.knee.to_dict() if self.knee else None,
            "front": [standing.to_dict() for standing in self.front],
            "ties": [[a.trial, b.trial] for a, b in self.ties],
            "perhaps": [standing.to_dict() for standing in self.perhaps],
            "hypervolume_frac": self.hypervolume_frac,
            "weight_ranges": [
                {"trial": s.trial, "low": low, "high": high}
                for s, low, high in self.weight_ranges()
            ],
            "n_trials": dict(self.counts),
        }


def beyond(standings: Iterable[Standing], base: pareto.Point) -> float:
    """Hypervolume above ``base``, as a share of its latency times its throughput."""
    return pareto.hypervolume([s.point for s in standings], base) / (base[0] * base[1])


TIE = 0.005


def simplicity(flags: Flags) -> tuple[float, ...]:
    """Smaller is simpler: fewer steps, narrower tree, smaller draft, less memory."""
    names = (
        "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
        "mem_fraction_static",
    )  # fmt: skip
    values = (flags.get(name, 0) for name in names)
    return tuple(float(v) if isinstance(v, int | float) else 0.0 for v in values)


def rank(
    records: Iterable[TrialRecord], objective: Objective, chosen: int | None = None
) -> Ranking:
    """Ranks the records of a study. Failed and pruned trials are counted, and left out otherwise.

    Args:
        chosen: the trial that the study recommends, if any.
    """
    records = list(records)
    measured: dict[FlagKey, list[TrialRecord]] = {}
    off: list[TrialRecord] = []
    for record in records:
        if record.objectives is None or record.status == "failed":
            continue
        if record.role == "reference":
            off.append(record)
        else:
            measured.setdefault(flag_key(record.flags), []).append(record)
    base_key = next(
        (k for k, group in measured.items() if any(r.role == "baseline" for r in group)), None
    )
    base = None if base_key is None else _point(measured[base_key])
    if base is None and measured:
        base = _point(next(iter(measured.values())))
    standings = sorted(
        (_standing(group, objective, base) for group in measured.values() if base),
        key=lambda s: (-s.score, s.trial),
    )
    feasible = [s for s in standings if s.feasible]
    front = tuple(feasible[i] for i in pareto.front([s.point for s in feasible]))
    baseline = next((s for s in standings if base_key == flag_key(s.flags)), None)
    reference = _standing(off, objective, base) if off and base else None
    return Ranking(
        objective, tuple(standings), baseline, front, _counts(records), reference, chosen
    )


def _counts(records: Sequence[TrialRecord]) -> dict[str, Any]:
    statuses = Counter(record.status for record in records)
    kinds = Counter(str(record.failure.kind) for record in records if record.failure)
    return {
        "complete": statuses["complete"],
        "failed": statuses["failed"],
        "infeasible": statuses["infeasible"],
        "pruned": statuses["pruned"],
        "by_kind": dict(sorted(kinds.items())),
    }


def _standing(
    group: Sequence[TrialRecord], objective: Objective, base: tuple[float, float]
) -> Standing:
    latency, throughput = _pool(group, LATENCY), _pool(group, THROUGHPUT)
    return Standing(
        trials=tuple(record.number for record in group),
        flags=group[0].flags,
        latency_s=latency,
        throughput_tok_s=throughput,
        feasible=all(record.status == "complete" for record in group),
        score=objective.score(latency.value, throughput.value, base),
        constraints=worst_constraints(group),
    )


def worst_constraints(launches: Iterable[TrialRecord]) -> dict[str, float]:
    """Of each SLO the violation by the launch that keeps it the least."""
    worst: dict[str, float] = {}
    for record in launches:
        for slo, by in record.constraints.items():
            worst[slo] = max(by, worst.get(slo, by))
    return worst


def _point(group: Sequence[TrialRecord]) -> tuple[float, float]:
    return _pool(group, LATENCY).value, _pool(group, THROUGHPUT).value


def _pool(group: Sequence[TrialRecord], name: str) -> Interval:
    return pool([record.objectives[name] for record in group if record.objectives])


def pool(values: Sequence[Interval]) -> Interval:
    """Mean of one value over several launches, on the log scale.

    The variance of a launch is at least what its own interval says, and at least what the launches
    differ by; the mean of n launches has an n-th of it.

    Args:
        values: at least one, all above zero.
    """
    if len(values) == 1:
        return values[0]
    logs = [math.log(v.value) for v in values]
    n = len(logs)
    mean = sum(logs) / n
    between = sum((x - mean) ** 2 for x in logs) / (n - 1)
    within = sum((v.half_width_frac / 1.96) ** 2 for v in values) / n
    half = 1.96 * math.sqrt(max(between, within) / n)
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def _plain(interval: Interval) -> dict[str, float]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}
