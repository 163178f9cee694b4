"""What is wrong with a row, in the words of the file instead of the parser."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from autotune.errors import nearest

_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_EXPECTED = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`)?( [<>]=? \S+)?")
_MISSING = re.compile(r"Object missing required field `([^`]+)`")
_PLACE = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`")
_MALFORMED = re.compile(r"JSON is malformed: (.+) \(byte (\d+)\)")


class BadRow(ValueError):
    """A row that cannot be used: why, and what to do about it.

    Args:
        reason: what is wrong, without the place.
        hint: what to do next.
        n_lines_down: how far below its first line a long row is wrong.
    """

    def __init__(self, reason: str, hint: str = "", n_lines_down: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.n_lines_down = n_lines_down


class BadText(BadRow):
    """Text that is not JSON from this line on, so that nothing after it can be read."""

    def __init__(self, line: int, reason: str, hint: str = "") -> None:
        super().__init__(reason, hint)
        self.line = line


def reason_of(error: Exception, raw: bytes) -> BadRow:
    """What msgspec found wrong with ``raw``."""
    text = str(error)
    place = _PLACE.search(text)
    where = place.group(1) if place else ""
    if isinstance(error, UnicodeDecodeError) or "UTF-8" in text:
        return BadRow("not UTF-8 text")
    if missing := _MISSING.match(text):
        return _missing(missing.group(1), where, raw)
    if expected := _EXPECTED.match(text):
        return _unexpected(expected, where, raw)
    if "out of range" in text:
        return BadRow(f"{where or 'a number'} is out of range: whole numbers have 64 bits")
    if "truncated" in text:
        return BadRow(
            "the row is cut off", "the file may still be written, or its copy ended early"
        )
    if malformed := _MALFORMED.match(text):
        at = int(malformed.group(2))
        column = at - raw.rfind(b"\n", 0, at)
        lines_down = raw.count(b"\n", 0, at)
        return BadRow(f"not JSON at column {column}: {malformed.group(1)}", n_lines_down=lines_down)
    return BadRow(text)


def _missing(field: str, where: str, raw: bytes) -> BadRow:
    inside = f" in {where}" if where else ""
    keys = _keys(raw) if not where else []
    close = nearest(field, keys) if keys else ""
    if close.startswith("did you mean"):
        return BadRow(f"there is no {field!r}{inside}: {close}")
    has = f"; the row has {', '.join(map(repr, keys[:8]))}" if keys else ""
    return BadRow(f"there is no {field!r}{inside}{has}")


def _unexpected(expected: re.Match[str], where: str, raw: bytes) -> BadRow:
    kind, got, bound = expected.groups()
    wanted = " or ".join(_TYPES.get(part, part) for part in kind.split(" | "))
    if bound:
        wanted += f"{bound.replace('>=', 'of at least').replace('<=', 'of at most')}"
    instead = f", not {_TYPES.get(got, got)}" if got else ""
    return BadRow(f"{where or 'a row'} must be {wanted}{instead}")


def _keys(raw: bytes) -> list[str]:
    try:
        row: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    return list(row) if isinstance(row, dict) else []
