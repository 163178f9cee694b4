"""What one step more would do, how far the others are, and how long the choice holds."""

from __future__ import annotations

import math
from collections.abc import Iterator

from autotune.core.compare import ratio_change
from autotune.core.ranking import TIE, Ranking, Standing
from autotune.core.trial import Flags, Interval
from autotune.explain.document import Figure, Finding
from autotune.explain.model import Learned, Range
from autotune.explain.said import capital, plain, said, share
from autotune.explain.subject import Subject, in_brackets, one_more_step
from autotune.explain.walls import ceiling_of
from autotune.study.words import listed

_INFLATES = (
    "simulated_acceptance", "answers_loop", "repeated_prompts", "prompts_cached",
    "accept_length_at_ceiling",
)  # fmt: skip
"""Caveats of a record that make its accept length better than real use may be."""


# ---- one step more --------------------------------------------------------------------------


def one_more(subject: Subject, model: Learned | None) -> Finding | None:
    """What one draft step more costs in running requests and brings in accept length."""
    flags = one_more_step(subject.flags)
    if flags is None:
        return None
    deeper = subject.with_flags(flags)
    if deeper is not None:
        return _step_measured(subject, deeper)
    return None if model is None else _step_modelled(subject, flags, model)


def _step_measured(subject: Subject, deeper: Subject) -> Finding:
    figures: dict[str, Figure] = {}
    told = []
    lengths = [s.accept_length for s in (subject, deeper)]
    if lengths[0] is not None and lengths[1] is not None:
        figures["accept_length"] = Figure.of(lengths[0], "tokens")
        figures["accept_length_then"] = Figure.of(lengths[1], "tokens")
        gained = lengths[1].value - lengths[0].value
        told.append(
            f"accept length {lengths[0].value:.2f} → {said(figures['accept_length_then'])}, "
            f"{gained:+.2f}"
        )
    limits = [s.running_limit for s in (subject, deeper)]
    if limits[0] is not None and limits[1] is not None:
        figures["running_limit"] = Figure(limits[0], "requests", "server")
        figures["running_limit_then"] = Figure(limits[1], "requests", "server")
        told.append(
            f"{limits[0]:,.0f} → {limits[1]:,.0f} running requests (told by the server), "
            f"{_difference(limits[1] - limits[0])}"
        )
    told += _loads(subject, deeper, figures)
    told += _new_limit(deeper, limits[1])
    text = f"{deeper.name} was measured: {'; '.join(told)}."
    return Finding("one_more_step", "One more", capital(text), figures, "measured")


def _difference(n: float) -> str:
    return f"{abs(n):,.0f} {'fewer' if n < 0 else 'more'}" if n else "as many as before"


def _loads(subject: Subject, deeper: Subject, figures: dict[str, Figure]) -> Iterator[str]:
    """The headline value of each load on both sides, and whether the noise allows a difference."""
    for phase in subject.first.phases:
        metric = "turn_latency_s" if phase.role == "latency" else "output_tok_s"
        values = [s.pooled(phase.load, metric) for s in (subject, deeper)]
        if values[0] is None or values[1] is None:
            continue
        change = ratio_change(values[0], values[1])
        percent = Interval(100 * change.value, 100 * change.low, 100 * change.high)
        figure = figures[f"change_pct@{phase.load}"] = Figure.of(percent, "%")
        what = "turn" if phase.role == "latency" else "throughput"
        is_noise = change.low <= 0 <= change.high
        tie = ", within the noise" if is_noise else ""
        yield f"{phase.load} {what} {said(figure)}{tie}"


def _new_limit(deeper: Subject, limit: float | None) -> Iterator[str]:
    """Whether the running limit binds there, and by how much."""
    over = [p for p in deeper.serving if limit is not None and limit < p.concurrency]
    if over and limit is not None:
        by = [f"{p.concurrency - limit:.0f} of {p.concurrency} requests" for p in over]
        step = f"at steps {deeper.steps}" if deeper.steps else "there"
        yield (
            f"{step} the running limit binds: {limit:.0f} run at once, so that {listed(by)} "
            "have to wait (told by the server)"
        )


def _step_modelled(subject: Subject, flags: Flags, model: Learned) -> Finding:
    figures = {"accept_length_then": model.accept_length(flags)}
    own = subject.accept_length
    told = [f"accept length {said(figures['accept_length_then'])}"]
    if own is not None:
        figures["accept_length"] = Figure.of(own, "tokens")
        told[0] += f" in place of {said(figures['accept_length'])}"
    limit, then = subject.running_limit, model.running_limit(flags)
    if then is not None:
        figures["running_limit_then"] = then
        text = f"{plain(then)} run at once (model)"
        if limit is not None:
            figures["running_limit"] = Figure(limit, "requests", "server")
            text += f" in place of {limit:.0f} (told by the server)"
        told.append(text)
    latency = figures["change_pct@latency"] = model.change(subject.flags, flags, None)
    told.append(f"{subject.latency_load} turn {said(latency)}")
    for phase in subject.serving:
        change = model.change(subject.flags, flags, phase.concurrency)
        figures[f"change_pct@{phase.load}"] = change
        told.append(f"{phase.load} throughput {said(change)}")
    figures["survival"] = Figure(model.survival(flags), "", "model")
    told.append(f"the chance that a launch survives is {share(figures['survival'].value)} (model)")
    outside = "" if model.knows(flags) else ", outside the searched space"
    text = f"Not measured{outside}{in_brackets(flags)}: {'; '.join(told)}."
    return Finding("one_more_step", "One more", text, figures, "model")


# ---- the others -----------------------------------------------------------------------------


def next_best(subject: Subject, model: Learned | None) -> Finding:
    """How far the best other configuration is, and which ones are a tie."""
    ranking, own = subject.ranking, subject.standing
    others = [s for s in ranking.feasible if s.trial != own.trial]
    if not others:
        text = "No other configuration was measured that meets every constraint."
        if not any(s.trial != own.trial for s in ranking.standings):
            text = "No other configuration was measured."
        return Finding("next_best", "Next best", text, {}, "none")
    first = others[0]
    ahead = _lead(ranking, own, first)
    figures = {"lead_pct": Figure.of(ahead, "%")}
    other = subject.of(first)
    if ahead.value >= 0:
        text = f"{other.name} is behind by {_behind(ahead)} of the score (measured)"
    else:
        text = f"{other.name} scores {_behind(ahead)} higher (measured)"
    tied = [s for s in others if _is_tie(_lead(ranking, own, s))]
    verdict = "tie" if first in tied else "ahead" if ahead.value > 0 else "behind"
    if tied:
        text += _ties(subject, tied)
    if model is not None:
        chance = model.chance_better(own.flags, first.flags)
        figures["chance_better"] = Figure(chance, "", "model")
        text += (
            f"; the chance that trial {own.trial} is truly the better of the two is "
            f"{share(chance)} (model)"
        )
    return Finding("next_best", "Next best", f"{capital(text)}.", figures, verdict)


def _ties(subject: Subject, tied: list[Standing]) -> str:
    """That noise may have decided, and what decided instead."""
    names = listed(f"trial {n}" for n in sorted(s.trial for s in tied))
    text = f"; within the noise {names} {'is' if len(tied) == 1 else 'are'} a tie with trial "
    text += str(subject.standing.trial)
    if not subject.is_best:
        return text
    by_model = subject.ranking.chosen in subject.standing.trials
    why = "the model of the whole study prefers" if by_model else "the simpler flags decide for"
    return f"{text}, and {why} this one"


def _behind(lead: Interval) -> str:
    half = (lead.high - lead.low) / 2
    return f"{abs(lead.value):.1f} % ± {half:.1f}"


def _lead(ranking: Ranking, own: Standing, other: Standing) -> Interval:
    """How much higher the own score is, in percent, with its 95 % interval."""
    w = ranking.objective.latency_weight
    spread = 0.0
    for s in (own, other):
        spread += (w * s.latency_s.half_width_frac) ** 2
        spread += ((1 - w) * s.throughput_tok_s.half_width_frac) ** 2
    centre, half = own.score - other.score, math.sqrt(spread)
    return Interval(*(100 * math.expm1(x) for x in (centre, centre - half, centre + half)))


def _is_tie(lead: Interval) -> bool:
    return lead.low <= 0 <= lead.high or abs(lead.value) < 100 * TIE


# ---- acceptance -----------------------------------------------------------------------------


def acceptance(subject: Subject) -> Finding | None:
    """Whether the accept length looks better than real use; None: the server does not tell it."""
    length = subject.accept_length
    if length is None:
        return None
    figures = {"accept_length": Figure.of(length, "tokens")}
    ceiling = ceiling_of(subject)
    told = f"accept length {said(figures['accept_length'])}"
    if ceiling is not None:
        figures["share_of_ceiling"] = Figure(length.value / ceiling, "", "measured")
        told += f", {share(length.value / ceiling)} of the {ceiling} that a pass can yield"
    found = {
        c.code: c for record in subject.records for c in record.warnings if c.code in _INFLATES
    }
    if found:
        reasons = [found[code].text for code in _INFLATES if code in found]
        remedies = [found[code].remedy for code in _INFLATES if code in found]
        text = f"Looks inflated: {'; '.join(reasons)}. {capital(told)}. To be sure: "
        text += f"{listed(dict.fromkeys(r for r in remedies if r))}."
        return Finding("acceptance", "Accept", text, figures, "inflated")
    phases = [phase for record in subject.records for phase in record.phases]
    loops = max((p.loop_frac for p in phases if p.loop_frac is not None), default=None)
    n_sent, n_repeated = sum(p.n_sent for p in phases), sum(p.n_repeated for p in phases)
    signs = []
    if loops is not None:
        figures["loop_frac"] = Figure(loops, "", "measured")
        signs.append(f"{100 * loops:.0f} % of the answers repeat themselves")
    if n_sent:
        signs.append(f"{n_repeated} of {n_sent:,} prompts were sent twice")
    seen = f" ({', '.join(signs)}, measured)" if signs else ""
    text = f"Does not look inflated{seen}: {told}."
    return Finding("acceptance", "Accept", text, figures, "plausible")


# ---- how long it holds ----------------------------------------------------------------------


def holds_for(subject: Subject, model: Learned | None) -> Finding | None:
    """For which accept lengths these flags stay the best of those measured."""
    length = subject.accept_length
    if model is None or length is None or len(model.kept) < 2:
        return None
    found = model.holds_for(subject.flags)
    if found is None or not subject.standing.feasible:
        return None
    if not found.has_any:
        text = (
            "At no accept length are these flags the best of those measured (model: acceptance "
            "made easier and harder for all alike)."
        )
        return Finding("holds_for", "Holds", text, {}, "never")
    ceiling = float(ceiling_of(subject) or math.inf)
    low, high = (
        Figure(min(max(1.0, factor * length.value), ceiling), "tokens", "model")
        for factor in (found.low, found.high)
    )
    inside = low.value <= length.value <= high.value
    text = (
        f"These flags {'are' if inside else 'would be'} the best of those measured "
        f"{_range_in_words(found, low, high)} (model); {'it is' if inside else 'but it is'} "
        f"{length.value:.2f} (measured)"
    )
    for place, side in ((found.below, "below"), (found.above, "above")):
        if place is not None:
            winner = model.kept[place]
            text += f"; {side} that, trial {winner.number}{in_brackets(winner.flags)} wins"
    text += ". Acceptance was made easier and harder for all measured configurations alike."
    verdict = "holds" if inside else "does_not_hold"
    return Finding("holds_for", "Holds", text, {"low": low, "high": high}, verdict)


def _range_in_words(found: Range, low: Figure, high: Figure) -> str:
    if found.below is not None and found.above is not None:
        return f"while their accept length is between {low.value:.2f} and {high.value:.2f}"
    if found.below is not None:
        return f"while their accept length is {low.value:.2f} or more"
    if found.above is not None:
        return f"while their accept length is {high.value:.2f} or less"
    return f"at every accept length that was looked at, {low.value:.2f} to {high.value:.2f}"
