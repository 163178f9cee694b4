"""What a study found, in sentences: whether fresh launches confirm it, and where off is faster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from autotune.core.objective import Objective
from autotune.core.ranking import Ranking, Standing, pool
from autotune.core.trial import Interval, TrialRecord
from autotune.study import words
from autotune.study.confirmation import Confirmation, Finalist
from autotune.study.reading import StudyView


@dataclass(frozen=True, slots=True)
class Told:
    """What fresh launches say.

    Attributes:
        title: ``Better``, ``Worse``, ``Tie`` or ``Unsure``.
        text: what follows it.
    """

    title: str
    text: str


def confirmed(confirmation: Confirmation, objective: Objective) -> Told:
    """The verdict of a confirm stage."""
    found = confirmation.subject
    name = f"trial {found.trial}"
    if found.gain is None:
        title, text = "Unsure", f"{name} could not be confirmed"
    elif confirmation.n_left:
        n = confirmation.n_left
        are = "launch is" if n == 1 else "launches are"
        title = "Unsure"
        text = f"{_gain(confirmation)} so far for {objective.name}: {n} fresh {are} still to come"
    else:
        title, text = _judged(confirmation, objective.name, name)
    doubts = (*confirmation.baseline.doubts, *found.doubts)
    return Told(title, "; ".join((text, *doubts)))


def _judged(confirmation: Confirmation, goal: str, name: str) -> tuple[str, str]:
    found, fresh = confirmation.subject, _fresh(confirmation)
    keeps = confirmation.use == confirmation.baseline.trial
    match found.verdict:
        case "better":
            gain = f"{found.gain_pct:.1f} % ± {found.error_pct:.1f}"
            also = "" if found.trial == confirmation.winner else _simpler(confirmation)
            return "Better", f"{gain} than your flags for {goal}, confirmed on {fresh}{also}"
        case "worse":
            return "Worse", f"{name} has {_gain(confirmation)} for {goal} on {fresh}: keep yours"
        case "tie":
            which = "yours are simpler: keep them" if keeps else "these are the simpler ones"
            return "Tie", f"{name} has {_gain(confirmation)} for {goal} on {fresh}, and {which}"
    return "Unsure", (
        f"{_gain(confirmation)} for {goal} on {fresh}: inconclusive; "
        f"autotune confirm --launches {2 * confirmation.n_each} goes on with as many again"
    )


def _simpler(confirmation: Confirmation) -> str:
    return f"; trial {confirmation.winner} is no better than these simpler flags"


def _gain(confirmation: Confirmation) -> str:
    found = confirmation.subject
    return f"{words.gain(found.gain_pct)} ± {found.error_pct:.1f} against your flags"


def _fresh(confirmation: Confirmation) -> str:
    """On how many launches of each side."""
    ours, theirs = len(confirmation.subject.launches), len(confirmation.baseline.launches)
    s = "" if ours == 1 else "es"
    beside = "beside the baseline" if ours == theirs else f"beside {theirs} of the baseline"
    return f"{ours} fresh launch{s} {beside}"


@dataclass(frozen=True, slots=True)
class Proof:
    """What fresh launches say of one configuration that somebody may deploy.

    Attributes:
        state: ``given``: it is better than the baseline beyond the noise, or simpler and as good,
            or the baseline itself. ``missing``: nobody has looked. ``denied``: they do not show
            that it is better.
        text: in words, to stand behind the name of the trial or in a comment.
    """

    state: Literal["given", "missing", "denied"]
    text: str


def proof_of(view: StudyView, standing: Standing) -> Proof:
    """What the confirm stage of a study proves of a standing of its ranking."""
    base, confirmation = view.ranking.baseline, view.confirmation
    if base is not None and base.trial == standing.trial:
        return Proof("given", "these are your own flags")
    if confirmation is None:
        return Proof("missing", "not confirmed: no fresh launches were made of it")
    finalists = confirmation.finalists
    found = next((f for f in finalists if f.trial in standing.trials), None)
    if found is None:
        trials = words.listed(str(f.trial) for f in finalists)
        return Proof("missing", f"not confirmed: fresh launches were made of trial {trials} only")
    if confirmation.n_left:
        n = confirmation.n_left
        return Proof("missing", f"not confirmed yet: {n} fresh launch{'es' * (n > 1)} to come")
    told = _proven(confirmation, found)
    is_used = confirmation.use == found.trial
    if found.verdict == "better" or (found.verdict == "tie" and is_used):
        return Proof("given", told)
    return Proof("denied", "; ".join((told, *confirmation.baseline.doubts, *found.doubts)))


def _proven(confirmation: Confirmation, found: Finalist) -> str:
    n = len(found.launches)
    fresh = f"{n} fresh launch{'' if n == 1 else 'es'} beside the baseline"
    if found.gain is None:
        return "not confirmed: a fresh launch of it or of the baseline carries no value"
    gain = f"{words.gain(found.gain_pct)} ± {found.error_pct:.1f} against the baseline on {fresh}"
    if found.verdict == "better":
        return f"confirmed: {gain}"
    if found.verdict == "tie" and confirmation.use == found.trial:
        return f"confirmed as good as the baseline, with simpler flags: {gain}"
    keep = {
        "worse": "the baseline is better", "tie": "the baseline is as good",
    }  # fmt: skip
    return f"not confirmed: {gain}; {keep.get(found.verdict, 'that leaves it open')}"


def off_wins(view: StudyView, ranking: Ranking) -> str | None:
    """The loads at which speculation off wins beyond the noise, in a sentence; None: at none."""
    off, best = ranking.reference, ranking.best
    if off is None or best is None:
        return None
    records = [[view.record(number) for number in s.trials] for s in (off, best)]
    wins = list(_wins(records[0], records[1]))
    if not wins:
        return None
    told = f"speculation off (trial {off.trial}) is faster at {words.listed(wins)}"
    return told + (f"; it wins for {ranking.objective.name} too" if _scores(off, best) else "")


def _scores(off: Standing, best: Standing) -> bool:
    return off.feasible and off.score > best.score


def _wins(off: Sequence[TrialRecord], best: Sequence[TrialRecord]) -> Iterator[str]:
    ours, theirs = by_load(off), by_load(best)
    for load, (value, smaller_is_better) in ours.items():
        if load not in theirs:
            continue
        other = theirs[load][0]
        gain = math.log(value.value / other.value) * (-1 if smaller_is_better else 1)
        if gain > math.hypot(value.half_width_frac, other.half_width_frac):
            show = words.seconds if smaller_is_better else words.tok_s
            yield f"{load}: {show(value)} against {show(other)}"


def by_load(records: Sequence[TrialRecord]) -> dict[str, tuple[Interval, bool]]:
    """The headline value of each load, pooled over launches, and whether less of it is better."""
    found: dict[str, list[Interval]] = {}
    is_latency: dict[str, bool] = {}
    for phase in (phase for record in records for phase in record.phases):
        if phase.headline.value > 0:
            found.setdefault(phase.load, []).append(phase.headline)
            is_latency[phase.load] = phase.headline is phase.turn_latency_s
    return {load: (pool(values), is_latency[load]) for load, values in found.items()}


def closest_miss(records: Sequence[TrialRecord]) -> TrialRecord | None:
    """The trial that misses its worst constraint by the least; None: none has constraints.

    Speculation off is no configuration that a study could recommend.
    """
    measured = [r for r in records if r.constraints and r.objectives and r.role != "reference"]
    return min(measured, key=lambda record: max(record.constraints.values()), default=None)


def none_feasible(records: Sequence[TrialRecord]) -> str:
    """That no configuration meets the constraints, and which trial comes closest."""
    told = "no configuration meets the constraints"
    closest = closest_miss(records)
    if closest is not None:
        missed = [
            f"{slo} by {by:,.0%} of the limit" for slo, by in closest.constraints.items() if by > 0
        ]
        flags = words.flags(closest.flags)
        told += f"; trial {closest.number} comes closest: it misses {' and '.join(missed)}"
        told += f" ({flags})" if flags else ""
    off = next((r for r in records if r.role == "reference" and r.status == "complete"), None)
    return told + (f"; speculation off (trial {off.number}) meets them" if off else "")
