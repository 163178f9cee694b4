"""One trial of a study, explained."""

from __future__ import annotations

from collections.abc import Iterator

from autotune.core.ranking import Ranking, Standing
from autotune.core.trial import TrialRecord
from autotune.explain.document import Explanation, Figure, Finding
from autotune.explain.model import Learned
from autotune.explain.outlook import acceptance, holds_for, next_best, one_more
from autotune.explain.said import capital, said
from autotune.explain.subject import Subject, in_brackets
from autotune.explain.walls import at_one, memory, under_load
from autotune.search.knowledge import Knowledge
from autotune.study import words
from autotune.study.reading import StudyView
from autotune.study.verdict import closest_miss, confirmed, off_wins


def explain(view: StudyView, knowledge: Knowledge | None, trial: int | None = None) -> Explanation:
    """Why a trial is as good as it is: by default the one that the study recommends.

    Without a feasible one it is the trial that misses its constraints by the least.

    Args:
        knowledge: what the model of the study has learned, see ``knowledge_of``.
        trial: another one, whatever became of it.

    Raises:
        StudyError: the study has no such trial.
    """
    ranking = view.ranking
    record = _to_explain(view, ranking, trial)
    standing = ranking.standing_of(record) if record is not None else None
    findings = list(_findings(view, knowledge, ranking, record, standing))
    best = ranking.best
    is_best = standing is not None and best is not None and best.trial == standing.trial
    return Explanation(
        study=view.name,
        objective=ranking.objective.name,
        simulated=view.is_simulated,
        trial=record.number if record else None,
        flags=dict(record.flags) if record else {},
        is_best=is_best,
        findings=findings,
    )


def _to_explain(view: StudyView, ranking: Ranking, trial: int | None) -> TrialRecord | None:
    if trial is not None:
        record = view.record(trial)
        return record if record.same_as is None else view.record(record.same_as)
    if ranking.best is not None:
        return view.record(ranking.best.trial)
    return closest_miss(view.records)


def _findings(
    view: StudyView,
    knowledge: Knowledge | None,
    ranking: Ranking,
    record: TrialRecord | None,
    standing: Standing | None,
) -> Iterator[Finding]:
    if record is None:
        yield _nothing(view, ranking)
        return
    if record.failure is not None:
        yield _failure(record)
        return
    if record.pruned:
        yield _pruned(record)
        return
    if standing is None:
        return
    subject = Subject(view, ranking, standing)
    model = Learned.of(knowledge)
    yield _choice(subject)
    yield from _constraints(record)
    one = at_one(subject, model)
    if one is not None:
        yield one
    yield from under_load(subject, model)
    for found in (
        memory(subject, model),
        one_more(subject, model),
        next_best(subject, model),
        acceptance(subject),
        holds_for(subject, model),
        _off(subject),
        _left(subject),
    ):
        if found is not None:
            yield found


# ---- what it is -----------------------------------------------------------------------------


def _choice(subject: Subject) -> Finding:
    ranking, standing = subject.ranking, subject.standing
    is_off = ranking.reference is standing
    text = f"{subject.name} {_place(subject)} for {ranking.objective.describe()}"
    base, figures = ranking.baseline, {}
    if base is not None and base.trial != standing.trial:
        gain, error = standing.gain_vs_baseline_pct, ranking.gain_error_pct(standing)
        figures["gain_pct"] = Figure(gain, "%", "measured", gain - error, gain + error)
        n = len(standing.trials)
        text += f": {said(figures['gain_pct'])} against your flags, on {_launches(n)}"
        if abs(gain) <= error:
            text += ", which is within the noise"
    elif base is not None:
        text += ": these are your own flags"
    if subject.is_best and subject.view.confirmation is not None:
        told = confirmed(subject.view.confirmation, ranking.objective)
        text += f"; on fresh launches, which count: {told.title.lower()}, {told.text}"
    best = ranking.best
    if best is not None and not subject.is_best and not is_off:
        text += f"; recommended is trial {best.trial}{in_brackets(best.flags)}"
    verdict = "best" if subject.is_best else "off" if is_off else "other"
    return Finding("choice", "Choice", f"{capital(text)}.", figures, verdict)


def _place(subject: Subject) -> str:
    """What the study makes of the configuration."""
    ranking = subject.ranking
    if ranking.reference is subject.standing:
        return "runs without speculation, to compare"
    if ranking.best is not None:
        return "is recommended" if subject.is_best else "is not what the study recommends"
    closest = closest_miss(subject.view.records)
    if closest is not None and closest.number in subject.standing.trials:
        return "comes closest to the limits, which no configuration meets,"
    return "misses a limit, as every configuration does,"


def _launches(n: int) -> str:
    return f"{n} launch{'es' if n > 1 else ''}"


def _constraints(record: TrialRecord) -> Iterator[Finding]:
    missed = {slo: by for slo, by in record.constraints.items() if by > 0}
    if missed:
        told = words.listed(
            f"{slo} by {100 * by:,.0f} % of the limit (measured)" for slo, by in missed.items()
        )
        figures = {slo: Figure(by, "", "measured") for slo, by in missed.items()}
        yield Finding(
            "constraint", "Limits", f"It misses {told}, so it is never recommended.", figures,
            "missed",
        )  # fmt: skip


def _off(subject: Subject) -> Finding | None:
    """Whether speculating pays at all, where that was measured."""
    off = subject.ranking.reference
    if off is None or off is subject.standing or not subject.is_best:
        return None
    figures = {
        "latency_s": Figure.of(off.latency_s, "s"),
        "throughput_tok_s": Figure.of(off.throughput_tok_s, "tok/s"),
    }
    wins = off_wins(subject.view, subject.ranking)
    text = (
        f"{capital(wins)}." if wins else
        f"Without speculation (trial {off.trial}) a turn takes {said(figures['latency_s'])} and "
        f"throughput is {said(figures['throughput_tok_s'])}: slower, or the same within the noise, "
        "at every load."
    )  # fmt: skip
    return Finding("off", "Off", text, figures, "off_wins_somewhere" if wins else "pays")


def _left(subject: Subject) -> Finding | None:
    """What another launch may still bring; None where the study was not asked since."""
    choice, view = subject.view.choice, subject.view
    if choice is None or not subject.is_best or not choice.holds_for(view.records, view.objective):
        return None
    text = f"{capital(choice.why)} (model, after {choice.n_launches} launches)."
    return Finding("left", "Left", text, {}, "little" if choice.stop else "some")


# ---- where there is nothing to explain ------------------------------------------------------


def _failure(record: TrialRecord) -> Finding:
    failure = record.failure
    assert failure is not None
    text = (
        f"Trial {record.number}{in_brackets(record.flags)} carries no value: "
        f"{words.failure(record)}. Seen: {failure.evidence}. Remedy: {failure.remedy}."
    )
    figures = {}
    if failure.bound is not None:
        figures["bound"] = Figure(failure.bound.value, "", "server")
        text += f" The server itself told a limit: {failure.bound}."
    return Finding("failure", "Failure", text.replace("..", "."), figures, str(failure.kind))


def _pruned(record: TrialRecord) -> Finding:
    latency = next((p.turn_latency_s for p in record.phases if p.role == "latency"), None)
    figures = {} if latency is None else {"latency_s": Figure.of(latency, "s")}
    text = (
        f"Trial {record.number}{in_brackets(record.flags)} carries no value: "
        f"{words.pruned(record)}."
    )
    return Finding("pruned", "Pruned", text, figures, "pruned")


def _nothing(view: StudyView, ranking: Ranking) -> Finding:
    if not view.records:
        return Finding("nothing", "Nothing", "No trial has ended yet.", {}, "empty")
    kinds = ranking.counts["by_kind"]
    told = words.listed(f"{n} × {words.failure_kind(kind)}" for kind, n in kinds.items())
    last = next((r.failure for r in reversed(view.records) if r.failure), None)
    text = f"No trial carries a value: {len(view.records)} failed ({told})."
    if last is not None:
        text += f" The last one: {last.evidence}. Remedy: {last.remedy}."
    return Finding("nothing", "Nothing", text, {}, "all_failed")
