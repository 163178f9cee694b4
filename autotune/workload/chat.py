"""The built-in chat workload: questions of many kinds at the lengths of a public chat service.

Lengths are those of the Azure 2023 conversation trace (CC-BY): prompts of 1,020 tokens in the
median, 1,155 in the mean and 2,734 at nine tenths; answers of 129, 211 and 424. The trace knows no
sessions: 1 to 3 turns are a guess, and every turn's whole prompt follows the trace.
"""

from __future__ import annotations

from autotune.workload.model import Message, Session, Turn, Workload
from autotune.workload.quantiles import at_quantile
from autotune.workload.room import PROSE_CHARS_PER_TOK, Room, chars_of
from autotune.workload.text import questions
from autotune.workload.text.pen import Pen

# The lowest and the highest value are chosen so that the mean comes out as published.
_INPUT_TOK = {0.0: 10.0, 0.5: 1020.0, 0.9: 2734.0, 0.99: 4142.0, 1.0: 4500.0}
_OUTPUT_TOK = {0.0: 40.0, 0.5: 129.0, 0.9: 424.0, 0.99: 601.0, 1.0: 700.0}
_LONGEST_TOK = 8_192
"""Tokens of prompt and answer that no session exceeds; a smaller context cuts the longest off."""
_MAX_OUTPUT_TOK = 512
_REFERENCE_OUTPUT_TOK = 129
_N_TURNS = (1, 1, 1, 2, 2, 3)
_GAP_S = (45.0, 1.0)
_SHORTEST_CHARS = 40


def chat(seed: int = 0) -> Workload:
    """Questions, one to three a session."""

    def session(number: int, context_tok: int | None) -> Session:
        return _session(seed, number, min(context_tok or _LONGEST_TOK, _LONGEST_TOK))

    return Workload("chat", "questions and answers", _REFERENCE_OUTPUT_TOK, 0.7, session)


def _session(seed: int, number: int, context_tok: int) -> Session:
    pen = Pen(f"chat:{seed}:{number}")
    max_output_tok = min(_MAX_OUTPUT_TOK, max(1, context_tok // 8))
    room, most_chars = Room(context_tok, max_output_tok), _chars(context_tok * 0.5)
    # In ascending order, as a conversation grows, every prompt is a fair draw from the trace.
    wanted = sorted(at_quantile(_INPUT_TOK, pen.draw()) for _ in range(pen.pick(_N_TURNS)))
    turns: list[Turn] = []
    said_chars = 0
    for prompt_tok in wanted:
        before = (turns[-1].answer or "",) if turns else ()
        n_chars = min(most_chars, _chars(prompt_tok)) - said_chars - sum(map(len, before))
        ask = questions.follow_up if turns else questions.question
        asked = ask(pen, max(_SHORTEST_CHARS, n_chars))
        while not (turns or room.fits(asked)) and n_chars > _SHORTEST_CHARS:
            n_chars //= 2  # a table or a log has more tokens than prose of its length
            asked = ask(pen, max(_SHORTEST_CHARS, n_chars))
        if turns and not room.fits(*before, asked):
            break
        room.take(*before, asked)
        said_chars += sum(map(len, before)) + len(asked)
        turns.append(_turn(pen, asked, max_output_tok, is_first=not turns))
    return Session(tuple(turns))


def _chars(n_tok: float) -> int:
    return chars_of(n_tok, PROSE_CHARS_PER_TOK)


def _turn(pen: Pen, asked: str, max_output_tok: int, *, is_first: bool) -> Turn:
    message: Message = {"role": "user", "content": asked}
    n_tok = min(max_output_tok, round(at_quantile(_OUTPUT_TOK, pen.draw())))
    return Turn(
        (message,),
        max_output_tok,
        gap_s=0.0 if is_first else round(pen.lognormal(*_GAP_S), 2),
        gap_kind="human",
        answer=questions.reply(pen, _chars(n_tok)),
        n_output_tok=n_tok,
    )
