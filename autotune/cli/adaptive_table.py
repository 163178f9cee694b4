"""Steps that follow the batch, as people read them: the table and what a launch showed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from autotune.core.adaptive import Tier
from autotune.core.repeats import Verdict
from autotune.core.trial import Interval
from autotune.study import words
from autotune.study.adaptation import AdaptivePlan, in_words, steps
from autotune.study.adaptive_verdict import Comparison, Row
from autotune.study.reading import StudyView
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
        values = f"{show(row.static):<22}{show(row.adaptive):<26}"
        yield f"{row.load:<9}{values}{row.text}"
    title = "Failed" if comparison.gain is None else _TITLES[comparison.verdict]
    yield f"{title:9}{comparison.text}"


class Launched(msgspec.Struct, frozen=True):
    """What the launches of one table showed against the best fixed flags.

    Attributes:
        plan: the table, and the trial with the fixed flags.
        trials: of the launches.
        loads: by rising concurrency; empty where no launch carries values.
        gain: of the score over the fixed flags, as a fraction; null without values.
        verdict: on adaptive steps; null without values.
        failure: why the last launch carries no value; null where it does.
    """

    plan: AdaptivePlan
    trials: list[int]
    loads: list[Row]
    gain: Interval | None
    verdict: Verdict | None
    failure: str | None


class Adaptive(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that follow the batch, as ``autotune adaptive --json`` tells them; schema version 1.

    Attributes:
        schema: version of this document.
        simulated: every number comes from the simulated server.
        study: its name.
        static: the trial with the best fixed flags.
        best_steps: by concurrency; 0 is speculation off.
        tiers: steps by batch size that the measurements suggest; empty where fixed steps are best.
        why_static: that reason; null where there are tiers.
        cautions: what the table costs, and what it cannot do.
        launched: the last table that was launched, which may be another one; null: none was.
    """

    schema: Literal[1] = 1
    simulated: bool
    study: str
    static: int
    best_steps: dict[str, int]
    tiers: list[Tier]
    why_static: str | None
    cautions: list[str]
    launched: Launched | None


def document(view: StudyView, suggestion: Suggestion, comparison: Comparison | None) -> Adaptive:
    """Both for programs."""
    launched = None
    if comparison is not None:
        launched = Launched(
            plan=comparison.plan,
            trials=[launch.record.number for launch in comparison.launches],
            loads=list(comparison.rows),
            gain=comparison.gain,
            verdict=comparison.verdict if comparison.gain else None,
            failure=comparison.failure,
        )
    return Adaptive(
        simulated=view.is_simulated,
        study=view.name,
        static=suggestion.static.trial,
        best_steps={f"C={wish.concurrency}": wish.steps for wish in suggestion.wishes},
        tiers=list(suggestion.tiers),
        why_static=suggestion.why_static or None,
        cautions=list(suggestion.cautions),
        launched=launched,
    )
