"""What is exported: the neutral description of a deployment, from which every format is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from autotune.core.ranking import Standing
from autotune.core.trial import Flags, Interval, Phase, TrialRecord
from autotune.engine.sglang.command import DEFAULT_PORT, MASK, LaunchCommand
from autotune.engine.sglang.flags import check_has, is_written, spec_of
from autotune.engine.sglang.placement import Placement, rewritten
from autotune.engine.sglang.versions import DRAFT_IN_POOL, Version, in_force
from autotune.errors import UsageError
from autotune.export.words import check_text
from autotune.study.reading import StudyView
from autotune.study.verdict import proof_of

_LAUNCHES = 3
"""A start may take this many times as long as the measured one before it counts as failed."""
_SLOWEST_S = 900.0
_LEAST_S = 300
_MODELS = (
    ("model", "model_path", "revision"),
    ("draft model", "speculative_draft_model_path", "speculative_draft_model_revision"),
)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that must lie where the server runs.

    Attributes:
        path: absolute, as the command has it.
    """

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """A configuration ready to be written down.

    Attributes:
        command: the whole launch command with the chosen flags, secrets masked, written for
            ``command.version``.
        provenance: lines for people: where these flags come from and what they measured.
        baseline: the command they are compared with; None: the study has no baseline.
        effects: measured change against the baseline, a line for each load.
        cautions: what to mind before these numbers are believed of the target.
        more: flags beside those of the standing, or in their place.
        file: that the command refers to, if any.
    """

    study: str
    standing: Standing
    record: TrialRecord
    command: LaunchCommand
    provenance: tuple[str, ...]
    baseline: LaunchCommand | None = None
    effects: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    more: Flags = field(default_factory=dict)
    file: Attachment | None = None

    @property
    def flags(self) -> Flags:
        return {**self.standing.flags, **self.more}

    @property
    def release(self) -> str:
        """Of SGLang, as an image has it in its tag; empty where it is not known."""
        version = self.command.version
        return "" if version is None else version.text.partition("+")[0]

    @property
    def port(self) -> int:
        return int(self.command.readable(("port",)).get("port", DEFAULT_PORT))

    @property
    def n_gpus(self) -> int:
        """GPUs that it was measured on, or that its flags ask for."""
        seen = self.record.machine.get("n_gpus")
        if isinstance(seen, int) and seen > 0:
            return seen
        sizes = self.command.readable(("tp_size", "pp_size"))
        return int(sizes.get("tp_size", 1)) * int(sizes.get("pp_size", 1))

    @property
    def startup_budget_s(self) -> int:
        """Seconds after which a start has failed."""
        took_s = self.record.timings.get("launch_s", _SLOWEST_S / _LAUNCHES)
        return max(_LEAST_S, round(_LAUNCHES * took_s))


def recipe_for(view: StudyView, standing: Standing, version: str | None = None) -> Recipe:
    """The chosen standing with its command and provenance.

    Args:
        version: of the SGLang to write it for; None: the one that was measured.

    Raises:
        UsageError: that release lacks a flag of the command, or is none.
    """
    record = view.record(standing.trial)
    measured = Version.parse(record.versions.get("sglang", ""))
    target = measured if version is None else Version.parse(version)
    if version is not None and target is None:
        raise UsageError(f"{version!r} is no version of SGLang, such as 0.5.23")
    base = respelled(view.command.redacted().filled(), target)
    check_text(base.argv)
    reference = view.ranking.baseline
    return Recipe(
        study=view.name,
        standing=standing,
        record=record,
        command=base.with_flags(standing.flags),
        provenance=tuple(_provenance(view, standing, record, measured, target)),
        baseline=base.with_flags(reference.flags) if reference else None,
        effects=tuple(_effects(view, standing)),
        cautions=tuple(_cautions(measured, target)),
    )


def respelled(command: LaunchCommand, version: Version | None) -> LaunchCommand:
    """The command for a release of SGLang: renamed flags get the name that it knows.

    Raises:
        UsageError: it lacks a flag of the command.
    """
    command = command.for_version(version)
    if version is None:
        return command
    placement = Placement.of(command.argv)
    edits = []
    for i, word in enumerate(placement.words):
        head, joined, value = word.partition("=")
        if i < placement.first or not head.startswith("--"):
            continue
        name = head[2:].replace("-", "_")
        check_has(name, version)
        if not is_written(head, name, version):
            new = spec_of(name, version).spellings[0]
            edits.append((i, i + 1, [f"{new}={value}" if joined else new]))
    return replace(command, argv=rewritten(command.argv, edits))


def _cautions(measured: Version | None, target: Version | None) -> Iterator[str]:
    if measured == target or target is None:
        return
    yield f"measured on SGLang {measured or 'of unknown version'}, written for {target}"
    if in_force(DRAFT_IN_POOL, measured).value != in_force(DRAFT_IN_POOL, target).value:
        yield (
            "mem_fraction_static covers the draft model since SGLang 0.5.14 and did not before: "
            "the measured fraction is wrong there"
        )


def _provenance(
    view: StudyView,
    standing: Standing,
    record: TrialRecord,
    measured: Version | None,
    target: Version | None,
) -> Iterator[str]:
    latency, throughput = standing.latency_s, standing.throughput_tok_s
    yield (
        f"autotune study {view.name}, trial {standing.trial}, objective {view.objective.describe()}"
    )
    if view.is_simulated:
        yield "SIMULATED: measured on the simulated server, not on hardware"
    if view.fakes_acceptance:
        yield "FAKED: measured with the accept length of SGLANG_SIMULATE_ACC_LEN"
    yield from _origin(view, record)
    yield (
        f"one turn {latency.value:.3f} s [{latency.low:.3f}, {latency.high:.3f}], "
        f"throughput {throughput.value:,.0f} tok/s [{throughput.low:,.0f}, {throughput.high:,.0f}]"
    )
    yield (
        f"{standing.gain_vs_baseline_pct:+.1f} % against the baseline, "
        f"{len(standing.trials)} launch{'es' if len(standing.trials) > 1 else ''}"
    )
    proof = proof_of(view, standing).text
    yield proof.replace("not confirmed", "NOT CONFIRMED", 1)
    if not standing.feasible:
        yield "INFEASIBLE: it violates a constraint of the study"
    if view.config.slo:
        yield f"constraints: {', '.join(view.config.slo)}"
    if MASK in " ".join(view.command.redacted().argv):
        yield f"secrets were replaced by {MASK}: put them back before use"
    yield from _cautions(measured, target)


def _origin(view: StudyView, record: TrialRecord) -> Iterator[str]:
    """Server, hardware and model of the measurement, as far as they are known, and its day."""
    driver = record.machine.get("driver")
    on = describe_machine(record.machine) + (f", driver {driver}" if driver else "")
    yield f"SGLang {record.versions.get('sglang', 'unknown')} on {on}"
    models = [
        f"{name} {record.effective[path]}{_revision(record, revision)}"
        for name, path, revision in _MODELS
        if record.effective.get(path)
    ]
    if models:
        yield ", ".join(models)
    ended = view.ended_at.get(record.number)
    if ended is not None:
        yield f"measured on {ended:%Y-%m-%d}"


def _revision(record: TrialRecord, name: str) -> str:
    found = record.effective.get(name)
    return f" at revision {found}" if found else ""


def describe_machine(machine: Mapping[str, object]) -> str:
    """``4 × NVIDIA H100``."""
    if "gpu" not in machine:
        return "no GPU seen"
    return f"{machine.get('n_gpus', '?')} × {machine['gpu']}"


def other_machine(measured: Mapping[str, object], here: Mapping[str, object]) -> str | None:
    """What makes another machine of this one, in a sentence; None: the flags fit it.

    Args:
        measured: of the record: ``n_gpus`` are those that the server used.
        here: ``n_gpus`` are those that there are.
    """
    if "gpu" not in measured:
        return None
    was = f"measured on {describe_machine(measured)}"
    if "gpu" not in here:
        return f"{was}, and no GPU is seen here: on other GPUs other flags may be best"
    n_used, n_here = measured.get("n_gpus", 0), here.get("n_gpus", 0)
    fits = not isinstance(n_used, int) or not isinstance(n_here, int) or n_used <= n_here
    if measured["gpu"] == here["gpu"] and fits:
        return None
    return f"{was}, and this machine has {describe_machine(here)}: other flags may be best here"


def _effects(view: StudyView, standing: Standing) -> Iterator[str]:
    """``C=16   1,733 -> 1,690 tok/s, -2.5 %`` for each load that both were measured at."""
    base = view.ranking.baseline
    if base is None or base.trial == standing.trial:
        return
    before = {phase.load: phase for phase in view.record(base.trial).phases}
    for phase in view.record(standing.trial).phases:
        if phase.load in before:
            yield _effect(before[phase.load], phase)


def _effect(before: Phase, after: Phase) -> str:
    old, new = before.headline, after.headline
    unit = "s" if after.headline is after.turn_latency_s else "tok/s"
    change = f", {100 * (new.value / old.value - 1):+.1f} %" if old.value > 0 else ""
    told = f"{after.load}: {_number(old, unit)} to {_number(new, unit)}{change}"
    if before.accept_length and after.accept_length:
        told += f", accept length {before.accept_length:.2f} to {after.accept_length:.2f}"
    return told


def _number(interval: Interval, unit: str) -> str:
    value = f"{interval.value:.3f}" if unit == "s" else f"{interval.value:,.0f}"
    return f"{value} {unit} ± {100 * interval.half_width_frac:.1f} %"
