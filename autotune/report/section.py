"""A section of the report: a title, what it says, and its figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from autotune.report.figure import Figure
from autotune.report.html import Child, Safe, tag


@dataclass(frozen=True, slots=True)
class Section:
    """Attributes: ``name`` is the anchor; ``lead`` one or two sentences on how to read it."""

    name: str
    title: str
    lead: str
    body: tuple[Child, ...] = ()
    figures: tuple[Figure, ...] = field(default=())

    def render(self) -> Safe:
        return tag(
            "section",
            tag("h2", self.title, id=f"{self.name}-title"),
            tag("p", self.lead, class_="lead") if self.lead else None,
            self.body,
            [figure.data() for figure in self.figures],
            id=self.name,
            aria_labelledby=f"{self.name}-title",
        )


def side_by_side(figures: Iterable[Figure], *, in_three: bool = False) -> Safe:
    """Figures under their titles, two (or three) in a row where there is room."""
    cells = (tag("div", tag("h3", figure.label), figure.place()) for figure in figures)
    return tag("div", list(cells), class_="side three" if in_three else "side")
