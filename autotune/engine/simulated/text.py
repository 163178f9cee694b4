"""Tokens and text of the simulated model: a small tokeniser, and answers that do not loop.

The tokeniser is reversible for the text made here: joining tokens and splitting again gives the
same tokens, so the token counts of a conversation add up from turn to turn.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from statistics import NormalDist

from autotune.engine.simulated.prefix_cache import Piece

PIECE_TOK = 32
VOCABULARY = 151_936
_TOKEN = re.compile(r" ?[A-Za-z]{1,8}| ?\d{1,3}| ?[^\sA-Za-z\d]|\s")
_TAPE_TOK = 60_000
_LOOP_FROM_TOK = 40
_LOOP_TOK = 12
_WORDS = """
read write parse build check index value result error retry cache token batch queue limit server
client stream async return yield raise import class method field table column query insert update
delete commit branch merge patch review config option default launch signal process thread memory
buffer socket packet header body status reason length offset window slice range filter reduce map
fold group order sort match split join trim replace format print trace debug warn report metric
count total mean median bound lower upper first last next prior parent child node edge graph path
root leaf depth width height weight score rank level stage phase step trial study sample draw seed
noise model layer head gate expert router kernel tensor shape stride device host driver module
test assert expect given when then because although therefore however the a an of to in for with
from by on at as is are was were be been has have had will would can could should may must not and
or but if else while until before after during between over under again once here there where
which that this these those each every some any few many more most other such only same than very
just also into out
""".split()
_MARKS = (",", ".", ":", ";", "(", ")", "=", "\n", " {", " }", " [", "]", " 1", " 2", " 8", " 64")


@lru_cache(maxsize=1)
def _tape() -> tuple[str, ...]:
    rng = Random(7)
    words = [" " + word for word in _WORDS if len(word) <= 8]
    return tuple(
        rng.choice(_MARKS) if rng.random() < 0.18 else rng.choice(words) for _ in range(_TAPE_TOK)
    )


def tokenize(text: str) -> list[str]:
    """Splits text into tokens of at most 8 characters."""
    return _TOKEN.findall(text)


def token_ids(tokens: Sequence[str]) -> list[int]:
    """Stable ids, in [0, VOCABULARY)."""
    return [zlib.crc32(token.encode()) % VOCABULARY for token in tokens]


@lru_cache(maxsize=8192)
def pieces_of(text: str) -> tuple[Piece, ...]:
    """The text as cache pieces of at most ``PIECE_TOK`` tokens."""
    tokens = tokenize(text)
    chunks = (tokens[i : i + PIECE_TOK] for i in range(0, len(tokens), PIECE_TOK))
    return tuple(Piece(hash("".join(chunk)), len(chunk)) for chunk in chunks)


def pieces_of_ids(ids: Sequence[int]) -> tuple[Piece, ...]:
    """As ``pieces_of``, for a prompt given as token ids."""
    chunks = (tuple(ids[i : i + PIECE_TOK]) for i in range(0, len(ids), PIECE_TOK))
    return tuple(Piece(hash(chunk), len(chunk)) for chunk in chunks)


def answer_length(prompt_seed: int, max_tok: int) -> int:
    """Natural length of an answer: lognormal, median 216 tokens, sigma 0.85, at least 16.

    The distribution is that of turns of recorded coding-agent sessions. The same prompt always
    gets the same length, so that trials are paired.
    """
    uniform = Random(prompt_seed).uniform(1e-6, 1 - 1e-6)
    natural = 216.0 * math.exp(0.85 * NormalDist().inv_cdf(uniform))
    return max(1, min(max_tok, max(16, round(natural))))


def falls_into_a_loop(prompt_seed: int, share: float) -> bool:
    """Whether the answer to this prompt is one of the share that never comes to an end."""
    return Random(prompt_seed ^ 0x100B).random() < share


def answer_tokens(prompt_seed: int, n_tok: int, *, loops: bool = False) -> list[str]:
    """The answer to a prompt, as tokens: a slice of a long varied text, different per prompt.

    Args:
        loops: after some tokens it says the same few again and again.
    """
    if loops and n_tok > _LOOP_FROM_TOK:
        lead = answer_tokens(prompt_seed, _LOOP_FROM_TOK)
        return (lead + lead[-_LOOP_TOK:] * (n_tok // _LOOP_TOK))[:n_tok]
    tape = _tape()
    start = Random(prompt_seed ^ 0x5EED).randrange(_TAPE_TOK)
    wrapped = tape[start : start + n_tok]
    while len(wrapped) < n_tok:
        wrapped += tape[: n_tok - len(wrapped)]
    return list(wrapped)
