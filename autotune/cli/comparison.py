"""``autotune measure --compare``: what changed between two saved records, and is it real?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from autotune.cli import options
from autotune.cli.phases import say_caveat
from autotune.core.compare import Difference, differences
from autotune.core.trial import Interval, TrialRecord, record_from_json
from autotune.errors import UsageError
from autotune.measure.validity import ServerLimits, caveats

_NAMES = {
    "turn_latency_s": "one turn",
    "ttft_s": "TTFT",
    "tpot_s": "per token",
    "output_tok_s": "throughput",
    "accept_length": "accept length",
}


def compare(before_path: Path, after_path: Path, *, as_json: bool) -> None:
    """Prints every shared metric of two records with a verdict.

    Raises:
        UsageError: a file is no record, or the two share no load.
    """
    before, after = _read(before_path), _read(after_path)
    found = list(differences(before, after))
    if not found:
        raise UsageError(
            f"{before_path} ({_loads(before)}) and {after_path} ({_loads(after)}) share no load",
            hint="measure both with the same --workload and --concurrency or --rate",
        )
    doubts = [
        c for c in caveats(after.phases, ServerLimits(), before.phases)
        if c.code == "cache_hit_differs"
    ]  # fmt: skip
    if as_json:
        import msgspec

        document = {
            "before": str(before_path),
            "after": str(after_path),
            "differences": msgspec.to_builtins(found),
            "warnings": msgspec.to_builtins(doubts),
        }
        options.print_json(document)
        return
    _print(found)
    for caveat in doubts:
        say_caveat(caveat.text)


def _read(path: Path) -> TrialRecord:
    try:
        record = record_from_json(path.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if record is None:
        raise UsageError(
            f"{path} is not a record of autotune", hint="save one with: autotune measure … -o FILE"
        )
    if not record.phases:
        raise UsageError(f"{path} holds no measurement: its trial {record.status}")
    return record


def _loads(record: TrialRecord) -> str:
    """Each load in words; what two records of equal loads may differ in is named, too."""
    names = dict.fromkeys(phase.workload for phase in record.phases if phase.workload)
    loads = [f"{phase.load} with pauses" if phase.gaps else phase.load for phase in record.phases]
    return ", ".join(loads) + (f" of {', '.join(names)}" if names else "")


_TITLES = ("load", "", "before", "after", "change", "95 %", "verdict")
_TO_THE_RIGHT = {"before", "after", "change"}


def _print(found: Sequence[Difference]) -> None:
    rows = [_TITLES, *(_row(difference) for difference in found)]
    for place in range(len(rows) - 1, 1, -1):  # a load is named once
        if rows[place][0] == rows[place - 1][0]:
            rows[place] = ("", *rows[place][1:])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            f"{cell:>{width}}" if title in _TO_THE_RIGHT else f"{cell:<{width}}"
            for title, cell, width in zip(_TITLES, row, widths, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def _row(difference: Difference) -> tuple[str, ...]:
    metric, change = difference.metric, difference.change_frac
    return (
        difference.load,
        _NAMES[metric],
        _value(metric, difference.before),
        _value(metric, difference.after),
        _percent(change.value),
        f"{_percent(change.low)} to {_percent(change.high)}",
        difference.verdict,
    )


def _value(metric: str, interval: Interval) -> str:
    if metric == "tpot_s":
        return f"{1e3 * interval.value:.2f} ms"
    if metric.endswith("_tok_s"):
        return f"{interval.value:,.0f} tok/s"
    return f"{interval.value:.3f} s" if metric.endswith("_s") else f"{interval.value:.2f}"


def _percent(fraction: float) -> str:
    return f"{'+' if fraction >= 0 else '−'}{abs(100 * fraction):.1f} %"
