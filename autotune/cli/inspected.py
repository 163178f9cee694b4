"""An inspected workload, as people and as programs read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotune.cli.bars import side_by_side
from autotune.study.words import duration
from autotune.workload.counting import Lengths
from autotune.workload.inspection import Inspection

_SPREAD = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
_TITLES = {"tool": "gap, tool", "human": "gap, human"}


def as_text(found: Inspection, facts: Mapping[str, str], warnings: Sequence[str]) -> str:
    """Facts, a table, a picture, warnings; no line is wider than 80 columns but for long names."""
    lines = [f"{name:14} {text}" for name, text in facts.items()]
    lines += ["", *_table(found), "", *_shares(found)]
    lines += ["", side_by_side("input tokens", found.input_tok, "output tokens", found.output_tok)]
    for warning in warnings:
        lines += ["", *_wrapped(f"! {warning}")]
    return "\n".join(lines)


def _table(found: Inspection) -> list[str]:
    header = f"{'':14} {'mean':>10} {'p50':>10} {'p90':>10} {'p99':>10} {'max':>10}"
    lines = [f"{'sessions':14} {found.n_sessions:>10,}", f"{'requests':14} {found.n_requests:>10,}"]
    lines += ["", header, _row("turns", found.turns)]
    lines.append(_row("input tokens", found.input_tok, _estimated(found, "input")))
    if found.output_tok.n:
        lines.append(_row("output tokens", found.output_tok, _estimated(found, "output")))
    for kind, gaps in found.gaps_ms.items():
        if gaps.total:  # in a chat log without times all are 0
            lines.append(_gap_row(_TITLES[kind], gaps))
    return lines


def _row(title: str, lengths: Lengths, remark: str = "") -> str:
    mean = f"{lengths.mean:,.1f}" if lengths.mean < 100 else f"{lengths.mean:,.0f}"
    values = [mean, *(f"{lengths.quantile(q):,}" for _, q in _SPREAD), f"{lengths.highest:,}"]
    return f"{title:14} " + " ".join(f"{value:>10}" for value in values) + remark


def _gap_row(title: str, gaps: Lengths) -> str:
    values = [gaps.mean, *(gaps.quantile(q) for _, q in _SPREAD), gaps.highest]
    return f"{title:14} " + " ".join(f"{_gap(value / 1e3):>10}" for value in values)


def _gap(gap_s: float) -> str:
    return f"{gap_s:.2g} s" if gap_s < 10 else duration(gap_s)


def _estimated(found: Inspection, which: str) -> str:
    n_all = found.input_tok.n if which == "input" else found.output_tok.n
    n = found.n_estimated[which]
    return "" if not n else "  estimate" if n == n_all else "  part est."


def _shares(found: Inspection) -> list[str]:
    lines = []
    arrivals = found.arrivals()
    if arrivals is not None:
        lines.append(
            f"{'arrivals':14} {arrivals[0]:.3g} sessions per second, coefficient of variation "
            f"{arrivals[1]:.2f}"
        )
    reuse = found.prefix_reuse
    lines.append(f"{'prefix reuse':14} " + (
        "not known" if reuse is None else f"{100 * reuse:.1f} % of the input tokens, "
        "with an endless cache" + ("" if found.n_length_only == found.n_sessions else " (estimate)")
    ))  # fmt: skip
    ratio, distinct = found.compression(), found.distinct_grams()
    if ratio is not None:
        words = f"; {100 * distinct:.0f} % distinct four-word sequences" if distinct else ""
        lines.append(f"{'text':14} compresses to {100 * ratio:.0f} %{words}")
    if found.temperatures:
        listed = ", ".join(f"{value:g}" for value in sorted(found.temperatures)[:5])
        lines.append(f"{'temperature':14} {listed}")
    return lines


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, 80, subsequent_indent="  ")


def as_document(
    found: Inspection, facts: Mapping[str, str], warnings: Sequence[str]
) -> dict[str, Any]:
    """The same as JSON; tokens are counts, gaps are seconds."""
    arrivals = found.arrivals()
    return {
        **{name.replace(" ", "_"): text for name, text in facts.items()},
        "n_sessions": found.n_sessions,
        "n_requests": found.n_requests,
        "n_length_only": found.n_length_only,
        "turns": _numbers(found.turns),
        "input_tok": {**_numbers(found.input_tok), "n_estimated": found.n_estimated["input"]},
        "output_tok": {**_numbers(found.output_tok), "n_estimated": found.n_estimated["output"]},
        "gap_s": {kind: _numbers(gaps, 1e-3) for kind, gaps in found.gaps_ms.items()},
        "arrivals_per_s": arrivals[0] if arrivals else None,
        "arrivals_cv": arrivals[1] if arrivals else None,
        "prefix_reuse": found.prefix_reuse,
        "duplicate_share": found.duplicate_share,
        "compression": found.compression(),
        "distinct_grams": found.distinct_grams(),
        "temperatures": {f"{value:g}": n for value, n in sorted(found.temperatures.items())},
        "warnings": list(warnings),
    }


def _numbers(lengths: Lengths, unit: float = 1) -> dict[str, float]:
    if not lengths.n:
        return {"n": 0}
    spread = {name: lengths.quantile(q) * unit for name, q in _SPREAD}
    return {"n": lengths.n, "mean": lengths.mean * unit, **spread, "max": lengths.highest * unit}
