"""Steps that follow the batch, as people read them: the table and what a launch showed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from autotune.study import words
from autotune.study.adaptation import in_words, steps
from autotune.study.adaptive_verdict import Comparison
from autotune.study.suggestion import Suggestion, Wish

_TITLES = {"better": "Better", "worse": "Worse", "tie": "Tie", "inconclusive": "Unsure"}


def suggestion_lines(suggestion: Suggestion) -> Iterator[str]:
    """What each load wants, and the table or why fixed steps are best."""
    counts = sorted({count for wish in suggestion.wishes for count in wish.values})
    if counts:
        yield "".join([f"{'':9}", *(f"{steps(count):<22}" for count in counts)]).rstrip()
        yield from (_wish_row(wish, counts) for wish in suggestion.wishes)
        yield f"{'':9}* best: the fewest steps that nothing beats beyond the noise"
        if any(wish.estimated for wish in suggestion.wishes):
            most = max(wish.batch for wish in suggestion.wishes if wish.estimated)
            yield f"{'':9}~ brought down to {most} requests at once: all that run with the deepest"
        yield ""
    if suggestion.why_static:
        yield f"Static   {suggestion.why_static}"
        return
    yield f"Table    {in_words(suggestion.tiers)}"
    yield from (f"Mind     {caution}" for caution in suggestion.cautions)


def _wish_row(wish: Wish, counts: Sequence[int]) -> str:
    show = words.seconds if wish.is_latency else words.tok_s
    cells = [
        ("~ " if count in wish.estimated else "")
        + (show(wish.values[count]) if count in wish.values else "–")
        + (" *" if count == wish.steps else "")
        for count in counts
    ]
    return (f"C={wish.concurrency:<7}" + "".join(f"{cell:<22}" for cell in cells)).rstrip()


def comparison_lines(comparison: Comparison) -> Iterator[str]:
    """Fixed against adaptive, load by load, and the verdict."""
    yield f"Adaptive {in_words(comparison.plan.tiers)}"
    if comparison.rows:
        fixed = f"fixed, trial {comparison.static.trial}"
        numbers = " and ".join(str(record.number) for record in comparison.records)
        yield f"{'':9}{fixed:<22}{f'adaptive, trial {numbers}':<26}change"
    for row in comparison.rows:
        show = words.seconds if row.is_latency else words.tok_s
        change = words.gain(100 * row.change_frac.value)
        half = 50 * (row.change_frac.high - row.change_frac.low)
        verdict = row.verdict if row.verdict != "tie" else "within the noise"
        values = f"{show(row.static):<22}{show(row.adaptive):<26}"
        yield f"{row.load:<9}{values}{change} ± {half:.1f}, {verdict}"
    title = "Failed" if comparison.gain is None else _TITLES[comparison.verdict]
    yield f"{title:9}{comparison.text}"


def document(suggestion: Suggestion | None, comparison: Comparison | None) -> dict[str, Any]:
    """Both for programs."""
    told: dict[str, Any] = {"tiers": None, "why_static": None, "cautions": [], "launched": None}
    if suggestion is not None:
        told |= {
            "static": suggestion.static.to_dict(),
            "best_steps": {f"C={wish.concurrency}": wish.steps for wish in suggestion.wishes},
            "tiers": msgspec.to_builtins(suggestion.tiers) or None,
            "why_static": suggestion.why_static or None,
            "cautions": list(suggestion.cautions),
        }
    if comparison is not None:
        told["launched"] = {
            "plan": msgspec.to_builtins(comparison.plan),
            "trials": [launch.record.number for launch in comparison.launches],
            "loads": [msgspec.to_builtins(row) for row in comparison.rows],
            "gain": msgspec.to_builtins(comparison.gain),
            "verdict": comparison.verdict if comparison.gain else None,
            "failure": comparison.failure,
        }
    return told
