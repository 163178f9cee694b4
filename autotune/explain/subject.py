"""The configuration that is explained, with the launches behind it and what it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.core import launches
from autotune.core.ranking import Ranking, Standing, flag_key
from autotune.core.trial import Flags, Interval, Phase, TrialRecord
from autotune.space.rules import DRAFT, STEPS, TOPK, tree_capacity_tok
from autotune.study import words
from autotune.study.reading import StudyView


@dataclass(frozen=True)
class Subject:
    """One measured configuration of a study."""

    view: StudyView
    ranking: Ranking
    standing: Standing

    @cached_property
    def records(self) -> Sequence[TrialRecord]:
        """Its launches, first one first."""
        wanted = set(self.standing.trials)
        return [record for record in self.view.records if record.number in wanted]

    @property
    def flags(self) -> Flags:
        return self.standing.flags

    @property
    def is_best(self) -> bool:
        best = self.ranking.best
        return best is not None and best.trial == self.standing.trial

    def of(self, standing: Standing) -> Subject:
        """Another configuration of the same study."""
        return Subject(self.view, self.ranking, standing)

    def with_flags(self, flags: Flags) -> Subject | None:
        """The configuration with these flags; None where it was not measured."""
        key = flag_key(flags)
        found = next((s for s in self.ranking.standings if flag_key(s.flags) == key), None)
        return None if found is None else self.of(found)

    # ---- what was measured --------------------------------------------------------------------

    @property
    def first(self) -> TrialRecord:
        return self.records[0]

    def phases(self, load: str) -> list[Phase]:
        return [phase for record in self.records for phase in record.phases if phase.load == load]

    @property
    def latency_load(self) -> str:
        return next((p.load for p in self.first.phases if p.role == "latency"), "C=1")

    @property
    def serving(self) -> list[Phase]:
        """The serving loads of its first launch."""
        return [phase for phase in self.first.phases if phase.role == "serving"]

    def pooled(self, load: str, metric: str) -> Interval | None:
        """A metric of one load over all launches; None where it was not measured."""
        return launches.pooled(self.phases(load), metric)

    @property
    def accept_length(self) -> Interval | None:
        """At the latency load, else wherever it was told."""
        found = self.pooled(self.latency_load, "accept_length_interval")
        told = (p.accept_length for r in self.records for p in r.phases if p.accept_length)
        length = next(told, None)
        if found is None and length is not None:
            return Interval(length, length, length)
        return found

    def told(self, name: str) -> float | None:
        """A number that the server itself told of its settings."""
        return launches.told(self.records, name)

    @property
    def running_limit(self) -> float | None:
        return self.told("max_running_requests")

    def warns(self, code: str) -> bool:
        """Whether a launch of it carries this caveat."""
        return any(caveat.code == code for record in self.records for caveat in record.warnings)

    # ---- flags in words -----------------------------------------------------------------------

    @property
    def name(self) -> str:
        """``trial 3 (steps 4, topk 1, draft 5)``."""
        return f"trial {self.standing.trial}{in_brackets(self.flags)}"

    @property
    def steps(self) -> int | None:
        value = self.flags.get(STEPS, self.told(STEPS))
        return int(value) if isinstance(value, int | float) and value >= 1 else None


def in_brackets(flags: Flags) -> str:
    """`` (steps 4, topk 1, draft 5)``; empty without flags."""
    told = words.flags(flags, ", ")
    return f" ({told})" if told else ""


def one_more_step(flags: Flags) -> Flags | None:
    """The flags with one draft step more, and one draft token for it; None without a draft tree."""
    steps, topk, draft = (flags.get(name) for name in (STEPS, TOPK, DRAFT))
    if not (isinstance(steps, int) and isinstance(topk, int) and isinstance(draft, int)):
        return None
    if steps < 1:
        return None
    capacity = tree_capacity_tok(steps + 1, topk)
    return {**flags, STEPS: steps + 1, DRAFT: min(draft + 1, capacity)}
