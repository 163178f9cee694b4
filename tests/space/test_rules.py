from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.space.rules import (
    chain_draft_tokens,
    draft_range,
    tree_capacity_tok,
    why_rejected,
)

small = st.integers(1, 10)


@pytest.mark.parametrize(
    ("steps", "capacities"),
    [
        (1, {1: 2, 2: 3, 4: 5, 8: 9, 10: 11}),
        (2, {1: 3, 2: 7, 4: 21, 8: 73, 10: 111}),
        (3, {1: 4, 2: 11, 4: 37, 8: 137, 10: 211}),
        (5, {1: 6, 2: 19, 4: 69, 8: 265, 10: 411}),
        (8, {1: 9, 2: 31, 4: 117, 8: 457, 10: 711}),
    ],
)
def test_tree_capacity_is_sglangs(steps: int, capacities: dict[int, int]) -> None:
    assert {topk: tree_capacity_tok(steps, topk) for topk in capacities} == capacities


@given(small)
def test_a_chain_has_one_legal_number_of_draft_tokens(steps: int) -> None:
    assert draft_range(steps, 1) == (steps + 1, steps + 1)
    assert chain_draft_tokens(steps) == tree_capacity_tok(steps, 1)


@given(small, st.integers(2, 16))
def test_a_tree_is_bounded_by_what_it_can_hold(steps: int, topk: int) -> None:
    assert draft_range(steps, topk) == (2, 1 + topk + (steps - 1) * topk**2)


@given(small, small, st.integers(1, 200))
def test_a_triple_is_rejected_exactly_outside_its_range(steps: int, topk: int, tok: int) -> None:
    low, high = draft_range(steps, topk)
    assert (why_rejected(steps, topk, tok) is None) == (low <= tok <= high)


def test_a_chain_says_what_sglang_would_do() -> None:
    assert why_rejected(3, 1, 8) == (
        "with speculative_eagle_topk 1 and speculative_num_steps 3 SGLang sets "
        "speculative_num_draft_tokens to 4 (steps + 1), not 8"
    )


def test_a_tree_says_how_much_it_holds() -> None:
    assert why_rejected(1, 4, 8) == (
        "speculative_num_draft_tokens 8 is more than the draft tree can hold: 5 with "
        "speculative_num_steps 1 and speculative_eagle_topk 4, and SGLang crashes in graph capture"
    )


@pytest.mark.parametrize(
    ("triple", "words"),
    [
        ((0, 1, 2), "speculative_num_steps 0 is below 1"),
        ((3, 0, 2), "speculative_eagle_topk 0 is below 1"),
        ((3, 4, 1), "speculative_num_draft_tokens 1 is below 2"),
    ],
)
def test_too_small_values_are_named(triple: tuple[int, int, int], words: str) -> None:
    assert why_rejected(*triple) == words
