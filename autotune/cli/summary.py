"""What a finished study says: the flags, the gain, the reason, the front, the next commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from autotune.cli.table import TrialTable
from autotune.core.ranking import Ranking, Standing
from autotune.core.trial import Phase, TrialRecord
from autotune.space.rules import STEPS
from autotune.study import words
from autotune.study.budget import gpu_hours, settled
from autotune.study.confirmation import Finalist
from autotune.study.reading import StudyView
from autotune.study.verdict import confirmed, off_wins, proof_of

_INDENT = " " * 9


def summary(view: StudyView, reason: str) -> str:
    """The end of ``optimize`` on a screen."""
    ranking = view.ranking
    lines = [""]
    if ranking.best is None:
        lines.append("Nothing  no configuration meets the constraints")
    else:
        lines += _verdict(view, ranking, ranking.best)
    lines += edge_lines(view)
    lines += _stopped(view, reason)
    lines += ["", *front_table(view, ranking), "", *_next_commands(view)]
    return "\n".join(lines)


def confirm_summary(view: StudyView) -> str:
    """The end of ``confirm`` on a screen."""
    ranking = view.ranking
    n_fresh, minutes = _confirm_cost(view)
    cost = f"Launched {n_fresh} times to confirm, {minutes:.0f} {_minutes_kind(view)} in all"
    verdict = () if ranking.best is None else _verdict(view, ranking, ranking.best)
    return "\n".join(["", *verdict, cost, "", *_next_commands(view)])


def front_table(view: StudyView, ranking: Ranking) -> Iterator[str]:
    """The feasible front, fastest first; then what is best, and the baseline, where not on it.

    The best may be off the front by a hair: of configurations that tie, the simpler flags win.
    """
    table = table_of(view)
    n = len(ranking.front)
    if n == 0:
        nothing = "no configuration meets the constraints"
        yield f"Front    none: {nothing if ranking.standings else 'no trial carries a value'}"
        return
    yield f"Front    {n} configuration{'s' if n != 1 else ''} that no other beats at both goals"
    yield table.header()
    shown = list(ranking.front)
    for standing in (ranking.best, ranking.baseline):
        if standing is not None and standing not in shown:
            shown.append(standing)
    for standing in shown:
        yield _row(view, table, ranking, standing)


def foreign_line(view: StudyView) -> Iterator[str]:
    """How many trials of the storage were not understood; nothing where all were."""
    foreign = words.foreign(view.n_foreign)
    if foreign:
        yield f"\nForeign  {foreign}"


def edge_lines(view: StudyView) -> Iterator[str]:
    """Recommended values that are the last ones searched, and how to go on beyond."""
    choice, best = view.choice, view.ranking.best
    if choice is None or not choice.holds_for(view.records, view.objective):
        return
    if best is None or choice.trial not in best.trials:
        return  # what is used in the end is another configuration
    for edge in choice.edges:
        widens = edge.flag == STEPS and not view.config.widen
        how = "--widen searches there" if widens else "a longer range in --space FILE allows it"
        hint = f" ({how})" if edge.expects_more else ""
        text = edge.text()
        yield f"Edge     {text[0].upper()}{text[1:]}{hint}"


def confirm_table(view: StudyView) -> Iterator[str]:
    """The fresh launches, in the order in which they were made, and their verdict."""
    if not view.confirm_launches:
        return
    table = table_of(view)
    yield ""
    yield "Confirm  fresh launches in turns, on prompts new to the search"
    yield table.header()
    for launch in view.confirm_launches:
        yield table.row(launch.record, None)
    if view.confirmation is not None:
        told = confirmed(view.confirmation, view.objective)
        yield f"{told.title:9}{told.text}"


def table_of(view: StudyView) -> TrialTable:
    """The table whose columns fit a study."""
    found = next((r.flags for r in view.records if r.flags), {})
    config = view.config
    loads = config.latency_concurrency, config.serving_concurrency
    return TrialTable(list(found), *loads, len(config.slo))


def _row(view: StudyView, table: TrialTable, ranking: Ranking, standing: Standing) -> str:
    marks = [
        name
        for name, other in (("best", ranking.best), ("knee", ranking.knee))
        if other is standing
    ]
    records = [view.record(number) for number in standing.trials]
    row = table.pooled(records, standing.gain_vs_baseline_pct)
    return row + (f"  ← {' and '.join(marks)}" if marks else "")


def off_line(view: StudyView, ranking: Ranking) -> Iterator[str]:
    """Where speculation off is faster; nothing where it is not."""
    off = off_wins(view, ranking)
    if off is not None:
        yield f"Off      {off}"


def _verdict(view: StudyView, ranking: Ranking, best: Standing) -> Iterator[str]:
    yield from off_line(view, ranking)
    measured = view.record(best.trial).versions.get("sglang", "")
    flags = view.command.for_version(measured).words_for(best.flags)
    yield f"Use      {shlex.join(flags)}"
    base, confirmation = ranking.baseline, view.confirmation
    if confirmation is not None:
        told = confirmed(confirmation, ranking.objective)
        yield f"{told.title:9}{told.text}"
    elif base is None or base is best:
        yield "Better   nothing measured beats the flags you came with"
    else:
        yield _gain_in_words(ranking, best)
    if base is not None and base is not best:
        yield from _changes(view, ranking, base, best)
        why = _why(view.record(base.trial), view.record(best.trial))
        if why:
            yield f"Seen     {why}"
    yield from _limits(best)
    if view.is_simulated:
        yield _INDENT + "SIMULATED: these numbers come from the simulated server"
    if view.fakes_acceptance:
        yield _INDENT + "FAKED: SGLANG_SIMULATE_ACC_LEN set the accept length, not the draft model"


def _changes(view: StudyView, ranking: Ranking, base: Standing, best: Standing) -> Iterator[str]:
    """Both values before and after; of fresh launches where there are some."""
    confirmation = view.confirmation
    sides: tuple[Standing | Finalist, ...] = (base, best)
    if confirmation is not None and confirmation.subject.trial == best.trial:
        sides = confirmation.baseline, confirmation.subject
    before, after = sides
    if before.latency_s and after.latency_s and before.throughput_tok_s and after.throughput_tok_s:
        yield _INDENT + _change(
            "one agent turn", "s", before.latency_s.value, after.latency_s.value
        )
        yield _INDENT + _change(
            _serving(view), "tok/s", before.throughput_tok_s.value, after.throughput_tok_s.value
        )
    if confirmation is not None:
        gain, error = words.gain(best.gain_vs_baseline_pct), ranking.gain_error_pct(best)
        n = len(best.trials)
        launches = f"{n} launch{'es' if n > 1 else ''}"
        yield _INDENT + f"on prompts new to the search; in it: {gain} ± {error:.1f}, on {launches}"


def _limits(best: Standing) -> Iterator[str]:
    """How far the flags to use are from each limit."""
    told = [
        f"{slo} ({words.slack(by).removeprefix('+ ')} to spare)"
        for slo, by in best.constraints.items()
    ]
    if told:
        yield f"Meets    {' · '.join(told)}"


def _gain_in_words(ranking: Ranking, best: Standing) -> str:
    """How much better, or that the measurements cannot tell."""
    gain, error = best.gain_vs_baseline_pct, ranking.gain_error_pct(best)
    n = len(best.trials)
    launches = f"{n} launch{'es' if n > 1 else ''}"
    if gain > error:
        against = f"than your flags for {ranking.objective.name}"
        return f"Better   {gain:.1f} % ± {error:.1f} {against}, measured on {launches}"
    return (
        f"Unsure   {gain:+.1f} % ± {error:.1f} against your flags for {ranking.objective.name}, "
        f"measured on {launches}: within the noise"
    )


def _change(what: str, unit: str, before: float, after: float) -> str:
    digits = ".3f" if unit == "s" else ",.0f"
    return f"{what} {before:{digits}} → {after:{digits}} {unit}"


def _serving(view: StudyView) -> str:
    loads = words.listed(f"C={c}" for c in view.config.serving_concurrency)
    return f"throughput at {loads}"


def _why(base: TrialRecord, best: TrialRecord) -> str:
    """What differs between winner and baseline, in what the server itself reports."""
    parts = []
    lengths = [_accept(record) for record in (base, best)]
    if all(lengths):
        parts.append(f"accept length {lengths[0]:.2f} → {lengths[1]:.2f}")
    limits = [record.effective.get("max_running_requests") for record in (base, best)]
    if all(limits):
        parts.append(f"requests running at once {limits[0]} → {limits[1]}")
    return " · ".join(parts)


def _accept(record: TrialRecord) -> float | None:
    phases: list[Phase] = record.phases
    return next((p.accept_length for p in phases if p.accept_length), None)


def _stopped(view: StudyView, reason: str) -> Iterator[str]:
    counts = view.ranking.counts
    minutes, kind = gpu_hours(view.records) * 60, _minutes_kind(view)
    n_failed = counts["failed"] - counts["by_kind"].get("interrupted", 0)
    ends = {"failed": n_failed, "pruned": counts["pruned"]}
    ended = "".join(f", {n} of them {how}" for how, n in ends.items() if n)
    n_launches = len(settled(view.records))
    yield f"Stopped  after {n_launches} launches{ended}, {minutes:.0f} {kind}: {reason}"
    n_fresh, minutes = _confirm_cost(view)
    if n_fresh:
        yield _INDENT + f"then {n_fresh} to confirm, {minutes:.0f} {kind}"


def _minutes_kind(view: StudyView) -> str:
    return "simulated GPU-minutes" if view.is_simulated else "GPU-minutes"


def _confirm_cost(view: StudyView) -> tuple[int, float]:
    """Fresh launches, and the GPU-minutes that they held."""
    fresh = settled([launch.record for launch in view.confirm_launches])
    return len(fresh), gpu_hours(fresh) * 60


def _next_commands(view: StudyView) -> Iterator[str]:
    best = view.ranking.best
    is_denied = best is not None and proof_of(view, best).state == "denied"
    anyway = " --allow-unconfirmed" if is_denied else ""
    yield f"Next     autotune export --study {view.name} --format shell{anyway}"
    yield _INDENT + f"autotune dashboard --study {view.name}"
    yield _INDENT + f"autotune report --study {view.name}"
    yield _INDENT + f"{view.directory / 'report.html'} tells the study in pictures"
