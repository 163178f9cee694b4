"""When to stop, and how much is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from autotune.core.trial import TrialRecord
from autotune.study.words import duration

if TYPE_CHECKING:
    from autotune.study.choice import Choice


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a study; whichever comes first.

    Attributes:
        trials: launches at most, over all runs of the study; interrupted ones do not count.
        time_s: wall seconds at most, of this run's search; None: no limit.
        gpu_hours: GPU hours at most, of the search over all runs; None: no limit.
    """

    trials: int
    time_s: float | None = None
    gpu_hours: float | None = None

    def why_stop(self, records: Sequence[TrialRecord], elapsed_s: float) -> str | None:
        """The limit that is reached, in words; None while there is room for another trial."""
        n_done = len(settled(records))
        if n_done >= self.trials:
            return f"all {self.trials} launches are used"
        if self.time_s is not None and elapsed_s + self._next_s(records) > self.time_s:
            return f"the next launch would end after the {duration(self.time_s)} allowed"
        used = gpu_hours(records)
        if self.gpu_hours is not None and used + used / max(1, n_done) > self.gpu_hours:
            return (
                f"{used:.2f} of {self.gpu_hours:g} GPU hours are used; the next launch needs more"
            )
        return None

    def left_s(self, records: Sequence[TrialRecord]) -> float | None:
        """Wall seconds the remaining launches will take, from this study's own; None: no idea."""
        n_left = self.trials - len(settled(records))
        return self._next_s(records) * n_left if records else None

    def _next_s(self, records: Sequence[TrialRecord]) -> float:
        known = [r.timings["wall_s"] for r in records if "wall_s" in r.timings]
        return fmean(known) if known else 0.0


@dataclass(frozen=True, slots=True)
class StopRule:
    """When a study has seen enough before its budget is used up; whichever comes first.

    Attributes:
        by_model: stop where the model says that another launch is not worth its minutes.
        target_gain_pct: stop at this gain against the baseline, in percent; None: no target.
        patience: stop when as many launches left the recommendation as it was; None: go on.
    """

    by_model: bool = False
    target_gain_pct: float | None = None
    patience: int | None = None

    def why_stop(self, choice: Choice | None, gain_pct: float | None, n_trials: int) -> str | None:
        """The reason in words; None: go on.

        Args:
            gain_pct: of the best configuration, against the baseline.
            n_trials: launches that the budget allows.
        """
        target = self.target_gain_pct
        if target is not None and gain_pct is not None and gain_pct >= target:
            return f"a gain of {gain_pct:.1f} % reaches the target of {target:g} %"
        if choice is None:
            return None
        if self.by_model and choice.stop:
            return f"{choice.why}: stopping after {choice.n_launches} of {n_trials} trials"
        if self.patience is not None and choice.n_unchanged >= self.patience:
            n = choice.n_unchanged
            same = "the last launch has" if n == 1 else f"the last {n} launches have"
            return f"{same} not changed what is recommended"
        return None


def settled(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Records of launches that ran to an end of their own, good or bad."""
    return [record for record in records if not record.is_interrupted]


def gpu_hours(records: Sequence[TrialRecord]) -> float:
    """GPU hours that the launches held, in the engine's own time (simulated where it is)."""
    n_gpus = max((int(r.machine.get("n_gpus", 1)) for r in records), default=1)
    held = ("launch_s", "measure_s", "stop_s")
    seconds = sum(r.timings.get(name, 0.0) for r in records for name in held)
    return seconds * n_gpus / 3600
