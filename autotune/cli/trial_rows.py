"""Trials as flat rows for ``show --csv``: one row per trial, raw values, units in the headers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.ranking import Ranking
from autotune.core.trial import Interval, Phase, TrialRecord
from autotune.study.reading import StudyView

Cell = str | int | float | bool | None

_INTERVALS = ("ttft_s", "tpot_s", "turn_latency_s", "decode_tok_s", "output_tok_s")
_NUMBERS = (
    "accept_length", "in_flight_mean", "waiting_mean", "cache_hit_frac", "n_requests", "n_failed"
)  # fmt: skip
_TOLD = ("max_running_requests", "max_total_num_tokens", "available_gpu_mem_gb")
_TIMINGS = ("launch_s", "measure_s", "stop_s")


def as_csv(view: StudyView) -> str:
    """All trials of a study, those after its search included, by number; RFC 4180.

    Headers depend on the flags that the study searches and its loads, and on no value. A metric of
    one load is ``name@C``, as in an SLO; ends of its 95 % interval are ``name_low@C`` and
    ``name_high@C``. A cell without a value is empty.
    """
    flags = _flag_names(view)
    loads = (view.config.latency_concurrency, *view.config.serving_concurrency)
    fresh = (launch.record for launch in view.confirm_launches)
    adaptive = (launch.record for launch in view.adaptive_launches)
    records = [*view.records, *fresh, *adaptive]
    ranking = view.ranking
    rows = [
        dict(_cells(view, ranking, record, flags, loads))
        for record in sorted(records, key=lambda record: record.number)
    ]
    text = io.StringIO()
    writer = csv.writer(text)  # CRLF, quotes where a cell needs them
    empty = TrialRecord(number=0, status="failed", flags={})
    writer.writerow([name for name, _ in _cells(view, ranking, empty, flags, loads)])
    writer.writerows([_written(cell) for cell in row.values()] for row in rows)
    return text.getvalue()


def _flag_names(view: StudyView) -> list[str]:
    """The searched flags in the order of the space; a launch without speculation has fewer."""
    names: dict[str, None] = {}
    for record in view.records:
        names.update(dict.fromkeys(record.flags))
    return list(names)


def _cells(
    view: StudyView,
    ranking: Ranking,
    record: TrialRecord,
    flags: Iterable[str],
    loads: Iterable[int],
) -> Iterator[tuple[str, Cell]]:
    ended_at = view.ended_at.get(record.number)
    yield "trial", record.number
    yield "role", record.role
    yield "status", record.status
    yield "same_as", record.same_as
    yield "pruned", record.pruned or None
    yield "ended_at", ended_at.isoformat() if ended_at else None
    for name in flags:
        yield name, record.flags.get(name)
    for name in (LATENCY, THROUGHPUT):
        yield from _spread(name, "", (record.objectives or {}).get(name))
    yield from _standing(ranking, record)
    for name in _TOLD:
        yield name, _number(record.effective.get(name))
    phases = {phase.concurrency: phase for phase in record.phases}
    for load in loads:
        yield from _phase(load, phases.get(load))
    for name in _TIMINGS:
        yield name, record.timings.get(name)
    failure = record.failure
    yield "failure_kind", str(failure.kind) if failure else None
    yield "failure_stage", failure.stage if failure else None
    yield "failure_evidence", failure.evidence if failure else None
    yield "warnings", " ".join(caveat.code for caveat in record.warnings) or None


def _standing(ranking: Ranking, record: TrialRecord) -> Iterator[tuple[str, Cell]]:
    """Of the configuration, over all its launches; a launch after the search is none of them."""
    found = ranking.standing_of(record) if record.objectives else None
    standing = found if found is not None and record.number in found.trials else None
    yield "gain_vs_baseline_pct", standing.gain_vs_baseline_pct if standing else None
    yield "is_on_front", standing in ranking.front if standing else None
    yield "is_best", standing is ranking.best if standing else None


def _phase(load: int, phase: Phase | None) -> Iterator[tuple[str, Cell]]:
    for name in _INTERVALS:
        yield from _spread(name, f"@{load}", getattr(phase, name, None))
    for name in _NUMBERS:
        yield f"{name}@{load}", getattr(phase, name, None)


def _spread(name: str, at: str, interval: Interval | None) -> Iterator[tuple[str, Cell]]:
    for part, suffix in (("value", ""), ("low", "_low"), ("high", "_high")):
        yield f"{name}{suffix}{at}", getattr(interval, part, None)


def _number(value: object) -> Cell:
    return value if isinstance(value, int | float) else None


def _written(cell: Cell) -> str | int | float:
    """As it stands in the file: ``true``, ``false`` and nothing, as JSON and YAML know them."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return "" if cell is None else cell
