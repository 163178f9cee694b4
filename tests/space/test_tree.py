from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.space.rules import why_rejected
from autotune.space.tree import DraftTree


@st.composite
def trees(draw: st.DrawFn) -> DraftTree:
    first = draw(st.integers(1, 5))
    steps = tuple(range(first, first + draw(st.integers(0, 8)) + 1, draw(st.integers(1, 3))))
    topks = tuple(draw(st.lists(st.integers(1, 8), min_size=1, max_size=4, unique=True)))
    low = draw(st.integers(2, 20))
    return DraftTree(steps, topks, low, low + draw(st.integers(0, 40)))


@given(trees())
def test_triples_are_exactly_the_legal_points_of_the_box(tree: DraftTree) -> None:
    legal = {
        (steps, topk, tok)
        for steps in tree.steps
        for topk in tree.topks
        for tok in range(tree.draft_low_tok, tree.draft_high_tok + 1)
        if why_rejected(steps, topk, tok) is None
    }
    triples = list(tree.triples())
    assert set(triples) == legal
    assert len(triples) == len(legal) == tree.n_triples


@given(trees())
def test_legal_steps_are_neighbours_so_that_a_range_holds_them(tree: DraftTree) -> None:
    for topk in tree.topks:
        legal = tree.steps_for(topk)
        inside = [s for s in tree.steps if legal and legal[0] <= s <= legal[-1]]
        assert list(legal) == inside
