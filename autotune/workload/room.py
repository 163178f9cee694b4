"""How much text fits a context, where nobody knows the tokeniser."""

from __future__ import annotations

CODE_CHARS_PER_TOK = 3.8
"""Characters per token of sessions about code: what sizes are aimed with (3.5 to 4.3 with Qwen's
tokeniser)."""
PROSE_CHARS_PER_TOK = 4.4
"""The same of conversations (3.3 to 5.0)."""
FEWEST_CHARS_PER_TOK = 3.0
"""What sizes are checked with, outside of numbers: no tokeniser that splits finer is expected."""
_MESSAGE_TOK = 8
"""Tokens of the chat template around a message, at most."""


def chars_of(n_tok: float, chars_per_tok: float = CODE_CHARS_PER_TOK) -> int:
    """Characters that make about so many tokens."""
    return max(1, round(n_tok * chars_per_tok))


class Room:
    """The part of a context that is still free, counted so that it suffices for any tokeniser.

    Args:
        context_tok: tokens that prompt and answer may have together.
        max_output_tok: tokens of it that must stay free for the answer.
    """

    def __init__(self, context_tok: int, max_output_tok: int) -> None:
        self._left_tok = float(context_tok - max_output_tok)

    def fits(self, *texts: str) -> bool:
        """Whether these messages still fit."""
        return _tok(texts) <= self._left_tok

    def take(self, *texts: str) -> None:
        """Uses room for these messages."""
        self._left_tok -= _tok(texts)


def _tok(texts: tuple[str, ...]) -> float:
    """Tokens at most: some tokenisers, as Qwen's, give every digit one of its own."""
    n_digits = sum(text.count(digit) for text in texts for digit in "0123456789")
    n_others = sum(len(text) for text in texts) - n_digits
    return n_digits + n_others / FEWEST_CHARS_PER_TOK + _MESSAGE_TOK * len(texts)
