"""Reads a long JSON array element by element, and the beginning of any JSON text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Any

from autotune.workload.readers.complaint import BadText

_CHUNK_CHARS = 2**20
_SPACE = re.compile(r"[ \t\r\n]*")
_LONGEST_WORD = 16
"""An error this close to the end of the buffer may be a word that goes on, such as ``-Inf``."""
_NUMBER_TAIL = 2
"""What may stand between a number that seems to end and its next digit: ``.``, ``e``, ``e-``."""
_decode = JSONDecoder(strict=False).raw_decode


def array_elements(
    read: Callable[[int], str], key: str | None, max_chars: int, chunk_chars: int = _CHUNK_CHARS
) -> Iterator[tuple[int, str]]:
    """Line and text of each element of an array.

    Args:
        read: gives the next so many characters, "" at the end.
        key: the array is the value of this key of the object that the text is; None: it is the
            text itself.
        max_chars: the longest element.
        chunk_chars: how much is read at once.

    Raises:
        BadText: the text is not JSON, has no such array, or ends early.
    """
    window = _Window(read, max_chars, chunk_chars)
    if key is not None:
        _enter(window, key)
    window.expect("[")
    if window.peek() == "]":
        window.expect("]")
    else:
        while True:
            yield window.take()
            if window.peek() == "]":
                window.expect("]")
                break
            window.expect(",")
    if key is None and window.peek():
        raise BadText(window.line, "there is more after the end of the array")


def _enter(window: _Window, key: str) -> None:
    """Moves on to the value of ``key``; the values before it are passed over."""
    window.expect("{")
    while window.peek() == '"':
        _, name = window.take()
        window.expect(":")
        if name == f'"{key}"':
            return
        window.take()
        if window.peek() == "}":
            break
        window.expect(",")
    raise BadText(window.line, f"there is no list {key!r}")


class _Window:
    """The part of the text that is in memory: at most one element and a chunk."""

    def __init__(self, read: Callable[[int], str], max_chars: int, chunk_chars: int) -> None:
        self.line = 1
        self._read = read
        self._max_chars = max_chars
        self._chunk_chars = chunk_chars
        self._text = ""
        self._at = 0
        self._ended = False

    def peek(self) -> str:
        """The next character that is not space; "" at the end."""
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None
            self._move(match.end())
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def expect(self, mark: str) -> None:
        found = self.peek()
        if found != mark:
            raise self._wrong(f"expected {mark!r}, found {found!r}" if found else "cut off")
        self._move(self._at + 1)

    def take(self) -> tuple[int, str]:
        """The next value: line of its start, and its text."""
        self.peek()
        while True:
            try:
                _, end = _decode(self._text, self._at)
            except JSONDecodeError as error:
                self._need_more(error)
            except RecursionError:
                raise self._wrong("nested too deep") from None
            else:
                if len(self._text) - end > _NUMBER_TAIL or not self._more():
                    break
        start, line = self._at, self.line
        self._move(end)
        return line, self._text[start:end]

    def _need_more(self, error: JSONDecodeError) -> None:
        n_left = len(self._text) - error.pos
        in_text = error.msg.startswith("Unterminated string")
        if in_text or n_left <= _LONGEST_WORD:
            if len(self._text) - self._at > self._max_chars:
                raise self._wrong(f"one element is longer than {self._max_chars:,} characters")
            if self._more():
                return
            if in_text or n_left == 0:
                raise self._wrong("the file is cut off in the middle of this element")
        self._move(error.pos)
        raise self._wrong(error.msg[0].lower() + error.msg[1:])

    def _more(self) -> bool:
        """Reads on, twice as much as is held, so that long elements cost no more than twice."""
        n_kept = len(self._text) - self._at
        fresh = "" if self._ended else self._read(max(self._chunk_chars, n_kept))
        if not fresh:
            self._ended = True
            return False
        self._text, self._at = self._text[self._at :] + fresh, 0
        return True

    def _move(self, to: int) -> None:
        self.line += self._text.count("\n", self._at, to)
        self._at = to

    def _wrong(self, reason: str) -> BadText:
        return BadText(self.line, f"not JSON: {reason}" if reason != "cut off" else "cut off")


def beginning(text: str) -> Any:  # noqa: ANN401 (any JSON value)
    """The value that ``text`` begins with, as far as it goes: a cut-off value keeps its start."""
    try:
        return _partial(text, 0)[0]
    except (JSONDecodeError, RecursionError):
        return None


def _partial(text: str, at: int) -> tuple[Any, int]:
    """A value and where it ends; ``len(text)`` where it is cut off."""
    at = _skip(text, at)
    if text[at : at + 1] == "{":
        return _partial_object(text, at + 1)
    if text[at : at + 1] == "[":
        return _partial_array(text, at + 1)
    try:
        return _decode(text, at)
    except JSONDecodeError as error:
        if error.msg.startswith("Unterminated string") or len(text) - at <= _LONGEST_WORD:
            return None, len(text)
        raise


def _partial_array(text: str, at: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while (at := _skip(text, at)) < len(text):
        if text[at] == "]":
            return items, at + 1
        item, at = _partial(text, at)
        items.append(item)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at += 1
    return items, len(text)


def _partial_object(text: str, at: int) -> tuple[dict[str, Any], int]:
    items: dict[str, Any] = {}
    while (at := _skip(text, at)) < len(text):
        if text[at] == "}":
            return items, at + 1
        name, at = _partial(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            break
        items[str(name)], at = _partial(text, at + 1)
        at = _skip(text, at)
        if text[at : at + 1] == ",":
            at += 1
    return items, len(text)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
