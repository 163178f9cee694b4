"""What every section reads: a study, its ranking, and the launches behind each configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from optuna.study import Study

from autotune.core import launches
from autotune.core.ranking import Ranking, Standing
from autotune.core.trial import Interval, Phase, TrialRecord
from autotune.search.knowledge import Knowledge
from autotune.study.confirmation import Finalist
from autotune.study.learned import knowledge_of
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

    def kv_used_frac(self, concurrency: int) -> float | None:
        """Share of the KV pool that running requests held at a load; None where not told."""
        found = [p.kv_used_frac for p in self.phases(concurrency)]
        told = [share for share in found if share is not None]
        return sum(told) / len(told) if told else None

    def effective(self, name: str) -> float | None:
        """A number that the server itself told, of the first launch that has it."""
        return launches.told(self.records, name)


class Subject:
    """A study as the report tells it.

    Args:
        study: the same study in its storage; None: without what its model has learned.
    """

    def __init__(self, view: StudyView, study: Study | None = None) -> None:
        self.view, self._study = view, study
        self.ranking: Ranking = view.ranking
        known = (*view.records, *view.later_records)
        self.by_number = {record.number: record for record in known}

    @property
    def knowledge(self) -> Knowledge | None:
        """What the study's model has learned; None: nothing. Made once, for it takes a while.

        Whoever asks begins with the same random draws: no section changes what another says.
        """
        if self._learned is None:
            return None
        known, state = self._learned
        known.rng.bit_generator.state = state
        return known

    @cached_property
    def _learned(self) -> tuple[Knowledge, Mapping[str, Any]] | None:
        known = None if self._study is None else knowledge_of(self.view, self._study)
        return None if known is None else (known, known.rng.bit_generator.state)

    @property
    def records(self) -> Sequence[TrialRecord]:
        return self.view.records

    @cached_property
    def configurations(self) -> tuple[Configuration, ...]:
        """All of the ranking, best score first."""
        return tuple(self.of(standing) for standing in self.ranking.standings)

    def of(self, standing: Standing) -> Configuration:
        return Configuration(standing, tuple(self.by_number[n] for n in standing.trials))

    @property
    def is_confirmed_on(self) -> int:
        """Fresh launches of the winner that ``compared`` is about; 0: launches of the search."""
        found, best = self.view.confirmation, self.ranking.best
        if found is None or best is None or found.subject.trial != best.trial:
            return 0
        both = found.subject, found.baseline
        is_known = all(f.launches and f.latency_s and f.throughput_tok_s for f in both)
        return len(found.subject.launches) if is_known and found.subject.gain else 0

    @cached_property
    def compared(self) -> tuple[Configuration, Configuration]:
        """Baseline and winner, which both must exist: on fresh launches where there are some.

        The winner of a search was partly lucky in it; its fresh launches were not chosen.
        """
        best, base, found = self.ranking.best, self.ranking.baseline, self.view.confirmation
        assert best is not None and base is not None
        if found is None or not self.is_confirmed_on:
            return self.of(base), self.of(best)
        return self._fresh(base, found.baseline), self._fresh(best, found.subject)

    def _fresh(self, standing: Standing, found: Finalist) -> Configuration:
        assert found.latency_s is not None and found.throughput_tok_s is not None
        return self.of(
            replace(
                standing,
                trials=found.launches,
                latency_s=found.latency_s,
                throughput_tok_s=found.throughput_tok_s,
            )
        )

    @property
    def gain(self) -> tuple[float, float]:
        """Of the winner over the baseline in ``compared``, percent, and half its 95 % interval."""
        best, found = self.ranking.best, self.view.confirmation
        assert best is not None
        if found is not None and self.is_confirmed_on:
            return found.subject.gain_pct, found.subject.error_pct
        return best.gain_vs_baseline_pct, self.ranking.gain_error_pct(best)

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
