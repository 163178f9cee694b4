"""Steps that follow the batch instead of fixed ones: what a study's measurements suggest.

Each configuration was measured at several loads, so the study knows which number of draft steps is
best at each. SGLang's adaptive speculation takes such a table. What it loses again (memory is set
aside for the deepest draft at every load) only a launch of its own can show.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from autotune.core.adaptive import OFF, Load, Tier, best_steps, tiers
from autotune.core.launches import pooled, told
from autotune.core.ranking import Standing
from autotune.core.repeats import SMALLEST_GAIN
from autotune.core.trial import Flags, FlagValue, Interval, TrialRecord
from autotune.engine.sglang.adaptive import flags_for, has_table, takes_off, why_not
from autotune.engine.sglang.command import LaunchCommand
from autotune.errors import NoFeasibleConfiguration
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK, TREE_FLAGS, chain_draft_tokens
from autotune.study import words
from autotune.study.adaptation import AdaptivePlan, in_words
from autotune.study.adaptation import steps as in_steps
from autotune.study.reading import StudyView
from autotune.study.verdict import by_load


@dataclass(frozen=True, slots=True)
class Wish:
    """What one load wants.

    Attributes:
        batch: requests of it that would run at once.
        steps: the best number of steps; 0: speculation off.
        values: by steps, in the unit of the load's headline.
        estimated: steps whose value is not measured but brought down to ``batch``, since more
            requests ran at once when these steps were fixed.
        is_latency: whether less is better.
    """

    concurrency: int
    batch: int
    steps: int
    values: Mapping[int, Interval]
    estimated: frozenset[int]
    is_latency: bool

    @property
    def load(self) -> Load:
        """As the table is made of it: more is better."""
        curve = self.values
        if self.is_latency:
            curve = {s: Interval(1 / v.value, 1 / v.high, 1 / v.low) for s, v in curve.items()}
        return Load(self.concurrency, self.batch, curve)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Steps by batch size, or why fixed steps are best.

    Attributes:
        static: what to deploy otherwise: the best configuration of the study.
        base: the flags beside the steps: its own, or those of the best chain where it is a tree.
        wishes: by rising concurrency.
        tiers: two or more; empty where fixed steps are best.
        why_static: that reason in one sentence; empty where there are tiers.
        cautions: what the table costs, and what it cannot do.
    """

    static: Standing
    base: Flags
    wishes: tuple[Wish, ...] = ()
    tiers: tuple[Tier, ...] = ()
    why_static: str = ""
    cautions: tuple[str, ...] = ()

    @property
    def plan(self) -> AdaptivePlan:
        """The mark of a launch of it."""
        return AdaptivePlan(self.static.trial, self.tiers)

    def flags(self, path: str) -> dict[str, FlagValue]:
        """The flags to launch, with the table in a file at ``path``."""
        return {**self.base, **flags_for(self.tiers, path)}


def suggest(view: StudyView, command: LaunchCommand) -> Suggestion:
    """The table that a study's measurements suggest for the server of a command.

    Of several memory fractions with the same steps the best value counts; every other flag is that
    of the best chain.

    Args:
        command: the release that it knows decides what a table may hold.

    Raises:
        NoFeasibleConfiguration: there is nothing to start from.
    """
    static = view.ranking.best
    if static is None:
        raise NoFeasibleConfiguration(
            "the study has no feasible configuration",
            hint="autotune show lists what failed and why",
        )
    chains = [s for s in view.ranking.feasible if is_chain(s.flags)]
    base = static if is_chain(static.flags) else chains[0] if chains else static
    measured = _Measured(view, [s for s in chains if _rest(s.flags) == _rest(base.flags)])
    with_off = takes_off(command.version)
    freely = list(measured.wishes(with_off))
    plans = [
        _Option(wishes, deepest, measured.gain(wishes, view, static))
        for deepest in measured.counts
        if (wishes := tuple(measured.wishes(with_off, deepest, measured.limit(deepest))))
    ]
    chosen = max(plans, key=lambda plan: (plan.gain, -plan.deepest), default=_Option((), 0, 0.0))
    found = Suggestion(static, base.flags, chosen.wishes)
    limit = measured.limit(chosen.deepest)
    reason = why_not(command) or _why_static(freely, chosen, limit)
    if reason:
        return replace(found, why_static=reason)
    table = tiers([wish.load for wish in chosen.wishes], with_off=with_off)
    if len(table) < 2:
        text = "loads with other best steps run equally many requests at once, and look alike"
        return replace(found, why_static=text)
    if chosen.gain < SMALLEST_GAIN:
        once = f", where {limit} requests run at once" if limit else ""
        gain = words.gain(100 * chosen.gain)
        text = f"{in_words(table)} gains nothing by what was measured: {gain}{once}"
        return replace(found, why_static=text)
    return replace(found, tiers=table, cautions=tuple(_cautions(table, measured, command)))


@dataclass(frozen=True, slots=True)
class _Option:
    """What the loads want of steps up to a deepest.

    Attributes:
        gain: of the score over the best fixed flags, by what was measured.
    """

    wishes: tuple[Wish, ...]
    deepest: int
    gain: float


def is_chain(flags: Flags) -> bool:
    """Whether SGLang could adapt the steps of these flags: topk 1, and a token for each step."""
    steps, draft = flags.get(STEPS), flags.get(DRAFT)
    if not isinstance(steps, int) or flags.get(TOPK) != 1:
        return False
    return draft is None or draft == chain_draft_tokens(steps)


def _rest(flags: Flags) -> dict[str, FlagValue]:
    return {name: v for name, v in flags.items() if name not in (*TREE_FLAGS, MEMORY)}


def _why_static(freely: Sequence[Wish], chosen: _Option, limit: int | None) -> str | None:
    """Why one number of steps does for all loads; None where it does not.

    Args:
        freely: what each load wants where it may run as many requests as its own steps allow.
    """
    wishes = chosen.wishes
    counts = {steps for wish in freely for steps in wish.values if steps != OFF}
    if len(wishes) < 2 or len(counts) < 2:
        return (
            "an adaptive table needs two loads and two step counts with topk 1 that differ in "
            "nothing else but the memory fraction, and the study has fewer"
        )
    best = {wish.steps for wish in wishes}
    if len(best) > 1:
        return None
    loads = " and ".join(f"C={wish.concurrency}" for wish in wishes)
    if best == {OFF}:
        return f"speculation off is best at {loads}"
    told = f"{in_steps(best.pop())} are best, or as good as the best, at {loads}"
    if len({wish.steps for wish in freely}) > 1:
        return f"{told} once memory is set aside for them and {limit} requests run at most"
    return f"{told}: fixed steps do"


class _Measured:
    """What each load measured with each number of steps."""

    def __init__(self, view: StudyView, chains: Sequence[Standing]) -> None:
        self._values: dict[int, dict[int, Interval]] = {}
        self._tok_s: dict[int, dict[int, float]] = {}
        self._latencies: set[int] = set()
        self._limits: dict[int, int] = {}
        for standing in chains:
            steps = standing.flags[STEPS]
            assert isinstance(steps, int), "a chain has steps"
            self._add(steps, [view.record(number) for number in standing.trials])
        off = view.ranking.reference
        if off is not None and off.feasible:
            self._add(OFF, [view.record(number) for number in off.trials])

    def _add(self, steps: int, records: Sequence[TrialRecord]) -> None:
        """Of several configurations with these steps the best value of each load is kept."""
        phases = [p for record in records for p in record.phases if not p.open_loop]
        headlines, rates = by_load(records), self._tok_s.setdefault(steps, {})
        for concurrency in sorted({phase.concurrency for phase in phases}):
            mine = [phase for phase in phases if phase.concurrency == concurrency]
            tok_s = pooled(mine, "output_tok_s")
            if mine[0].load not in headlines or tok_s is None:
                continue
            value, is_latency = headlines[mine[0].load]
            if is_latency:
                self._latencies.add(concurrency)
            known = self._values.setdefault(concurrency, {})
            better = min if is_latency else max
            known[steps] = better(known.get(steps, value), value, key=lambda v: v.value)
            rates[concurrency] = max(rates.get(concurrency, 0.0), tok_s.value)
        limit = told(records, "max_running_requests")
        if limit is not None:
            self._limits[steps] = max(int(limit), self._limits.get(steps, 0))

    def limit(self, steps: int) -> int | None:
        """Requests that run at once under these fixed steps; None: not known."""
        return self._limits.get(steps)

    @property
    def counts(self) -> list[int]:
        """Step counts of drafts that were measured, rising."""
        return sorted(self._tok_s.keys() - {OFF})

    def gain(self, wishes: Sequence[Wish], view: StudyView, static: Standing) -> float:
        """Of the score over fixed flags, as a fraction, if each load ran as it wishes."""
        fixed = by_load([view.record(number) for number in static.trials])
        logs: dict[bool, list[float]] = {True: [], False: []}
        for wish in wishes:
            if f"C={wish.concurrency}" in fixed:
                ratio = wish.values[wish.steps].value / fixed[f"C={wish.concurrency}"][0].value
                logs[wish.is_latency].append(math.log(ratio))
        weight = view.objective.latency_weight
        latency, serving = (fmean(logs[kind]) if logs[kind] else 0.0 for kind in (True, False))
        return math.expm1((1 - weight) * serving - weight * latency)

    def wishes(
        self, with_off: bool, deepest: int | None = None, limit: int | None = None
    ) -> Iterator[Wish]:
        """By rising concurrency.

        Args:
            deepest: of the steps to choose among; None: any.
            limit: requests that run at once, whatever the steps; None: as the fixed steps allow.
        """
        for concurrency in sorted(self._values):
            batch = min(concurrency, limit or concurrency)
            is_latency = concurrency in self._latencies
            values, estimated = dict(self._values[concurrency]), set()
            for steps in values.keys() if limit and not is_latency else ():
                ran = min(concurrency, self._limits.get(steps, concurrency))
                tok_s = self._tok_s_at(steps, batch) if ran > batch else None
                if tok_s is not None:
                    values[steps] = _scaled(values[steps], tok_s)
                    estimated.add(steps)
            wish = Wish(concurrency, batch, OFF, values, frozenset(estimated), is_latency)
            curve = wish.load.curve
            near = {n: v for n, v in curve.items() if deepest is None or n <= deepest}
            if near.keys() - {OFF}:
                yield replace(wish, steps=best_steps(near, with_off=with_off))

    def _tok_s_at(self, steps: int, batch: int) -> float | None:
        """Throughput of a batch between two that were measured, on the scale of logarithms."""
        points = sorted(
            (min(c, self._limits.get(steps, c)), tok_s) for c, tok_s in self._tok_s[steps].items()
        )
        for (low, slow), (high, fast) in itertools.pairwise(points):
            if low <= batch <= high and low < high:
                share = math.log(batch / low) / math.log(high / low)
                return math.exp((1 - share) * math.log(slow) + share * math.log(fast))
        return None


def _scaled(interval: Interval, value: float) -> Interval:
    factor = value / interval.value
    return Interval(value, interval.low * factor, interval.high * factor)


def _cautions(table: Sequence[Tier], measured: _Measured, command: LaunchCommand) -> Iterator[str]:
    deepest = max(tier.steps for tier in table)
    limit = measured.limit(deepest)
    for before, tier in itertools.pairwise(table):
        own = measured.limit(tier.steps)
        if limit is not None and own is not None and before.steps > tier.steps and own > limit:
            yield (
                f"memory is set aside for {in_steps(deepest)} at every load: {limit} requests run "
                f"at once, where fixed {in_steps(tier.steps)} run {own}"
            )
            break
    if not has_table(command.version):
        yield (
            f"SGLang {command.version} has no steps by batch size: acceptance alone chooses among "
            "them, whatever the load"
        )
    if any(tier.steps == OFF for tier in table):
        yield "a server that adapts runs its draft model at 0 steps, too, if only once a cycle"
