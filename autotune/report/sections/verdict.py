"""The verdict in two sentences, its figures at a glance, and what to paste."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from autotune.core.compare import ratio_change
from autotune.core.ranking import Standing
from autotune.core.trial import Interval
from autotune.report.html import Safe, tag
from autotune.report.section import Section
from autotune.report.subject import Configuration, Subject
from autotune.study import words
from autotune.study.verdict import confirmed, off_wins


def section(subject: Subject) -> Section:
    best = subject.ranking.best
    body: list[Safe] = [tag("p", *_sentences(subject), class_="verdict")]
    if best is not None:
        cards = list(_cards(subject, best))
        if cards:
            body.append(tag("div", cards, class_="cards"))
        body.append(tag("pre", tag("code", list(_flags(subject, best)))))
        off = off_wins(subject.view, subject.ranking)
        if off:
            body.append(tag("p", f"{off[0].upper()}{off[1:]}.", class_="note"))
    return Section("verdict", "Verdict", "", tuple(body))


def _flags(subject: Subject, best: Standing) -> Iterator[str]:
    """Each flag with its value, in an element that no line breaks."""
    version = subject.by_number[best.trial].versions.get("sglang", "")
    pairs: list[list[str]] = []
    for word in subject.view.command.for_version(version).words_for(best.flags):
        if word.startswith("--") or not pairs:
            pairs.append([])
        pairs[-1].append(word)
    for pair in pairs:
        yield tag("span", shlex.join(pair), class_="flag")
        yield " "


# ---- in words ---------------------------------------------------------------------------------


def _sentences(subject: Subject) -> tuple[str, str]:
    ranking = subject.ranking
    best, base = ranking.best, ranking.baseline
    n = len(subject.records)
    if best is None:
        return _nothing(subject, n)
    launches = f"{n} launch{'es' if n != 1 else ''}"
    if base is None:
        goal = ranking.objective.describe()
        return (
            f"Best for {goal} in {launches} was {words.flags(best.flags)}. ",
            "The baseline has no value, so nothing says how much better that is than before.",
        )
    if base.trial == best.trial:
        return _keep(subject, best, launches)
    before, after = subject.compared
    return _gain(subject, best), (
        f"One agent turn at C=1 takes {after.standing.latency_s.value:.3f} s (baseline "
        f"{before.standing.latency_s.value:.3f} s) and the loaded server gives "
        f"{after.standing.throughput_tok_s.value:,.0f} tokens/s (baseline "
        f"{before.standing.throughput_tok_s.value:,.0f}), after {launches} in the search."
    )


def _keep(subject: Subject, best: Standing, launches: str) -> tuple[str, str]:
    ranking, confirmation = subject.ranking, subject.view.confirmation
    found = f"Keep the flags you came with: {words.flags(best.flags)}. "
    if len(subject.records) == 1:
        return found, "They are all that was launched so far, so nothing was compared."
    if confirmation is not None and confirmation.winner != best.trial:
        return found, f"{confirmed(confirmation, ranking.objective).text.capitalize()}."
    n_failed = ranking.counts["failed"]
    failed = f", {n_failed} of them failed" if n_failed else ""
    return found, f"Nothing beat them for {ranking.objective.describe()} in {launches}{failed}."


def _gain(subject: Subject, best: Standing) -> str:
    """The first sentence on a winner: by its fresh launches, where there are some."""
    ranking, confirmation = subject.ranking, subject.view.confirmation
    flags, goal = words.flags(best.flags), ranking.objective.describe()
    if confirmation is not None and confirmation.verdict == "better" and not confirmation.n_left:
        found = confirmation.subject
        n = len(found.launches)
        return (
            f"Use {flags}: {found.gain_pct:.1f} % ± {found.error_pct:.1f} better than the baseline "
            f"for {goal}, confirmed on {n} fresh launch{'es' if n != 1 else ''}. "
        )
    if confirmation is not None:
        told = confirmed(confirmation, ranking.objective)
        return f"Best for {goal} was {flags}. {told.title}: {told.text}. "
    gain, error = best.gain_vs_baseline_pct, ranking.gain_error_pct(best)
    if gain > error:
        return f"Use {flags}: {gain:.1f} % ± {error:.1f} better than the baseline for {goal}. "
    return (
        f"Best for {goal} was {flags}, but its {words.gain(gain)} ± {error:.1f} against the "
        "baseline is within the noise. "
    )


def _nothing(subject: Subject, n: int) -> tuple[str, str]:
    counts = subject.ranking.counts
    if not n:
        return "No launch has ended yet. ", "There is nothing to report."
    if not subject.ranking.standings:
        kinds = ", ".join(
            f"{words.failure_kind(kind)} ({count})" for kind, count in counts["by_kind"].items()
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


# ---- at a glance ------------------------------------------------------------------------------


def _cards(subject: Subject, best: Standing) -> Iterator[Safe]:
    """The gain, and both goals before and after; nothing where nothing is compared."""
    base = subject.ranking.baseline
    if base is None or base.trial == best.trial:
        return
    (gain, error), n = subject.gain, subject.is_confirmed_on
    how = f"{n} fresh launch{'es' if n != 1 else ''} of each" if n else "in the search"
    yield _card(f"gain for {subject.ranking.objective.name}", words.gain(gain),
                f"± {error:.1f}, {how}", True if gain > error else None)  # fmt: skip
    before, after = subject.compared
    loads = ", ".join(str(c) for c in subject.serving)
    for title, name, unit, digits, more_is_better in (
        ("one agent turn, C=1", "latency_s", "s", ".3f", False),
        (f"throughput, C={loads}", "throughput_tok_s", "tok/s", ",.0f", True),
    ):
        values = [getattr(c.standing, name) for c in (before, after)]
        yield _change_card(title, values[0], values[1], unit, digits, more_is_better)
    yield from _accept_card(before, after)


def _change_card(
    title: str, before: Interval, after: Interval, unit: str, digits: str, more_is_better: bool
) -> Safe:
    change = ratio_change(before, after)
    for_sure = change.low > 0 or change.high < 0
    good = (change.value > 0) == more_is_better if for_sure else None
    told = f"was {before.value:{digits}} {unit}, {_unbroken(words.gain(100 * change.value))}"
    return _card(title, f"{after.value:{digits}} {unit}", told, good)


def _unbroken(text: str) -> str:
    return text.replace(" ", "\u00a0")


def _accept_card(before: Configuration, after: Configuration) -> Iterator[Safe]:
    if before.accept_length and after.accept_length:
        yield _card("accept length", f"{after.accept_length:.2f}",
                    f"was {before.accept_length:.2f} tokens per pass", None)  # fmt: skip


def _card(title: str, value: str, told: str, good: bool | None) -> Safe:
    """``good``: whether it is better or worse than before; None: neither, or not for sure."""
    kind = {True: "good", False: "bad", None: None}[good]
    return tag(
        "div",
        tag("span", title, class_="what"),
        tag("strong", value, class_=kind),
        tag("span", told, class_="was"),
        class_="card",
    )
