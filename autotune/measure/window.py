"""When a phase measures: after the warm-up, until it has seen enough.

Closed loop: the window opens once C requests are in flight and one turnover of the batch has
passed, and closes while C are still in flight; those are broken off, and their tokens inside the
window still count. So what is measured is constant load, never the ramp or the tail of a burst.

Open loop: the window opens and closes at times that are known beforehand.
"""

from __future__ import annotations

from autotune.measure.plan import PhasePlan
from autotune.measure.records import RequestRecord
from autotune.measure.validity import FAILED_FRAC

_GROWTH = 1.25
"""By how much the sample grows before its interval is looked at again."""
_HOPELESS = 20
"""First requests of an open loop that all failed, after which no more are sent."""
_IN_A_ROW = 2
"""Looks that must find the interval narrow: one lucky look would end phases too early."""


class Window:
    """Opens and closes as requests end. Times are server seconds.

    Args:
        began_s: when the phase began.
    """

    def __init__(self, plan: PhasePlan, began_s: float) -> None:
        self.opened_s: float | None = None
        self.closed_s: float | None = None
        self._plan, self._began_s = plan, began_s
        self._n_ended = self._n_failed = self._n_inside = self._n_narrow = 0
        self._look_at = plan.n_requests if plan.min_requests is None else plan.min_requests

    @property
    def span(self) -> tuple[float, float] | None:
        """Begin and end; None while it is open or was never opened."""
        if self.opened_s is None or self.closed_s is None:
            return None
        return self.opened_s, self.closed_s

    def share(self, at_s: float) -> float:
        """How much of the phase is measured, in [0, 1]; it may end earlier than at 1."""
        if self.opened_s is None:
            return 0.0
        plan = self._plan
        by_time = (at_s - self.opened_s) / plan.max_window_s
        return min(1.0, max(self._n_inside / plan.n_requests, by_time))

    @property
    def is_due(self) -> bool:
        """Whether the sample has grown enough to look at its interval again."""
        is_open = self.opened_s is not None and self.closed_s is None
        return is_open and self._plan.precision_frac is not None and self._n_inside >= self._look_at

    def take(self, record: RequestRecord) -> None:
        """Counts a request that ended: opens after the warm-up, closes after the last wanted one.

        It also closes once so many requests have failed that the phase cannot count any more, and
        at the first one that the server let hang: each further one would hold for the whole stall
        time. An open loop cannot know how many are still to come, and gives up where none of its
        first ones came back.
        """
        plan, now_s = self._plan, record.done_s
        self._n_ended += 1
        self._n_failed += record.failed
        if record.hung or self._is_hopeless:
            self.close(now_s)
        elif plan.open_loop:
            self.pass_time(now_s)
        elif self.opened_s is None:
            is_late = now_s - self._began_s >= plan.max_warm_s
            if self._n_ended >= (2 if is_late else plan.n_warm):
                self.open(now_s)
        else:
            self._n_inside += 1
            is_late = now_s - self.opened_s >= plan.max_window_s
            if is_late or self._n_inside >= plan.n_requests:
                self.close(now_s)

    @property
    def _is_hopeless(self) -> bool:
        plan = self._plan
        if plan.open_loop:
            return self._n_failed == self._n_ended >= _HOPELESS
        return self._n_failed > FAILED_FRAC * (plan.n_warm + plan.n_requests)

    def pass_time(self, now_s: float) -> None:
        """Opens and closes the window of an open loop, at the moments its plan says."""
        opens_s = self._began_s + self._plan.max_warm_s
        closes_s = opens_s + self._plan.max_window_s
        if now_s >= opens_s:
            self.open(opens_s)
        if now_s >= closes_s:
            self.close(closes_s)

    def open(self, at_s: float) -> None:
        self.opened_s = at_s if self.opened_s is None else self.opened_s

    def close(self, at_s: float) -> None:
        self.closed_s = at_s if self.closed_s is None else self.closed_s

    def judge(self, half_width_frac: float, at_s: float) -> None:
        """Takes the precision reached at ``at_s``; closes there once it is twice good enough."""
        target = self._plan.precision_frac
        assert target is not None
        self._look_at = max(self._look_at + 1, int(self._n_inside * _GROWTH))
        self._n_narrow = self._n_narrow + 1 if half_width_frac <= target else 0
        if self._n_narrow >= _IN_A_ROW:
            self.close(at_s)
