"""What the confirm stage found, kept in the study's storage for whoever reads it.

The search compares many configurations on a launch or two each, so that its best value is partly
luck. The confirm stage launches only the finalists and the baseline, afresh and in turns, on
prompts that the search has not seen, and its values are compared with nothing but each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from autotune.core.objective import Objective, gain_pct
from autotune.core.repeats import Verdict
from autotune.core.trial import Interval, TrialRecord

ATTRIBUTE = "confirmation"
"""Name of the Optuna study's user attribute."""
PLACE = "confirm"
"""Name of the user attribute of a confirm launch's trial."""


class Place(msgspec.Struct, frozen=True):
    """Which part of a confirm stage a launch is.

    Attributes:
        winner: the trial that the stage is about.
        configuration: the trial whose flags are launched: a finalist's or the baseline's.
        round: 0, 1, 2, …; each configuration is launched once in each.
    """

    winner: int
    configuration: int
    round: int


@dataclass(frozen=True, slots=True)
class ConfirmLaunch:
    """One launch of a confirm stage."""

    place: Place
    record: TrialRecord


class Finalist(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration on its fresh launches, against the baseline on its own.

    Attributes:
        trial: its first launch in the search.
        launches: trials of its fresh launches that carry values.
        gain: of the score against the baseline, as a fraction; None: a side has no values yet.
        latency_s, throughput_tok_s: over the fresh launches; None without any.
        verdict: of the gain; at most ``inconclusive`` where there are doubts.
        doubts: fresh launches that failed or missed a constraint, a sentence each.
    """

    trial: int
    launches: tuple[int, ...] = ()
    gain: Interval | None = None
    latency_s: Interval | None = None
    throughput_tok_s: Interval | None = None
    verdict: Verdict = "inconclusive"
    doubts: tuple[str, ...] = ()

    @property
    def gain_pct(self) -> float:
        """Percent gained over the baseline; 0 where nothing is known."""
        return 100 * self.gain.value if self.gain else 0.0

    @property
    def error_pct(self) -> float:
        """From the gain to the end of its 95 % interval that lies nearer zero, in percent points.

        The interval is not quite symmetric, and half of it could seem to hold zero where it
        does not.
        """
        if self.gain is None:
            return 0.0
        gain = self.gain
        return 100 * (gain.value - gain.low if gain.value > 0 else gain.high - gain.value)


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on what a study recommends.

    Attributes:
        winner: the trial that the search recommends.
        baseline: the baseline as a finalist: against itself there is no gain.
        finalists: the winner first.
        use: the trial whose flags to deploy: of configurations that tie, the simpler ones.
        latency_weight: of the objective it was judged for.
        n_each: launches of each configuration that were asked for.
        n_left: launches still to be made.
    """

    winner: int
    baseline: Finalist
    finalists: tuple[Finalist, ...]
    use: int
    latency_weight: float
    n_each: int
    n_left: int = 0

    @property
    def verdict(self) -> Verdict:
        """On the configuration to use, or on the winner where that is the baseline."""
        return self.subject.verdict

    @property
    def subject(self) -> Finalist:
        """The finalist that the verdict is about."""
        return next((f for f in self.finalists if f.trial == self.use), self.finalists[0])

    @property
    def is_confirmed(self) -> bool:
        """Whether the flags to use are better than the baseline beyond the noise, or it itself."""
        if self.use == self.baseline.trial:
            return self.verdict in ("tie", "worse")
        return self.verdict == "better"

    def holds_for(self, winner: int | None, objective: Objective) -> bool:
        """Whether it is about this recommendation of the search, for this objective."""
        return self.winner == winner and self.latency_weight == objective.latency_weight


def confirmation_from(raw: object) -> Confirmation | None:
    """The confirmation in a user attribute; None where it is none that this version reads."""
    try:
        return msgspec.convert(raw, Confirmation)
    except msgspec.ValidationError:
        return None


def to_dict(confirmation: Confirmation) -> dict[str, Any]:
    """For programs: as it is kept, with what follows from it."""
    plain: dict[str, Any] = msgspec.to_builtins(confirmation)
    return plain | {"verdict": confirmation.verdict, "is_confirmed": confirmation.is_confirmed}


def as_gain(difference: Interval) -> Interval:
    """A difference of scores as the fraction gained."""
    values = (difference.value, difference.low, difference.high)
    return Interval(*(gain_pct(x) / 100 for x in values))
