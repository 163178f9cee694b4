"""The scanner of long arrays, and the text that is written for lengths."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.workload.lengths import CHARS_PER_TOK, Corpus, Requests, prompts
from autotune.workload.readers.complaint import BadText
from autotune.workload.readers.scan import array_elements, beginning

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def scan(text: str, key: str | None = None, chunk: int = 7) -> list[Any]:
    elements = array_elements(io.StringIO(text).read, key, 10_000, chunk)
    return [json.loads(element) for _, element in elements]


@given(st.lists(JSON, max_size=6), st.integers(1, 40), st.sampled_from([None, 1]), st.booleans())
def test_any_array_is_read_in_any_pieces(
    items: list[Any], chunk: int, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(items, indent=indent, ensure_ascii=ascii_only)
    assert scan(text, chunk=chunk) == items


@given(st.dictionaries(st.text(), JSON, max_size=3), st.lists(JSON, max_size=4), st.integers(1, 30))
def test_the_array_under_a_key_is_found(
    others: dict[str, Any], items: list[Any], chunk: int
) -> None:
    text = json.dumps(others | {"conversations": items})
    assert scan(text, "conversations", chunk) == items


@given(st.lists(JSON, min_size=1, max_size=4), st.data(), st.integers(1, 30))
def test_a_cut_off_array_never_passes_for_whole(
    items: list[Any], data: st.DataObject, chunk: int
) -> None:
    text = json.dumps(items)
    cut = data.draw(st.integers(0, len(text) - 1))
    with pytest.raises(BadText):
        scan(text[:cut], chunk=chunk)


@given(JSON, st.data())
def test_the_beginning_of_a_cut_off_value_is_read(value: Any, data: st.DataObject) -> None:  # noqa: ANN401
    text = json.dumps(value)
    assert beginning(text) == value
    beginning(text[: data.draw(st.integers(0, len(text)))])


def test_the_beginning_keeps_what_is_whole() -> None:
    assert beginning('{"a": 1, "b": [{"c": "x"}, {"d": "y') == {
        "a": 1, "b": [{"c": "x"}, {"d": None}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ('[\n{"a": 1},\n{"a" 2}]', 3, "expecting ':' delimiter"),
        ("[1,\n2\n3]", 3, "expected ','"),
        ("[1]\n[2]", 2, "there is more"),
        ('["' + "x" * 20_000, 1, "longer than 10,000 characters"),
        ("[" * 100_000, 1, "nested too deep"),
        ('{"a": 1}', 1, "there is no list"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(BadText) as caught:
        scan(text, "conversations" if text.startswith("{") else None)
    assert caught.value.line == line and says in caught.value.reason


def test_elements_know_their_line() -> None:
    found = array_elements(io.StringIO('[\n 1,\n\n "a\\n",\n [2,\n3]\n]').read, None, 100, 3)
    assert [line for line, _ in found] == [2, 4, 5]


# ---- text for lengths ---------------------------------------------------------------------------

IDS = st.lists(st.integers(-(2**63), 2**64 - 1), min_size=1, max_size=12)


@given(st.integers(0, 2**64), st.integers(1, 2_000), st.integers(0, 5))
def test_the_text_of_a_block_depends_on_its_id_alone(number: int, n_tok: int, seed: int) -> None:
    text = Corpus(seed).block(number, n_tok)
    assert text == Corpus(seed).block(number, n_tok)
    assert abs(len(text) / CHARS_PER_TOK - n_tok) <= max(0.02 * n_tok, 1)
    assert Corpus(seed).block(number, 2 * n_tok).startswith(text)


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_another_id_is_another_text(one: int, other: int) -> None:
    if one != other:
        assert Corpus(0).block(one, 64) != Corpus(0).block(other, 64)
    assert Corpus(0).block(one, 64) != Corpus(1).block(one, 64)


@settings(max_examples=40)
@given(IDS, IDS, st.integers(1, 64), st.integers(0, 63))
def test_prompts_share_text_exactly_as_far_as_they_share_ids(
    one: list[int], other: list[int], block_tok: int, rest: int
) -> None:
    texts = []
    for place, ids in enumerate((one, other)):
        requests = Requests()
        requests.add(block_tok * len(ids) + rest, 5, ids)
        session = Corpus(3).session(requests.session(block_tok, str(place), None))
        texts.append(str(session.turns[0].messages[0]["content"]))
        assert session.turns[0].fresh and session.turns[0].max_output_tok == 5
    n_same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    n_same = min(len(one), len(other)) if n_same is None else n_same
    shared = round(block_tok * CHARS_PER_TOK) * n_same
    assert texts[0][:shared] == texts[1][:shared]
    for text, ids in zip(texts, (one, other), strict=True):
        n_tok = block_tok * len(ids) + rest
        assert abs(len(text) / CHARS_PER_TOK - n_tok) <= 0.02 * n_tok + 0.2 * len(ids) + 1


@given(st.lists(st.lists(st.integers(0, 6), max_size=8), min_size=1, max_size=8))
def test_differences_give_back_the_prompts(all_ids: list[list[int]]) -> None:
    requests = Requests()
    for ids in all_ids:
        requests.add(10, 1, ids)
    session = requests.session(1, "s", None)
    assert [list(ids) for ids in prompts(session)] == all_ids


def test_prompts_without_ids_have_text_of_their_own() -> None:
    texts = set()
    for name in ("1", "2"):
        requests = Requests()
        requests.add(300, 1, ())
        requests.add(300, 1, ())
        for turn in Corpus(0).session(requests.session(0, name, None)).turns:
            texts.add(turn.messages[0]["content"])
    assert len(texts) == 4
