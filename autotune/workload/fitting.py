"""Cuts recorded sessions to the context of a server.

A session ends before the first turn that does not fit. A first prompt that does not fit is
shortened: of a length-only one the end is left out, of a text the middle of its longest message. So
every session of a file can be sent to any server, always cut in the same way; the price is that
prompts pile up at the limit where a trace was recorded with a larger one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from autotune.workload.lengths import CHARS_PER_TOK, LengthSession
from autotune.workload.model import Message, Session, Turn
from autotune.workload.room import FEWEST_CHARS_PER_TOK

_CUT_MARK = "\n[…]\n"
_MIN_OUTPUT_FRAC = 0.25
"""Share of the context that an answer may take at most: what is asked for above it is capped."""
_DENSE_CHARS_PER_TOK = 3.3
"""Characters per token of the densest long prompt that is written for a length."""
_MESSAGE_TOK = 8
"""Tokens of the chat template around a message, at most."""


def fitted_lengths(session: LengthSession, context_tok: int | None) -> LengthSession:
    """The session with the requests that fit, should the tokeniser split as fine as any does."""
    if context_tok is None:
        return session
    most_out = max(1, int(context_tok * _MIN_OUTPUT_FRAC))

    def room(n_output_tok: int) -> int:
        free_tok = context_tok - _MESSAGE_TOK - min(n_output_tok, most_out)
        return max(1, int(free_tok * _DENSE_CHARS_PER_TOK / CHARS_PER_TOK))

    first = session.requests[0]
    kept = list(
        takewhile(
            lambda request: request.n_input_tok <= room(request.n_output_tok), session.requests
        )
    ) or [msgspec.structs.replace(first, n_input_tok=room(first.n_output_tok))]
    capped = [
        msgspec.structs.replace(request, n_output_tok=min(request.n_output_tok, most_out))
        for request in kept
    ]
    return msgspec.structs.replace(session, requests=tuple(capped))


def fitted(session: Session, context_tok: int | None) -> Session:
    """The session with the turns that fit, by the lengths of its texts and recorded answers."""
    if context_tok is None:
        return session
    most_out = max(1, int(context_tok * _MIN_OUTPUT_FRAC))
    extra_tok = n_chars(session.extra.get("tools")) / FEWEST_CHARS_PER_TOK
    kept: list[Turn] = []
    said_tok = extra_tok
    for turn in session.turns:
        cap = min(turn.max_output_tok, most_out)
        said_tok = (extra_tok if turn.fresh else said_tok) + _tok_of(turn.messages)
        if said_tok + cap > context_tok:
            break
        kept.append(msgspec.structs.replace(turn, max_output_tok=cap))
        said_tok += cap if turn.answer is None else n_chars(turn.answer) / FEWEST_CHARS_PER_TOK
    if not kept:
        first = session.turns[0]
        cap = min(first.max_output_tok, most_out)
        room = context_tok - cap - extra_tok
        kept = [
            msgspec.structs.replace(
                first, messages=_shortened(first.messages, room), max_output_tok=cap
            )
        ]
    return msgspec.structs.replace(session, turns=tuple(kept))


def n_chars(value: object) -> int:
    """Characters of text in a JSON value, names of keys included."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + n_chars(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(map(n_chars, value))
    return 0 if value is None else 4


def _tok_of(messages: Sequence[Message]) -> float:
    return n_chars(messages) / FEWEST_CHARS_PER_TOK + _MESSAGE_TOK * len(messages)


def _shortened(messages: tuple[Message, ...], room_tok: float) -> tuple[Message, ...]:
    """The messages with the middle left out of as many as it takes, the longest ones first."""
    cut = list(messages)
    order = sorted(range(len(cut)), key=lambda i: -n_chars(cut[i].get("content")))
    for place in order:
        excess = int((_tok_of(cut) - room_tok) * FEWEST_CHARS_PER_TOK) + len(_CUT_MARK) + 1
        content = cut[place].get("content")
        if _tok_of(cut) <= room_tok:
            break
        if isinstance(content, str):
            keep = max(1, len(content) - excess)
            tail = keep // 2
            text = content[: keep - tail] + _CUT_MARK + content[len(content) - tail :]
            cut[place] = {**cut[place], "content": text}
    return tuple(cut)
