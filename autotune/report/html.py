"""HTML from values: every text is escaped unless it was built here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

VOID = frozenset({"input", "meta", "br", "hr"})


class Safe(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: str | int | float | None) -> Safe:
    """An element; ``class_`` and ``data_x`` become ``class`` and ``data-x``, None leaves out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{escape(str(value))}"')
    opened = f"<{' '.join(words)}>"
    return Safe(opened) if name in VOID else Safe(f"{opened}{text(children)}</{name}>")


def text(child: Child) -> Safe:
    """A text, escaped, or several one after the other; None is nothing."""
    if child is None:
        return Safe("")
    if isinstance(child, Safe):
        return child
    if isinstance(child, str):
        return Safe(escape(child))
    return Safe("".join(text(each) for each in child))


def table(head: Iterable[Child], rows: Iterable[Iterable[Child]], caption: str) -> Safe:
    """A table whose first cell of each row names it; wide ones scroll by themselves."""
    titles = tag("thead", tag("tr", [_title(title) for title in head]))
    body = tag("tbody", [_row(row) for row in rows])
    return scrolling(caption, titles, body)


def scrolling(caption: str, *parts: Child, tall: bool = False, **attributes: str) -> Safe:
    """A table of head and bodies in a place that scrolls by itself, also with the keyboard.

    Args:
        tall: it has so many rows that they scroll, too.
    """
    whole = tag("table", tag("caption", caption), *parts, **attributes)
    return tag("div", whole, class_="scroll tall" if tall else "scroll", tabindex="0",
               role="region", aria_label=caption)  # fmt: skip


def _title(title: Child) -> Safe:
    is_cell = isinstance(title, Safe) and title.startswith("<th")
    return Safe(title) if is_cell else tag("th", title, scope="col")


def _row(cells: Iterable[Child]) -> Safe:
    first, *rest = cells
    return tag("tr", tag("th", first, scope="row"), [_cell(cell) for cell in rest])


def _cell(cell: Child) -> Safe:
    return cell if isinstance(cell, Safe) and cell.startswith("<td") else tag("td", cell)
