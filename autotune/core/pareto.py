"""Which trials nobody beats at both goals, how sure that is, and which is a good compromise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autotune.core.compare import is_tie
from autotune.core.trial import Interval

Point = tuple[float, float]
"""(latency in seconds, smaller is better; throughput in tokens/s, larger is better)."""


def dominates(a: Point, b: Point) -> bool:
    """True where ``a`` is at least as good as ``b`` at both goals and better at one."""
    return a[0] <= b[0] and a[1] >= b[1] and a != b


def front(points: Sequence[Point]) -> list[int]:
    """Indices of the points that no other dominates, by rising latency; twins count once."""
    order = sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1], i))
    chosen: list[int] = []
    best_throughput = float("-inf")
    for i in order:
        if points[i][1] > best_throughput:
            chosen.append(i)
            best_throughput = points[i][1]
    return chosen


class Region(NamedTuple):
    """Where a configuration may truly stand: both goals with their 95 % intervals, values > 0."""

    latency_s: Interval
    throughput_tok_s: Interval

    @property
    def point(self) -> Point:
        """What was measured."""
        return self.latency_s.value, self.throughput_tok_s.value


def same(a: Region, b: Region) -> bool:
    """Whether the measurements can tell the two apart at neither goal."""
    return is_tie(a.latency_s, b.latency_s) and is_tie(a.throughput_tok_s, b.throughput_tok_s)


def dominates_for_sure(a: Region, b: Region) -> bool:
    """As ``dominates``, by more than the noise at one goal at least."""
    return dominates(a.point, b.point) and not same(a, b)


def uncertain_front(regions: Sequence[Region]) -> list[int]:
    """Indices of the front, and of what only noise may keep off it, by rising latency.

    A configuration is kept off for sure where some member of the front dominates it by more than
    the noise. The front itself is always part of the result.
    """
    members = front([region.point for region in regions])
    on_it = set(members)

    def may_stand(i: int) -> bool:
        return not any(dominates_for_sure(regions[m], regions[i]) for m in members)

    kept = [i for i in range(len(regions)) if i in on_it or may_stand(i)]
    return sorted(kept, key=lambda i: (regions[i].point[0], -regions[i].point[1], i))


class WeightRange(NamedTuple):
    """``member`` has the highest score for latency weights from ``low`` to ``high``, in [0, 1]."""

    member: int
    low: float
    high: float


def weight_ranges(gains: Sequence[Point]) -> list[WeightRange]:
    """Who wins under which weight, by rising weight: exact, since scores are linear in it.

    Args:
        gains: of each configuration ``(a, b)``: its score is ``w a + (1 - w) b``.
    """
    if not gains:
        return []
    rises = [a - b for a, b in gains]
    ranges: list[WeightRange] = []
    low, now = 0.0, max(range(len(gains)), key=lambda i: (gains[i][1], gains[i][0], -i))
    while low < 1.0:
        steeper = [
            (max(low, (gains[now][1] - gains[i][1]) / (rise - rises[now])), -rise, i)
            for i, rise in enumerate(rises)
            if rise > rises[now]
        ]
        high, _, following = min(steeper, default=(1.0, 0.0, now))
        if min(high, 1.0) > low:
            ranges.append(WeightRange(now, low, min(high, 1.0)))
        low, now = min(high, 1.0), following
    return ranges


def knee(points: Sequence[Point]) -> int | None:
    """Index of the front point farthest from the chord between the front's ends.

    Both axes are scaled to the front's own range first. A front of one or two points has no bend:
    the first is returned; None without points.
    """
    members = front(points)
    if not members:
        return None
    (lat0, thr0), (lat1, thr1) = points[members[0]], points[members[-1]]
    width, height = lat1 - lat0, thr1 - thr0
    if len(members) < 3 or width <= 0 or height <= 0:
        return members[0]

    def bulge(i: int) -> float:
        return (points[i][1] - thr0) / height - (points[i][0] - lat0) / width

    return max(members, key=bulge)


def hypervolume(points: Sequence[Point], reference: Point) -> float:
    """Area dominated by the points and bounded by ``reference``, in seconds times tokens/s."""
    area, floor = 0.0, reference[1]
    for i in front(points):
        latency, throughput = points[i]
        if latency < reference[0] and throughput > floor:
            area += (reference[0] - latency) * (throughput - floor)
            floor = throughput
    return area
