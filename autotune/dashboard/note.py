"""What the dashboard says in words: a note on the study, and one on each trial, in Markdown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from autotune.core.ranking import Ranking, Standing
from autotune.core.trial import Interval, Phase, TrialRecord
from autotune.report.subject import Configuration, Subject
from autotune.study import words
from autotune.study.adaptive_verdict import compared
from autotune.study.budget import gpu_hours, settled
from autotune.study.verdict import confirmed, off_wins

YOURS = "*Your own notes go below this line; autotune rewrites what is above it.*"
_MOST_ROWS = 12
_MOST_EVIDENCE = 200


def study_note(subject: Subject) -> str:
    """What to deploy, what it brings, the front, and what failed."""
    parts = [
        *_use(subject),
        *_front(subject.ranking),
        *_failures(subject),
        *_so_far(subject),
        "---",
        YOURS,
    ]
    return "\n\n".join(parts)


# ---- the study --------------------------------------------------------------------------------


def _use(subject: Subject) -> Iterator[str]:
    ranking, view = subject.ranking, subject.view
    if view.is_simulated:
        yield "**SIMULATED:** all numbers come from the simulated server."
    if view.fakes_acceptance:
        yield "**FAKED:** the server was told which accept length to have."
    best, base = ranking.best, ranking.baseline
    if best is None:
        yield "## Nothing to deploy yet"
        yield "No launch meets the constraints." if ranking.standings else "No launch has values."
        return
    yield "## Use these flags"
    version = subject.by_number[best.trial].versions.get("sglang", "")
    flags = shlex.join(view.command.for_version(version).words_for(best.flags))
    yield f"```sh\n{flags}\n```"
    yield _gain(subject, best)
    if base is not None and base.trial != best.trial:
        yield _comparison(subject, *subject.compared)
    off = off_wins(view, ranking)
    if off is not None:
        yield f"**Mind:** {escaped(off)}."
    adaptive = compared(view)
    if adaptive is not None:
        yield f"**Adaptive steps:** {escaped(adaptive.text)}."


def _gain(subject: Subject, best: Standing) -> str:
    ranking, confirmation = subject.ranking, subject.view.confirmation
    base, goal = ranking.baseline, escaped(ranking.objective.describe())
    if confirmation is not None:
        told = confirmed(confirmation, ranking.objective)
        return f"**{told.title}:** {escaped(told.text)}."
    if base is None or base.trial == best.trial:
        return f"These are the flags you came with (trial {best.trial}): nothing measured is better for {goal}."  # noqa: E501
    n = len(best.trials)
    launches = f"{n} launch{'es' if n > 1 else ''}"
    gain, error = best.gain_vs_baseline_pct, ranking.gain_error_pct(best)
    noise = "" if gain > error else ", **within the noise**"
    return (
        f"**{words.gain(gain)}** ± {error:.1f} against your own flags for {goal}{noise}; trial "
        f"{best.trial}, measured on {launches}."
    )


def _comparison(subject: Subject, base: Configuration, best: Configuration) -> str:
    rows = [
        ("one agent turn", *(words.seconds(c.standing.latency_s) for c in (base, best))),
        ("serving throughput", *(words.tok_s(c.standing.throughput_tok_s) for c in (base, best))),
    ]
    for concurrency in subject.serving:
        values = [c.pooled(concurrency, "output_tok_s") for c in (base, best)]
        rows.append((f"at C={concurrency}", *(words.tok_s(v) if v else "" for v in values)))
    if base.accept_length and best.accept_length:
        rows.append(("accept length", f"{base.accept_length:.2f}", f"{best.accept_length:.2f}"))
    limits = [c.effective("max_running_requests") for c in (base, best)]
    if None not in limits:
        rows.append(("requests that run at once", *(f"{limit:,.0f}" for limit in limits)))
    fresh = ", fresh launches" if subject.is_confirmed_on else ""
    sides = (("baseline", base), ("best", best))
    heads = ("", *(f"{name}: {words.tree(c.standing.flags)}{fresh}" for name, c in sides))
    return _table(heads, rows)


def _front(ranking: Ranking) -> Iterator[str]:
    if not ranking.front:
        return
    yield "## The front"
    marks = ((ranking.best, "best"), (ranking.knee, "knee"), (ranking.baseline, "baseline"))
    rows = [
        (
            str(s.trial),
            words.flags(s.flags),
            words.seconds(s.latency_s),
            words.tok_s(s.throughput_tok_s),
            words.gain(s.gain_vs_baseline_pct),
            ", ".join(name for other, name in marks if other and other.trial == s.trial),
        )
        for s in ranking.front[:_MOST_ROWS]
    ]
    yield _table(("trial", "flags", "one turn", "throughput", "vs baseline", ""), rows)
    if len(ranking.front) > _MOST_ROWS:
        yield f"And {len(ranking.front) - _MOST_ROWS} more: see autotune pareto."


def _failures(subject: Subject) -> Iterator[str]:
    by_kind: dict[str, list[TrialRecord]] = {}
    for record in subject.records:
        if record.failure is not None and not record.is_interrupted:
            by_kind.setdefault(str(record.failure.kind), []).append(record)
    if not by_kind:
        return
    yield "## Failures"
    lines = []
    for kind, records in sorted(by_kind.items(), key=lambda item: -len(item[1])):
        last = records[-1].failure
        assert last is not None
        numbers = ", ".join(str(r.number) for r in records[:_MOST_ROWS])
        more = " and more" if len(records) > _MOST_ROWS else ""
        lines.append(
            f"- **{words.failure_kind(kind)}**, trial{'s' if len(records) > 1 else ''} "
            f"{numbers}{more}: {code(last.evidence)}. {escaped(last.remedy)}"
        )
    yield "\n".join(lines)


def _so_far(subject: Subject) -> Iterator[str]:
    counts, name = subject.ranking.counts, subject.view.name
    minutes = 60 * gpu_hours(subject.records)
    kind = "simulated GPU-minutes" if subject.view.is_simulated else "GPU-minutes"
    yield (
        f"{len(settled(subject.records))} launches, {counts['failed']} failed, "
        f"{counts['pruned']} pruned, "
        f"{counts['infeasible']} outside a constraint; {minutes:.0f} {kind}."
    )
    if subject.ranking.best is not None:
        yield f"```sh\nautotune export --study {name}\nautotune report --study {name}\n```"


# ---- one trial --------------------------------------------------------------------------------


def trial_note(record: TrialRecord, standing: Standing | None) -> str:
    """Flags, why it was launched, values of each load, what failed, what to mind."""
    parts = [f"**{escaped(words.flags(record.flags)) or 'speculation off'}** ({record.role})"]
    if record.same_as is not None:
        parts.append(escaped(words.same_as(record)))
    if record.pruned:
        parts.append(escaped(words.pruned(record)))
    if record.failure is not None:
        failure = record.failure
        kind, stage = words.failure_kind(failure.kind), words.stage(failure.stage)
        parts.append(
            f"Failed: **{kind}** while {stage}.\n\n"
            f"{code(failure.evidence)}\n\n{escaped(failure.remedy)}"
        )
    if standing is not None:
        launches = len(standing.trials)
        over = f" over {launches} launches" if launches > 1 else ""
        parts.append(f"**{words.gain(standing.gain_vs_baseline_pct)}** against the baseline{over}.")
    if record.phases:
        parts.append(_loads(record.phases))
    broken = {slo: by for slo, by in record.constraints.items() if by > 0}
    parts += [f"Outside `{slo}`, by {by:.0%} of the limit." for slo, by in broken.items()]
    cautions = words.cautions(record)
    if cautions:
        parts.append("\n".join(f"- {escaped(caution)}" for caution in cautions))
    return "\n\n".join(parts)


def _loads(phases: list[Phase]) -> str:
    def ms(interval: Interval) -> str:
        return f"{1000 * interval.value:,.1f} ms"

    rows = [
        (
            phase.load, f"{phase.ttft_s.value:.3f} s", ms(phase.tpot_s),
            words.seconds(phase.turn_latency_s), words.tok_s(phase.output_tok_s),
            "" if phase.accept_length is None else f"{phase.accept_length:.2f}",
            str(phase.n_requests),
        )
        for phase in phases
    ]  # fmt: skip
    heads = ("load", "TTFT", "TPOT", "one turn", "output", "accept length", "requests")
    return _table(heads, rows)


# ---- Markdown ---------------------------------------------------------------------------------


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return "| " + " | ".join(escaped(cell) for cell in cells) + " |"

    return "\n".join([line(heads), "|---" * len(heads) + "|", *(line(row) for row in rows)])


_SPECIAL: Mapping[int, str] = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#~"})


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return " ".join(text.split()).translate(_SPECIAL)


def code(text: str) -> str:
    """A line of a log between backticks, whatever it holds; long ones are cut."""
    line = " ".join(text.split())
    short = line if len(line) <= _MOST_EVIDENCE else line[: _MOST_EVIDENCE - 1] + "…"
    return f"`{short.replace('`', chr(39))}`" if short else "no evidence"
