"""Which configuration of a study is exported."""

from __future__ import annotations

from autotune.core.ranking import Ranking, Standing
from autotune.core.trial import AFTERWARDS
from autotune.errors import MeasurementError, NoFeasibleConfiguration, UsageError
from autotune.study import words
from autotune.study.reading import StudyView
from autotune.study.verdict import proof_of


def choose(
    view: StudyView,
    *,
    knee: bool = False,
    trial: int | None = None,
    max_latency_s: float | None = None,
    min_throughput_tok_s: float | None = None,
    allow_infeasible: bool = False,
) -> Standing:
    """The standing to export: by trial, the knee, within limits, or the best.

    A limit on the latency asks for the most throughput within it, one on the throughput for the
    least latency, and both for the best score.

    Raises:
        NoFeasibleConfiguration: nothing feasible meets the wish.
        UsageError: there is no such trial; it failed, was left, ran as another one, or was launched
            after the search; or it is infeasible and that was not allowed.
    """
    if trial is not None:
        return _by_trial(view, trial, allow_infeasible)
    ranking = view.ranking
    if max_latency_s is not None or min_throughput_tok_s is not None:
        return _within(ranking, max_latency_s, min_throughput_tok_s)
    chosen = ranking.knee if knee else ranking.best
    if chosen is None:
        raise _nothing()
    return chosen


def check_proven(view: StudyView, standing: Standing) -> None:
    """Refuses what fresh launches speak against; what nobody has launched again passes.

    Raises:
        MeasurementError: the confirm stage does not show that it is better than the baseline.
    """
    proof = proof_of(view, standing)
    if proof.state == "denied":
        raise MeasurementError(
            f"trial {standing.trial} is {proof.text}", hint="--allow-unconfirmed exports it anyway"
        )


def front(ranking: Ranking) -> tuple[Standing, ...]:
    """Every standing of the front, by rising latency.

    Raises:
        NoFeasibleConfiguration: it is empty.
    """
    if not ranking.front:
        raise _nothing()
    return ranking.front


def _nothing() -> NoFeasibleConfiguration:
    return NoFeasibleConfiguration(
        "the study has no feasible configuration to export",
        hint="autotune show lists what failed and why",
    )


def _within(ranking: Ranking, latency_s: float | None, tok_s: float | None) -> Standing:
    if not ranking.feasible:
        raise _nothing()
    quick = [s for s in ranking.feasible if latency_s is None or s.latency_s.value <= latency_s]
    if not quick:
        fastest = ranking.front[0]
        raise NoFeasibleConfiguration(
            f"no feasible configuration has a latency of {latency_s:g} s or less; "
            f"the fastest is trial {fastest.trial} with {fastest.latency_s.value:.3f} s"
        )
    fit = [s for s in quick if tok_s is None or s.throughput_tok_s.value >= tok_s]
    if not fit:
        most = max(quick, key=lambda s: s.throughput_tok_s.value)
        within = "" if latency_s is None else f" within {latency_s:g} s"
        raise NoFeasibleConfiguration(
            f"no feasible configuration has {tok_s:g} tok/s or more{within}; "
            f"the most is trial {most.trial} with {most.throughput_tok_s.value:,.0f} tok/s"
        )
    if tok_s is None:
        return max(fit, key=lambda s: s.throughput_tok_s.value)
    if latency_s is None:
        return min(fit, key=lambda s: s.latency_s.value)
    return max(fit, key=lambda s: s.score)


def _by_trial(view: StudyView, trial: int, allow_infeasible: bool) -> Standing:
    record = view.record(trial)
    ranking = view.ranking
    if record.same_as is not None:
        raise UsageError(
            f"trial {trial} ran as trial {record.same_as} had",
            hint=f"--trial {record.same_as} exports those flags",
        )
    if record.role in AFTERWARDS:
        judged = ranking.standing_of(record) if record.role == "confirm" else None
        instead = f"--trial {judged.trial}" if judged else "--adaptive"
        raise UsageError(
            f"trial {trial} is no trial of the search: it was launched to judge what that found",
            hint=f"{instead} exports its flags",
        )
    if record.objectives is None:
        reason = words.failure(record) if record.failure else words.pruned(record)
        raise UsageError(
            f"trial {trial} carries no values: {reason}",
            hint="autotune show tells what became of each trial",
        )
    standing = next((s for s in ranking.standings if trial in s.trials), None)
    if standing is None:
        raise UsageError(
            f"trial {trial} is speculation off, the reference: it has no flags to export",
            hint="leave the speculative flags out of your command to run without",
        )
    if not standing.feasible and not allow_infeasible:
        raise UsageError(
            f"trial {trial} violates a constraint", hint="--allow-infeasible exports it anyway"
        )
    return standing
