"""What every section reads: a study, its ranking, and the launches behind each configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from autotune.core import launches
from autotune.core.ranking import Ranking, Standing
from autotune.core.trial import Interval, Phase, TrialRecord
from autotune.study.reading import StudyView


@dataclass(frozen=True, slots=True)
class Configuration:
    """One measured configuration with its launches."""

    standing: Standing
    records: tuple[TrialRecord, ...]

    def phases(self, concurrency: int) -> list[Phase]:
        return [p for r in self.records for p in r.phases if p.concurrency == concurrency]

    def pooled(self, concurrency: int, metric: str) -> Interval | None:
        """A metric of one load over all launches; None where it was not measured."""
        return launches.pooled(self.phases(concurrency), metric)

    @property
    def accept_length(self) -> float | None:
        found = [p.accept_length for r in self.records for p in r.phases if p.accept_length]
        return sum(found) / len(found) if found else None

    def effective(self, name: str) -> float | None:
        """A number that the server itself told, of the first launch that has it."""
        return launches.told(self.records, name)


class Subject:
    """A study as the report tells it."""

    def __init__(self, view: StudyView) -> None:
        self.view = view
        self.ranking: Ranking = view.ranking
        self.by_number = {record.number: record for record in view.records}

    @property
    def records(self) -> Sequence[TrialRecord]:
        return self.view.records

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """All of the ranking, best score first."""
        return tuple(self.of(standing) for standing in self.ranking.standings)

    def of(self, standing: Standing) -> Configuration:
        return Configuration(standing, tuple(self.by_number[n] for n in standing.trials))

    @cached_property
    def concurrencies(self) -> tuple[int, ...]:
        """All that were measured, smallest first."""
        return tuple(sorted({p.concurrency for r in self.records for p in r.phases}))

    @cached_property
    def serving(self) -> tuple[int, ...]:
        phases = (p for r in self.records for p in r.phases)
        return tuple(sorted({p.concurrency for p in phases if p.role == "serving"}))

    @cached_property
    def flags(self) -> tuple[str, ...]:
        """Names of the searched flags that took more than one value, in the order of records."""
        values: dict[str, set[object]] = {}
        for standing in self.ranking.standings:
            for name, value in standing.flags.items():
                values.setdefault(name, set()).add(value)
        return tuple(name for name, seen in values.items() if len(seen) > 1)
