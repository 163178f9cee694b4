"""The phases of one launch as a table for the terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence

import click

from autotune.core.trial import Interval, Phase, TrialRecord
from autotune.study import words

_WIDEST = 100
"""Columns of a terminal that a sentence may take: longer lines are hard to read."""
_TITLES = (
    "load",
    "one turn, s",
    "TTFT, s",
    "per token, ms",
    "output tok/s",
    "accept",
    "cached",
    "n",
)


def print_phases(record: TrialRecord) -> None:
    """What was measured at each load, then what to read with care."""
    if record.machine.get("simulated"):
        click.echo("SIMULATED server\n")
    columns = zip(*(_cells(phase) for phase in record.phases), strict=True)
    filled = [_column(title, cells) for title, cells in zip(_TITLES, columns, strict=True)]
    for line in zip(*filled, strict=True):
        click.echo("  ".join(line).rstrip())
    lines = [line for phase in record.phases for line in _more(phase)]
    if lines:
        click.echo("\n" + "\n".join(lines))
    if record.warnings:
        click.echo()
    for caveat in record.warnings:
        say_caveat(f"{caveat.text}; {caveat.remedy}" if caveat.remedy else caveat.text)


def say_caveat(sentence: str) -> None:
    """A sentence behind an exclamation mark, as wide as the terminal."""
    width = min(_WIDEST, shutil.get_terminal_size().columns)
    click.echo(textwrap.fill(f"! {sentence}", width, subsequent_indent="  "))


Cell = tuple[str, str]
"""A value, and its spread or nothing."""


def _cells(phase: Phase) -> tuple[Cell, ...]:
    return (
        (phase.load, ""),
        _cell(phase.turn_latency_s, "{:.3f}"),
        _cell(phase.ttft_s, "{:.3f}"),
        _cell(phase.tpot_s, "{:.2f}", 1e3),
        _cell(phase.output_tok_s, "{:,.0f}"),
        ("–" if phase.accept_length is None else f"{phase.accept_length:.2f}", ""),
        ("–" if phase.cache_hit_frac is None else f"{100 * phase.cache_hit_frac:.0f} %", ""),
        (str(phase.n_requests), ""),
    )


def _cell(interval: Interval, form: str, factor: float = 1.0) -> Cell:
    return form.format(factor * interval.value), words.spread(interval).removeprefix("± ")


def _column(title: str, cells: Sequence[Cell]) -> list[str]:
    """Title and cells, equally wide: values and spreads each end in one line."""
    first, second = (max(map(len, part)) for part in zip(*cells, strict=True))
    texts = [
        f"{value:>{first}} ± {spread:>{second}}" if spread else value for value, spread in cells
    ]
    width = max(map(len, [title, *texts]))
    if title == "load":
        return [f"{text:<{width}}" for text in (title, *texts)]
    return [f"{text:>{width}}" for text in (title, *texts)]


def _more(phase: Phase) -> Iterator[str]:
    """What does not fit into the table, a line for each phase that has it."""
    if phase.open_loop:
        tail = phase.percentiles.get("ttft_s", {})
        parts = [
            f"TTFT {name} {tail[name]:.3f} s" for name in ("p50", "p95", "p99") if name in tail
        ]
        yield f"{phase.load}: {' · '.join([*parts, f'{phase.in_flight_mean:.1f} in flight'])}"
    if phase.goodput_req_s is not None and phase.good_frac is not None:
        yield (
            f"{phase.load}: goodput {phase.goodput_req_s.value:.2f} req/s "
            f"{words.spread(phase.goodput_req_s)}, {100 * phase.good_frac.value:.0f} % of all"
        )
