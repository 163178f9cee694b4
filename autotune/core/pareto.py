"""Which trials nobody beats at both goals, and which of them is a good compromise."""

from __future__ import annotations

from collections.abc import Sequence

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
