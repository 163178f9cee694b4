"""Trials as rows of text with aligned columns, the same while a study runs and afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.core.ranking import pool, worst_constraints
from autotune.core.trial import AFTERWARDS, Flags, TrialRecord
from autotune.study import words


@dataclass(frozen=True, slots=True)
class TrialTable:
    """Knows the columns of a study. Flag columns first, then what was measured.

    Attributes:
        flags: names of the flag columns.
        latency: concurrency of the latency column.
        serving: concurrencies that have a throughput column.
        n_slos: with any, the tightest one has a column.
    """

    flags: Sequence[str]
    latency: int
    serving: Sequence[int]
    n_slos: int = 0

    _WIDTHS = (18, 22, 15, 8, 8)
    _SLO_WIDTH = 30

    def header(self) -> str:
        titles = ["#", *(words.short(name) for name in self.flags), f"one turn, C={self.latency}"]
        titles += [f"C={c}" for c in self.serving]
        slo = ["tightest SLO"] if self.n_slos else []
        return self._line([*titles, "vs baseline", "accept", "running", *slo])

    def lead(self, number: int, flags: Flags) -> str:
        """The start of a row: number and flags."""
        cells = [str(number), *(words.value(flags.get(name, "")) for name in self.flags)]
        return "".join(f"{c:>{w}}" for c, w in zip(cells, self._widths(), strict=False)) + "   "

    def row(self, record: TrialRecord, gain_pct: float | None) -> str:
        """One trial: its values, or why it has none; then what to keep in mind."""
        if record.failure is not None:
            return self.lead(record.number, record.flags) + words.failure(record)
        if record.pruned:
            return self.lead(record.number, record.flags) + words.pruned(record)
        if record.same_as is not None:
            return self.lead(record.number, record.flags) + words.same_as(record)
        note = words.note(record)
        values = self._values([record], gain_pct)
        return values + (f"  ! {note}" if note else "")

    def pooled(self, records: Sequence[TrialRecord], gain_pct: float | None) -> str:
        """One configuration: its values over all its launches, the first one first."""
        if len(records) == 1:
            return self.row(records[0], gain_pct)
        numbers = ", ".join(str(record.number) for record in records)
        return f"{self._values(records, gain_pct)}  trials {numbers} together"

    def _values(self, records: Sequence[TrialRecord], gain_pct: float | None) -> str:
        first = records[0]
        phases = [phase for record in records for phase in record.phases]
        latency = [p.turn_latency_s for p in phases if p.role == "latency"]
        cells = [words.seconds(pool(latency)) if latency else "–"]
        for concurrency in self.serving:
            served = [p.output_tok_s for p in phases if p.concurrency == concurrency]
            cells.append(words.tok_s(pool(served)) if served else "–")
        accept = next((p.accept_length for p in phases if p.accept_length), None)
        limit = first.effective.get("max_running_requests", "–")
        cells += [self._gain(first, gain_pct), f"{accept:.2f}" if accept else "–", str(limit)]
        if self.n_slos:
            cells.append(words.tightest(worst_constraints(records)))
        widths = self._widths()[1 + len(self.flags) :]
        line = "".join(f"{c:<{w}}" for c, w in zip(cells, widths, strict=True))
        return (self.lead(first.number, first.flags) + line).rstrip()

    def _gain(self, record: TrialRecord, gain_pct: float | None) -> str:
        outside = " (SLO)" if record.status == "infeasible" else ""
        if record.role == "baseline":
            return f"baseline{outside}"
        text = "" if gain_pct is None else words.gain(gain_pct)
        if record.role in AFTERWARDS:
            return record.role
        if record.role == "reference":
            return f"{text} off".lstrip()
        return text + outside

    def _widths(self) -> list[int]:
        first, served, *rest = self._WIDTHS
        flag_widths = [max(6, len(words.short(name)) + 2) for name in self.flags]
        slo = [self._SLO_WIDTH] if self.n_slos else []
        return [3, *flag_widths, first, *(served for _ in self.serving), *rest, *slo]

    def _line(self, titles: Iterable[str]) -> str:
        widths = self._widths()
        n_right = 1 + len(self.flags)
        cells = [
            f"{title:>{width}}" if i < n_right else f"{title:<{width}}"
            for i, (title, width) in enumerate(zip(titles, widths, strict=True))
        ]
        return ("".join(cells[:n_right]) + "   " + "".join(cells[n_right:])).rstrip()
