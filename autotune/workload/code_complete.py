"""The built-in completion workload: source to be continued, arriving in bursts.

Lengths are those of the Azure 2023 code trace (CC-BY): prompts of 1,469 tokens in the median, 2,048
in the mean and 5,188 at nine tenths; answers of 13, 27.9 and 55. The trace's 8,819 requests came in
57 minutes, their gaps with a coefficient of variation of 13.2.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from math import log

from autotune.workload.model import Session, Turn, Workload
from autotune.workload.quantiles import at_quantile
from autotune.workload.room import chars_of
from autotune.workload.text import languages
from autotune.workload.text.pen import Pen
from autotune.workload.text.python import python_file

# The lowest and the highest value are chosen so that the mean comes out as published.
_INPUT_TOK = {0.0: 70.0, 0.5: 1469.0, 0.9: 5188.0, 0.99: 7436.0, 1.0: 7600.0}
_OUTPUT_TOK = {0.0: 2.0, 0.5: 13.0, 0.9: 55.0, 0.99: 251.0, 1.0: 500.0}
_LONGEST_TOK = 12_288
_MAX_OUTPUT_TOK = 64
_REFERENCE_OUTPUT_TOK = 13

_MEAN_GAP_S = 0.388
_PER_BLOCK = 4_000
"""Sessions whose arrivals are drawn together, so that each one's is known without all before it."""
_N_PAUSES = 26
"""Long gaps of a block, at most: so few that the gaps are as uneven as recorded."""
_PAUSE_FRAC = 0.75
"""Share of the time that they take; in the rest the requests come four times as fast as on average.
"""


def code_complete(seed: int = 0) -> Workload:
    """Source that breaks off, one request a session, at the times of ``start_s``."""

    def session(number: int, context_tok: int | None) -> Session:
        return _session(seed, number, min(context_tok or _LONGEST_TOK, _LONGEST_TOK))

    title = "code completion in bursts"
    return Workload("code-complete", title, _REFERENCE_OUTPUT_TOK, 0.2, session)


def _session(seed: int, number: int, context_tok: int) -> Session:
    pen = Pen(f"code-complete:{seed}:{number}")
    max_output_tok = min(_MAX_OUTPUT_TOK, max(1, context_tok // 16))
    n_output_tok = min(max_output_tok, round(at_quantile(_OUTPUT_TOK, pen.draw())))
    # A tokeniser that splits finer must still find room for the answer.
    n_input_tok = min(at_quantile(_INPUT_TOK, pen.draw()), context_tok * 0.7)
    mark, write = pen.pick(_FILES)
    asked = f"{mark} {pen.pick(_ORDERS)}\n"
    n_answer = chars_of(n_output_tok)
    n_chars = max(1, chars_of(n_input_tok) - len(asked))
    source = write(pen, n_chars + n_answer)
    cut = max(1, min(n_chars, len(source) - n_answer))
    turn = Turn(
        ({"role": "user", "content": asked + source[:cut]},),
        max_output_tok,
        answer=source[cut : cut + n_answer],
        n_output_tok=n_output_tok,
    )
    block, place = divmod(number, _PER_BLOCK)
    start_s = block * _PER_BLOCK * _MEAN_GAP_S + _arrivals(seed, block)[place]
    return Session((turn,), start_s=round(start_s, 4))


@lru_cache(maxsize=4)  # a replay goes through a block, then through the next one
def _arrivals(seed: int, block: int) -> tuple[float, ...]:
    """Seconds from the begin of a block to each of its sessions: bursts with pauses between."""
    pen = Pen(f"arrivals:{seed}:{block}")
    pauses = {pen.number(0, _PER_BLOCK - 1) for _ in range(_N_PAUSES)}
    gaps = [-log(1.0 - pen.draw()) for _ in range(_PER_BLOCK)]
    paused = sum(gaps[place] for place in pauses)
    length_s = _PER_BLOCK * _MEAN_GAP_S
    pause_s = length_s * _PAUSE_FRAC / paused
    burst_s = length_s * (1 - _PAUSE_FRAC) / (sum(gaps) - paused)
    scaled = (gap * (pause_s if place in pauses else burst_s) for place, gap in enumerate(gaps))
    return tuple(accumulate(scaled))


_FILES = (
    ("#", python_file), ("#", python_file), ("#", python_file), ("//", languages.typescript),
    ("//", languages.typescript), ("//", languages.rust), ("//", languages.go),
    ("--", languages.sql), ("#", languages.yaml),
)  # fmt: skip
_ORDERS = (
    "Continue this file where it stops. Answer with the next line only.",
    "Complete the statement at the end; nothing but source, please.",
    "Write what comes next, up to the end of the line.",
    "The cursor is at the end. Insert the missing piece, without any comment.",
    "Finish the unfinished line. No explanation and no fence.",
)
