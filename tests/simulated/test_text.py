from __future__ import annotations

import itertools
import statistics

from hypothesis import given
from hypothesis import strategies as st

from autotune.engine.simulated import text

seeds = st.integers(0, 2**32 - 1)


@given(st.text(max_size=80))
def test_tokens_join_to_the_text_again(given_text: str) -> None:
    tokens = text.tokenize(given_text)
    assert "".join(tokens) == given_text
    assert all(1 <= len(token) <= 9 for token in tokens)


@given(seeds, st.integers(1, 400))
def test_an_answer_splits_into_the_tokens_it_was_made_of(seed: int, n_tok: int) -> None:
    tokens = text.answer_tokens(seed, n_tok)
    assert len(tokens) == n_tok
    assert text.tokenize("".join(tokens)) == tokens


def test_an_answer_may_be_longer_than_the_tape() -> None:
    assert len(text.answer_tokens(1, 150_000)) == 150_000


@given(st.text("ab c1.", max_size=600))
def test_pieces_hold_every_token_once(given_text: str) -> None:
    pieces = text.pieces_of(given_text)
    assert sum(piece.n_tok for piece in pieces) == len(text.tokenize(given_text))
    assert all(piece.n_tok == text.PIECE_TOK for piece in pieces[:-1])


@given(st.lists(st.integers(0, 9), max_size=100))
def test_pieces_of_ids_hold_every_id_once(ids: list[int]) -> None:
    assert sum(piece.n_tok for piece in text.pieces_of_ids(ids)) == len(ids)


@given(seeds, st.integers(1, 2000))
def test_an_answer_has_one_length_for_one_prompt(seed: int, cap: int) -> None:
    length = text.answer_length(seed, cap)
    assert 1 <= length <= cap
    assert length == min(cap, text.answer_length(seed, 10**9))


def test_answers_are_as_long_as_recorded_turns() -> None:
    lengths = [text.answer_length(seed, 10**9) for seed in range(4000)]
    assert 200 <= statistics.median(lengths) <= 232
    assert min(lengths) >= 16


def test_answers_do_not_loop() -> None:
    tokens = text.answer_tokens(5, 3000)
    grams = list(itertools.pairwise(itertools.pairwise(itertools.pairwise(tokens))))
    assert len(set(grams)) / len(grams) > 0.95


@given(st.lists(st.text(max_size=9), max_size=20))
def test_ids_are_stable_and_in_the_vocabulary(tokens: list[str]) -> None:
    ids = text.token_ids(tokens)
    assert ids == text.token_ids(list(tokens))
    assert all(0 <= i < text.VOCABULARY for i in ids)
