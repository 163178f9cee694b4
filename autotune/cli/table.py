"""Trials as rows of text with aligned columns, the same while a study runs and afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.cli import words
from autotune.core.ranking import Standing
from autotune.core.trial import Flags, TrialRecord

Row = list[str]


@dataclass(frozen=True, slots=True)
class TrialTable:
    """Knows the columns of a study. Flag columns first, then what was measured.

    Attributes:
        flags: names of the flag columns.
        serving: concurrencies that have a throughput column.
    """

    flags: Sequence[str]
    serving: Sequence[int]

    _WIDTHS = (18, 22, 13, 7, 8)

    def header(self) -> str:
        titles = ["#", *(words.short(name) for name in self.flags), "one turn, C=1"]
        titles += [f"C={c}" for c in self.serving]
        return self._line([*titles, "vs baseline", "accept", "running"])

    def lead(self, number: int, flags: Flags) -> str:
        """The start of a row: number and flags."""
        cells = [str(number), *(words.value(flags.get(name, "")) for name in self.flags)]
        return "".join(f"{c:>{w}}" for c, w in zip(cells, self._widths(), strict=False)) + "   "

    def row(self, record: TrialRecord, gain_pct: float | None) -> str:
        """One trial: its values, or why it has none; then what to keep in mind."""
        if record.failure is not None:
            return self.lead(record.number, record.flags) + words.failure(record)
        latency = [p.turn_latency_s for p in record.phases if p.role == "latency"]
        served = {p.concurrency: p.output_tok_s for p in record.phases if p.role == "serving"}
        measured = [words.seconds(latency[0]) if latency else "–"]
        measured += [words.tok_s(served[c]) if c in served else "–" for c in self.serving]
        notes = words.notes(record)
        return self._values(record, measured, gain_pct) + (f"  ! {notes}" if notes else "")

    def pooled(self, standing: Standing, record: TrialRecord) -> str:
        """One configuration: its values over all its launches; ``record`` is the first of them."""
        if len(standing.trials) == 1:
            return self.row(record, standing.gain_vs_baseline_pct)
        measured = [words.seconds(standing.latency_s), words.tok_s(standing.throughput_tok_s)]
        measured += [""] * (len(self.serving) - 1)
        numbers = ", ".join(map(str, standing.trials))
        values = self._values(record, measured, standing.gain_vs_baseline_pct)
        return f"{values}  trials {numbers} together"

    def _values(self, record: TrialRecord, measured: Row, gain_pct: float | None) -> str:
        accept = next((p.accept_length for p in record.phases if p.accept_length), None)
        limit = record.effective.get("max_running_requests", "–")
        cells = [*measured, self._gain(record, gain_pct), f"{accept:.2f}" if accept else "–"]
        widths = self._widths()[1 + len(self.flags) :]
        line = "".join(f"{c:<{w}}" for c, w in zip([*cells, str(limit)], widths, strict=True))
        return (self.lead(record.number, record.flags) + line).rstrip()

    def _gain(self, record: TrialRecord, gain_pct: float | None) -> str:
        if record.role == "baseline":
            return "baseline"
        text = "" if gain_pct is None else words.gain(gain_pct)
        return text + (" (SLO)" if record.status == "infeasible" else "")

    def _widths(self) -> list[int]:
        first, served, *rest = self._WIDTHS
        flag_widths = [max(6, len(words.short(name)) + 2) for name in self.flags]
        return [3, *flag_widths, first, *(served for _ in self.serving), *rest]

    def _line(self, titles: Iterable[str]) -> str:
        widths = self._widths()
        n_right = 1 + len(self.flags)
        cells = [
            f"{title:>{width}}" if i < n_right else f"{title:<{width}}"
            for i, (title, width) in enumerate(zip(titles, widths, strict=True))
        ]
        return ("".join(cells[:n_right]) + "   " + "".join(cells[n_right:])).rstrip()
