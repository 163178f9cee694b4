"""Words beside points never lie on each other or on a point."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from autotune.report.labels import _SPOTS, Frame, _around, _box, _overlap, spots

POINTS = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=25)
FRAME = Frame(0.0, 1.0, 0.0, 1.0)
TEXT = "4-1-5 · 0.93"


@given(POINTS)
def test_no_words_lie_on_words_or_on_other_points(points: list[tuple[float, float]]) -> None:
    found = spots(points, [TEXT] * len(points), FRAME)
    by_name = {spot.name: spot for spot in _SPOTS}
    boxes = [
        (i, _box(FRAME.place(*points[i]), TEXT, by_name[name]))
        for i, name in enumerate(found)
        if name is not None
    ]
    for (_, a), (_, b) in itertools.combinations(boxes, 2):
        assert not _overlap(a, b)
    for i, box in boxes:
        others = (_around(FRAME.place(*p)) for p in points)
        assert not any(_overlap(box, other) for other in others if other != _around(
            FRAME.place(*points[i])))  # fmt: skip


def test_a_point_alone_has_its_words_and_a_crowd_does_not_shout() -> None:
    assert spots([(0.5, 0.5)], [TEXT], FRAME) == ["top right"]
    crowd = [(0.5 + i / 1000, 0.5 + i / 1000) for i in range(25)]
    assert sum(name is not None for name in spots(crowd, [TEXT] * 25, FRAME)) < 8


def test_one_value_of_all_points_is_no_division_by_zero() -> None:
    frame = Frame(1.0, 1.0, 2.0, 2.0)
    assert spots([(1.0, 2.0)], [TEXT], frame) == ["top right"]
