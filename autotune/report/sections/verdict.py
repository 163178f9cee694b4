"""The verdict in two sentences, and what to paste."""

from __future__ import annotations

import shlex

from autotune.core.ranking import Standing
from autotune.report.html import Safe, tag
from autotune.report.section import Section
from autotune.report.subject import Subject
from autotune.study import words
from autotune.study.verdict import off_wins
from autotune.study.words import failure_kind


def section(subject: Subject) -> Section:
    best = subject.ranking.best
    body: list[Safe] = [tag("p", *_sentences(subject), class_="verdict")]
    if best is not None:
        body.append(tag("pre", tag("code", shlex.join(_words(subject, best)))))
        off = off_wins(subject.view, subject.ranking)
        if off:
            body.append(tag("p", f"{off[0].upper()}{off[1:]}.", class_="note"))
    return Section("verdict", "Verdict", "", tuple(body))


def _words(subject: Subject, best: Standing) -> list[str]:
    version = subject.by_number[best.trial].versions.get("sglang", "")
    return list(subject.view.command.for_version(version).words_for(best.flags))


def _sentences(subject: Subject) -> tuple[str, str]:
    ranking, counts = subject.ranking, subject.ranking.counts
    best, base = ranking.best, ranking.baseline
    n = len(subject.records)
    if best is None:
        return _nothing(subject, n)
    launches = f"{n} launch{'es' if n != 1 else ''}"
    goal = ranking.objective.describe()
    if base is None:
        return (
            f"{words.flags(best.flags)} did best for {goal} in {launches}. ",
            "The baseline has no value, so nothing says how much better that is than before.",
        )
    if base.trial == best.trial:
        found = f"Keep the flags you came with: {words.flags(best.flags)}. "
        if n == 1:
            return found, "They are all that was launched so far, so nothing was compared."
        failed = f", {counts['failed']} of them failed" if counts["failed"] else ""
        return (
            found,
            f"Nothing beat them for {goal} in {launches}{failed}.",
        )
    gain, error = best.gain_vs_baseline_pct, ranking.gain_error_pct(best)
    if gain > error:
        first = (
            f"Use {words.flags(best.flags)}: {gain:.1f} % ± {error:.1f} better than the "
            f"baseline for {goal}. "
        )
    else:
        first = (
            f"{words.flags(best.flags)} did best for {goal}, but its {gain:+.1f} % ± "
            f"{error:.1f} against the baseline is within the noise. "
        )
    return first, (
        f"One agent turn at C=1 takes {best.latency_s.value:.3f} s (baseline "
        f"{base.latency_s.value:.3f} s) and the loaded server gives "
        f"{best.throughput_tok_s.value:,.0f} tokens/s (baseline "
        f"{base.throughput_tok_s.value:,.0f}), after {launches}."
    )


def _nothing(subject: Subject, n: int) -> tuple[str, str]:
    counts = subject.ranking.counts
    if not n:
        return "No launch has ended yet. ", "There is nothing to report."
    if not subject.ranking.standings:
        kinds = ", ".join(
            f"{failure_kind(kind)} ({count})" for kind, count in counts["by_kind"].items()
        )
        launches = "The only launch" if n == 1 else f"All {n} launches"
        return (
            f"{launches} failed, so there is nothing to deploy. ",
            f"What went wrong: {kinds}; the evidence stands below.",
        )
    return (
        "No configuration meets the constraints, so there is nothing to deploy. ",
        f"{counts['infeasible']} of {n} launches were measured and lie outside{_broken(subject)}.",
    )


def _broken(subject: Subject) -> str:
    """The constraints that some launch violates, as the end of a sentence."""
    names = {name for r in subject.records for name, v in r.constraints.items() if v > 0}
    return f" of {' and '.join(sorted(names))}" if names else " of a constraint"
