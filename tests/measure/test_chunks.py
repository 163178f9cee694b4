"""What each API's documents say: tokens, their times, and the details of speculation."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.measure.chunks import Tally
from autotune.measure.records import RequestRecord
from autotune.measure.stream import read_record

from .answers import chat, chunk, chunked, completions, document, dump, generate, sized, sse, usage

PIECES = [("One", 1), (" two three", 3), (" – naïve café 🙂", 4), (" end.", 2)]
TEXT = "".join(text for text, _ in PIECES)


def told_by(events: list[dict[str, Any]]) -> RequestRecord:
    """The record of a stream whose events come a second apart, the first at 1.0."""
    payloads = sse(events)
    reads = [(0.0, chunked([], close=False))]
    head = len(reads[0][1])
    reads += [(float(n), chunked([p], close=False)[head:]) for n, p in enumerate(payloads, start=1)]
    reads.append((float(len(reads)), b"0\r\n\r\n"))
    return read_record(reads, 0.0, 99.0)


STREAMS = {
    "chat": chat(PIECES)[1:],
    "chat, usage at the end": chat(PIECES, continuous=False)[1:],
    "completions": completions(PIECES),
    "completions, usage at the end": completions(PIECES, continuous=False),
    "generate": generate(PIECES),
    "generate, incremental": generate(PIECES, cumulative=False),
    "generate, ids only": generate(PIECES, counts=False),
    "generate, new ids only": generate(PIECES, counts=False, cumulative=False),
}


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_every_api_tells_text_tokens_and_times(name: str) -> None:
    told = told_by(STREAMS[name])
    assert told.error == "" and told.ok
    assert told.text == TEXT
    assert [at_s for at_s, _ in told.arrivals] == [1.0, 2.0, 3.0, 4.0]
    assert told.n_output_tok == 10
    if "at the end" not in name:
        assert [n for _, n in told.arrivals] == [1, 4, 8, 10]


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"text": "All at once."}, "All at once."),
        ({"message": {"content": "at once.", "reasoning_content": "All "}}, "All at once."),
        ({"message": {"content": None, "tool_calls": [{"function": {"name": "ls"}}]}}, ""),
    ],
)
def test_an_openai_document_is_one_arrival(choice: dict[str, Any], text: str) -> None:
    told = read_record([(7.0, sized(dump(document(choice, 5)).encode()))], 1.0, 8.0)
    assert told.ok and told.text == text
    assert told.arrivals == ((7.0, 5),)
    assert (told.n_cached_tok, told.n_verify, told.finish_reason) == (4, 2, "stop")


@pytest.mark.parametrize("counts", [True, False])
def test_a_generate_document_is_one_arrival(counts: bool) -> None:
    whole = dump(generate(PIECES, counts=counts)[-1]).encode()
    told = read_record([(7.0, sized(whole))], 1.0, 8.0)
    assert told.ok and told.text == TEXT
    assert told.arrivals == ((7.0, 10),)


def test_the_first_token_may_have_no_text() -> None:
    """A tool call that the parser still holds back, half a character, a hidden thought."""
    events = [
        chunk({"role": "assistant", "content": ""}, told=usage(0)),
        chunk({"content": None}, told=usage(1)),
        chunk({"content": ""}, told=usage(3)),
        chunk({"content": "So"}, told=usage(4)),
    ]
    assert told_by(events).arrivals == ((2.0, 1), (3.0, 3), (4.0, 4))


def test_text_without_new_tokens_is_no_arrival() -> None:
    events = [
        chunk({"content": "S"}, told=usage(2)),
        chunk({"content": "o"}, told=usage(2)),
        chunk({"content": "!"}, told=usage(3)),
    ]
    assert told_by(events).arrivals == ((1.0, 2), (3.0, 3))


def test_counts_that_come_now_and_then_are_spread_between() -> None:
    events = [
        chunk({"content": "aa"}),
        chunk({"content": "bb"}, told=usage(4)),
        chunk({"content": "cccc"}),
        chunk({"content": "dddd"}, told=usage(8)),
    ]
    assert told_by(events).arrivals == ((1.0, 2), (2.0, 4), (3.0, 6), (4.0, 8))


def test_one_text_and_a_total_arrive_with_the_text() -> None:
    assert told_by([chunk({"content": "All"}), chunk(told=usage(5))]).arrivals == ((1.0, 5),)


def test_the_name_of_a_tool_is_tokens_too() -> None:
    def call(**function: str) -> dict[str, Any]:
        return chunk({"tool_calls": [{"index": 0, "function": function}]})

    events = [call(name="read_file", arguments=""), call(arguments='{"p":1}'), chunk(told=usage(8))]
    told = told_by(events)
    assert told.arrivals == ((1.0, 4), (2.0, 8))
    assert told.text == '{"p":1}'


@pytest.mark.parametrize(
    "delta", [{"reasoning": "Hm"}, {"reasoning": "Hm", "reasoning_content": "Hm"}]
)
def test_reasoning_counts_once_under_either_name(delta: dict[str, Any]) -> None:
    told = told_by([chunk(delta), chunk({"content": "So"}), chunk(told=usage(4))])
    assert told.text == "HmSo"
    assert told.arrivals == ((1.0, 2), (2.0, 4))


def test_a_stop_string_cut_off_at_the_end_does_not_double_the_text() -> None:
    events = generate(PIECES)
    events[-1]["text"] = TEXT.removesuffix(" end.")
    assert told_by(events).text == TEXT.removesuffix(" end.")


def test_an_incremental_piece_may_begin_as_the_one_before_it() -> None:
    pieces = [("ha", 1), ("haha", 2), (" well", 1), ("", 1)]
    assert told_by(generate(pieces, cumulative=False)).text == "hahaha well"


DETAILS: dict[str, Any] = {"spec_verify_ct": 4, "spec_correct_drafts_histogram": [1, 0, 3]}


@pytest.mark.parametrize(
    "more",
    [
        {"choices": [], "sglext": {"spec_tokens_details": DETAILS}},
        {"choices": [{"index": 0, "finish_reason": "stop", "meta_info": DETAILS}]},
        {"meta_info": {"completion_tokens": 4} | DETAILS},
        {"meta_info": {"spec_verify_ct": 4, "spec_accept_histogram": [1, 0, 3]}},
    ],
)
def test_the_histogram_of_acceptance(more: dict[str, Any]) -> None:
    told = told_by([chunk({"content": "So"}, told=usage(2)), more])
    assert told.accept_histogram == (1, 0, 3)
    assert told.n_verify == 4


def test_retractions_and_the_time_in_the_queue() -> None:
    events = generate(PIECES)
    events[1]["meta_info"] |= {"total_retractions": 2, "queue_time": 0.25}
    told = told_by(events)
    assert (told.n_retractions, told.queue_s, told.aborted) == (2, 0.25, False)


@pytest.mark.parametrize(
    "odd",
    [
        {"sglext": 3}, {"sglext": {"spec_tokens_details": [1]}},
        {"sglext": {"spec_tokens_details": {"spec_correct_drafts_histogram": "1,2"}}},
        {"sglext": {"spec_tokens_details": {"spec_correct_drafts_histogram": [1, None]}}},
        {"sglext": {"spec_tokens_details": {"spec_verify_ct": "4"}}},
    ],
)  # fmt: skip
def test_a_detail_of_an_unknown_shape_costs_the_detail_only(odd: dict[str, Any]) -> None:
    told = told_by([chunk({"content": "So"}, told=usage(2)), chunk() | odd])
    assert told.ok and told.n_output_tok == 2
    assert (told.accept_histogram, told.n_verify) == ((), 0)


@pytest.mark.parametrize("name", ["chat", "completions", "generate"])
def test_an_aborted_request_says_so(name: str) -> None:
    events = deepcopy(STREAMS[name])
    if name == "generate":
        events[-1]["meta_info"]["finish_reason"] = {"type": "abort", "message": "gone"}
    else:
        events.append(chunk({}, reason="abort"))
    told = told_by(events)
    assert told.aborted and not told.ok
    assert told.error == "the server aborted the request"
    assert told.n_output_tok == 10


counts = st.lists(st.integers(0, 5), min_size=1, max_size=12)


@given(counts, st.booleans())
def test_tokens_never_fall_and_end_at_the_total(steps: list[int], told_at_once: bool) -> None:
    tally, so_far = Tally(), 0
    for at_s, n_tok in enumerate(steps):
        so_far += n_tok
        count = None if told_at_once else usage(so_far)
        tally.read(float(at_s), dump(chunk({"content": "x" * n_tok}, told=count)).encode())
    tally.read(float(len(steps)), dump(chunk(told=usage(so_far))).encode())
    numbers = [n for _, n in tally.arrivals]
    assert numbers == sorted(numbers)
    assert numbers[-1:] == ([so_far] if so_far else [])
    assert [at_s for at_s, _ in tally.arrivals] == [float(n) for n, t in enumerate(steps) if t]
