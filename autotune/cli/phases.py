"""The phases of one launch as a table for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import click

from autotune.cli import words
from autotune.core.trial import Interval, Phase, TrialRecord


def print_phases(record: TrialRecord) -> None:
    """What was measured at each load, then what to read with care."""
    if record.machine.get("simulated"):
        click.echo("SIMULATED server\n")
    titles = ("C", "one turn", "TTFT", "per token", "throughput", "accept", "cached", "n")
    click.echo(_line(titles))
    for phase in record.phases:
        click.echo(_line(_cells(phase)))
    lines = [line for phase in record.phases for line in _more(phase)]
    if lines:
        click.echo("\n" + "\n".join(lines))
    for caveat in record.warnings:
        remedy = f": {caveat.remedy}" if caveat.remedy else ""
        click.echo(f"! {caveat.text}{remedy}")


_WIDTHS = (5, 18, 18, 18, 20, 8, 8, 5)


def _line(cells: tuple[str, ...]) -> str:
    return "".join(f"{cell:<{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)).rstrip()


def _cells(phase: Phase) -> tuple[str, ...]:
    return (
        str(phase.concurrency),
        words.seconds(phase.turn_latency_s),
        words.seconds(phase.ttft_s),
        _milliseconds(phase.tpot_s),
        words.tok_s(phase.output_tok_s),
        "–" if phase.accept_length is None else f"{phase.accept_length:.2f}",
        "–" if phase.cache_hit_frac is None else f"{phase.cache_hit_frac:.0%}",
        str(phase.n_requests),
    )


def _more(phase: Phase) -> Iterator[str]:
    """What does not fit into the table, a line for each phase that has it."""
    if phase.rate_req_s is not None:
        p99 = phase.percentiles.get("ttft_s", {}).get("p99", 0.0)
        yield f"offered {phase.rate_req_s:g} requests/s · TTFT p99 {p99:.3f} s"
    if phase.goodput_req_s is not None and phase.good_frac is not None:
        yield (
            f"C={phase.concurrency}: goodput {phase.goodput_req_s.value:.2f} requests/s "
            f"{words.spread(phase.goodput_req_s)}, {phase.good_frac.value:.0%} of all"
        )


def _milliseconds(interval: Interval) -> str:
    return f"{1e3 * interval.value:.2f} ms {words.spread(interval)}"
