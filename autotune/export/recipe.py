"""What is exported: a chosen configuration with the command it belongs to and its provenance."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.core.ranking import Ranking, Standing
from autotune.core.trial import Flags, TrialRecord
from autotune.engine.sglang.command import MASK, LaunchCommand
from autotune.errors import NoFeasibleConfiguration, UsageError
from autotune.study.reading import StudyView


@dataclass(frozen=True, slots=True)
class Recipe:
    """A configuration ready to be written down.

    Attributes:
        command: the whole launch command with the chosen flags, secrets masked, written for the
            SGLang that was measured.
        provenance: lines for people: where these flags come from and what they measured.
    """

    study: str
    standing: Standing
    record: TrialRecord
    command: LaunchCommand
    provenance: tuple[str, ...]

    @property
    def flags(self) -> Flags:
        return self.standing.flags


def choose(
    ranking: Ranking,
    *,
    knee: bool = False,
    trial: int | None = None,
    max_latency_s: float | None = None,
    allow_infeasible: bool = False,
) -> Standing:
    """The standing to export: by trial, the knee, the fastest under a latency, or the best.

    Raises:
        NoFeasibleConfiguration: nothing feasible meets the wish.
        UsageError: the trial carries no values, or is infeasible and that was not allowed.
    """
    if trial is not None:
        return _by_trial(ranking, trial, allow_infeasible)
    if knee:
        chosen = ranking.knee
    elif max_latency_s is not None:
        quick = [s for s in ranking.feasible if s.latency_s.value <= max_latency_s]
        chosen = max(quick, key=lambda s: s.throughput_tok_s.value, default=None)
        if chosen is None and ranking.front:
            fastest = ranking.front[0]
            raise NoFeasibleConfiguration(
                f"no feasible configuration has a latency of {max_latency_s:g} s or less; "
                f"the fastest is trial {fastest.trial} with {fastest.latency_s.value:.3f} s"
            )
    else:
        chosen = ranking.best
    if chosen is None:
        raise NoFeasibleConfiguration(
            "the study has no feasible configuration to export",
            hint="autotune show lists what failed and why",
        )
    return chosen


def _by_trial(ranking: Ranking, trial: int, allow_infeasible: bool) -> Standing:
    for standing in ranking.standings:
        if trial in standing.trials:
            if standing.feasible or allow_infeasible:
                return standing
            raise UsageError(
                f"trial {trial} violates a constraint", hint="--allow-infeasible exports it anyway"
            )
    if ranking.reference is not None and trial in ranking.reference.trials:
        raise UsageError(
            f"trial {trial} is speculation off, the reference: it has no flags to export",
            hint="leave the speculative flags out of your command to run without",
        )
    raise UsageError(
        f"trial {trial} carries no values: it failed, it ran as another trial had, or it does not "
        "exist",
        hint="autotune show tells what became of each trial",
    )


def recipe_for(view: StudyView, standing: Standing) -> Recipe:
    """The chosen standing with its command and provenance."""
    record = view.record(standing.trial)
    base = view.command.redacted().for_version(record.versions.get("sglang", ""))
    return Recipe(
        study=view.name,
        standing=standing,
        record=record,
        command=base.with_flags(standing.flags).filled(),
        provenance=tuple(_provenance(view, standing, record)),
    )


def _provenance(view: StudyView, standing: Standing, record: TrialRecord) -> list[str]:
    machine = record.machine
    gpus = f"{machine.get('n_gpus', '?')} × {machine['gpu']}" if "gpu" in machine else "no GPU seen"
    version = record.versions.get("sglang", "unknown")
    latency, throughput = standing.latency_s, standing.throughput_tok_s
    lines = [
        f"autotune study {view.name}, trial {standing.trial}, "
        f"objective {view.objective.describe()}",
        f"SGLang {version} on {gpus}",
        f"one turn {latency.value:.3f} s [{latency.low:.3f}, {latency.high:.3f}], "
        f"throughput {throughput.value:,.0f} tok/s [{throughput.low:,.0f}, {throughput.high:,.0f}]",
        f"{standing.gain_vs_baseline_pct:+.1f} % against the baseline, "
        f"{len(standing.trials)} launch{'es' if len(standing.trials) > 1 else ''}",
    ]
    if MASK in " ".join(view.command.redacted().argv):
        lines.append(f"secrets were replaced by {MASK}: put them back before use")
    if view.is_simulated:
        lines.insert(1, "SIMULATED: measured on the simulated server, not on hardware")
    if view.fakes_acceptance:
        lines.insert(1, "FAKED: measured with the accept length of SGLANG_SIMULATE_ACC_LEN")
    return lines
