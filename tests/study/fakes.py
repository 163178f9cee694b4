"""A tuner whose launches take no time: what a configuration yields is a function of its flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from autotune.core.objective import PRESETS, Objective
from autotune.core.trial import (
    Failure,
    FailureKind,
    Flags,
    FlagValue,
    Interval,
    Phase,
    TrialRecord,
    TrialRole,
)
from autotune.errors import Interrupted
from autotune.events import Event
from autotune.search import AnySampler, sampler_named
from autotune.space import SearchSpace, load_space
from autotune.study.budget import Budget, StopRule
from autotune.study.evaluate import Evaluator, Prune
from autotune.study.interrupt import Interrupts
from autotune.study.store import StudyStore
from autotune.study.tuner import Tuner
from tests.core.samples import phase

Outcome = tuple[float, float] | FailureKind | BaseException
"""(latency, throughput) of a launch, or how it fails; an exception is raised."""
Model = Callable[[Flags, int], Outcome]


def around(value: float, half: float = 0.01) -> Interval:
    return Interval(value, value * (1 - half), value * (1 + half))


def record_of(
    number: int,
    flags: Flags,
    outcome: tuple[float, float] | FailureKind,
    role: TrialRole = "search",
    *,
    timings: Mapping[str, float] | None = None,
) -> TrialRecord:
    if isinstance(outcome, FailureKind):
        return TrialRecord(
            number=number, status="failed", flags=dict(flags), role=role,
            failure=Failure(outcome, "capture", "the line of the log", "the remedy"),
            timings=dict(timings or {}),
        )  # fmt: skip
    return TrialRecord(
        number=number, status="complete", flags=dict(flags), role=role,
        objectives={"latency_s": around(outcome[0]), "throughput_tok_s": around(outcome[1])},
        timings=dict(timings or {}),
    )  # fmt: skip


def half_record(number: int, flags: Flags, latency_s: float) -> TrialRecord:
    """Of a launch that has measured its first phase."""
    return TrialRecord(
        number=number, status="pruned", flags=dict(flags),
        phases=[phase("latency", 1, turn_s=latency_s)],
    )  # fmt: skip


def trade_off(flags: Flags, number: int) -> tuple[float, float]:
    """Far apart from step to step, so that nothing is a contender of the best."""
    steps = int(flags["speculative_num_steps"])
    return 3.0 / steps, 100.0 * steps


@dataclass(frozen=True)
class FakeEvaluator(Evaluator):
    """Answers from a model; remembers what it was asked for."""

    model: Model = trade_off
    asked: list[tuple[dict[str, FlagValue], TrialRole]] = field(default_factory=list)

    def evaluate(
        self,
        flags: Flags,
        *,
        number: int,
        directory: Path,
        role: TrialRole,
        reference: Sequence[Phase] = (),
        earlier: Sequence[TrialRecord] = (),
        prune: Prune | None = None,
    ) -> TrialRecord:
        self.asked.append((dict(flags), role))
        outcome = self.model(flags, number)
        if isinstance(outcome, BaseException):
            raise outcome
        if prune is not None and isinstance(outcome, tuple):
            half = half_record(number, flags, outcome[0])
            why = prune(half)
            if why is not None:
                return structs.replace(half, pruned=why, timings={"wall_s": 0.4})
        return record_of(number, flags, outcome, role, timings={"wall_s": 1.0})


class NoEngine:
    """Nothing is launched in these tests."""


@dataclass
class Bench:
    """One study on disk, tuned by one tuner after the other."""

    root: Path
    space: SearchSpace = field(default_factory=lambda: load_space("steps-only"))
    baseline: Flags = field(default_factory=lambda: chain(2))
    objective: Objective = PRESETS["agentic"]
    events: list[Event] = field(default_factory=list)

    @property
    def store(self) -> StudyStore:
        return StudyStore("s", root=self.root)

    def tuner(
        self,
        model: Model = trade_off,
        *,
        trials: int = 30,
        sampler: str = "speculative",
        stop_rule: StopRule | None = None,
        reference: Flags | None = None,
        prunes: bool = False,
        widens: bool = False,
    ) -> Tuner:
        """Uses up the space unless there is a rule to stop before."""

        def sampler_of(space: SearchSpace) -> AnySampler:
            return sampler_named(sampler, space, self.objective, seed=0)

        chosen = sampler_of(self.space)
        evaluator = FakeEvaluator(
            NoEngine(), None, (), (), (), self.events.append, model=model  # type: ignore[arg-type]
        )  # fmt: skip
        return Tuner(
            store=self.store,
            study=self.store.create(chosen),
            space=self.space,
            sampler=chosen,
            objective=self.objective,
            evaluator=evaluator,
            baseline=self.baseline,
            budget=Budget(trials),
            interrupts=Interrupts(),
            listener=self.events.append,
            stop_rule=stop_rule or StopRule(),
            reference=reference,
            prunes=prunes,
            sampler_of=sampler_of if widens else None,
        )

    def records(self) -> list[TrialRecord]:
        return self.store.records(self.store.open())


def chain(steps: int) -> dict[str, FlagValue]:
    return {
        "speculative_num_steps": steps,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": steps + 1,
    }


def asked(tuner: Tuner) -> list[int]:
    """The steps of each launch, in order; 0 without speculation."""
    assert isinstance(tuner.evaluator, FakeEvaluator)
    return [int(flags.get("speculative_num_steps", 0)) for flags, _ in tuner.evaluator.asked]


def roles(tuner: Tuner) -> list[TrialRole]:
    assert isinstance(tuner.evaluator, FakeEvaluator)
    return [role for _, role in tuner.evaluator.asked]


def cut_off(signum: int = 15) -> Interrupted:
    return Interrupted(signum)
