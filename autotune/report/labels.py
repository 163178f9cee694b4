"""Where the words beside points go, so that no two lie on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_LETTER_PX = 6.2
_LINE_PX = 15.0
_GAP_PX = 11.0
"""From the middle of a point to its words."""
_MARGIN_PX = 20.0
"""Axes reach a little further than the points."""


class Spot(NamedTuple):
    """A place beside a point: plotly's name for it, and its direction; up is positive."""

    name: str
    dx: int
    dy: int


_SPOTS = (
    Spot("top right", 1, 1), Spot("bottom right", 1, -1), Spot("top left", -1, 1),
    Spot("bottom left", -1, -1), Spot("top center", 0, 1), Spot("bottom center", 0, -1),
    Spot("middle right", 1, 0), Spot("middle left", -1, 0),
)  # fmt: skip
"""Corners first: they are clear of the error bars."""

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in pixels."""


class Frame(NamedTuple):
    """The part of a figure that holds the points, in the units of its axes and in pixels."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    width_px: float = 1050.0
    height_px: float = 400.0

    def place(self, x: float, y: float) -> tuple[float, float]:
        wide, high = self.high_x - self.low_x or 1.0, self.high_y - self.low_y or 1.0
        return (
            (x - self.low_x) / wide * self.width_px,
            (y - self.low_y) / high * self.height_px,
        )


def spots(
    points: Sequence[tuple[float, float]],
    texts: Sequence[str],
    frame: Frame,
    others: Sequence[tuple[float, float]] = (),
) -> list[str | None]:
    """A place for the words of each point, or None where there is none left.

    Earlier points choose first; words keep clear of all points, theirs and ``others``.

    Args:
        points: in the units of the axes.
    """
    placed = [frame.place(*point) for point in points]
    taken: list[Box] = [_around(at) for at in (*placed, *(frame.place(*o) for o in others))]
    chosen: list[str | None] = []
    for at, text in zip(placed, texts, strict=True):
        found = _free(at, text, [box for box in taken if box != _around(at)], frame)
        chosen.append(found[0] if found else None)
        if found:
            taken.append(found[1])
    return chosen


def _free(
    at: tuple[float, float], text: str, taken: Sequence[Box], frame: Frame
) -> tuple[str, Box] | None:
    for spot in _SPOTS:
        box = _box(at, text, spot)
        inside = box[0] > -_MARGIN_PX and box[2] < frame.width_px + _MARGIN_PX
        if inside and not any(_overlap(box, other) for other in taken):
            return spot.name, box
    return None


def _around(at: tuple[float, float]) -> Box:
    return at[0] - 6, at[1] - 6, at[0] + 6, at[1] + 6


def _box(at: tuple[float, float], text: str, spot: Spot) -> Box:
    width = _LETTER_PX * len(text)
    x, y = at[0] + spot.dx * (width / 2 + 3), at[1] + spot.dy * _GAP_PX
    if spot.dy == 0:
        x += spot.dx * _GAP_PX
    return x - width / 2, y - _LINE_PX / 2, x + width / 2, y + _LINE_PX / 2


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
