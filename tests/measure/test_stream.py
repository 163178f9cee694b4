from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.measure.framing import Body, Read, split_events
from autotune.measure.records import RequestRecord
from autotune.measure.stream import read_record

from .answers import (
    HEAD,
    chat,
    chunk,
    chunked,
    completions,
    document,
    dump,
    generate,
    reads,
    sized,
    sse,
    unframed,
    usage,
)

PIECES = [("One", 1), (" two three", 3), (" – naïve café 🙂", 4), (" end.", 2)]
N_TOK = 10


def record(data: bytes, cuts: list[int] | None = None) -> RequestRecord:
    pieces = reads(data, cuts or [])
    return read_record(pieces, 0.0, float(len(pieces)))


def timeless(told: RequestRecord) -> RequestRecord:
    """The record without its times: what must not depend on how the bytes were cut."""
    counts = tuple((0.0, n_tok) for _, n_tok in told.arrivals)
    uncounted = tuple((0.0, n_chars) for _, n_chars in told.uncounted)
    return replace(told, sent_s=0.0, done_s=0.0, arrivals=counts, uncounted=uncounted)


CHAT = chat(PIECES, n_verify=4)
ERROR = {"error": {"message": "out of memory", "type": "InternalServerError"}}
CHAT_MESSAGE = {"message": {"role": "assistant", "content": "All at once."}}
DOCUMENT_IN_CHUNKS = chunked(
    [dump(document(CHAT_MESSAGE, 5)).encode()],
    head="HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
)
ESCAPED = [json.dumps(event).join(("data: ", "\n\n")).encode() for event in [*CHAT, "[DONE]"]]
BROKEN_EVENT = chunked([*sse(CHAT[:4], done=False), b'data: {"id": "r1", "cho'], close=False)
ANSWERS = {
    "chunked": chunked(sse(CHAT)),
    "chunked, CRLF": chunked(sse(CHAT, newline=b"\r\n")),
    "chunked, CR": chunked(sse(CHAT, newline=b"\r")),
    "chunked, without DONE": chunked(sse(CHAT, done=False)),
    "chunked, all in one chunk": chunked([b"".join(sse(CHAT))]),
    "chunked, several events a chunk": chunked([b"".join(sse(CHAT)[:3]), b"".join(sse(CHAT)[3:])]),
    "chunk extensions": chunked(sse(CHAT)).replace(b"\r\ndata: ", b";ext=1\r\ndata: "),
    "unframed": unframed(sse(CHAT)),
    "sized": sized(b"".join(sse(CHAT)), kind="text/event-stream"),
    "usage at the end": chunked(sse(chat(PIECES, continuous=False))),
    "comments": chunked([b": keep-alive\n\n", *sse(CHAT), b": bye\n\n"]),
    "other fields": chunked([b"event: x\nid: 4\nretry: 10\n" + sse(CHAT)[0], *sse(CHAT[1:])]),
    "no space after data": chunked([p.replace(b"data: ", b"data:") for p in sse(CHAT)]),
    "no final blank line": unframed([*sse(CHAT, done=False), b"data: [DONE]"]),
    "keep-alives between": chunked(
        [p for e in sse(CHAT) for p in (b": ping\n\n", e, b"data:\n\n")]
    ),
    "escaped": chunked([p.decode().encode("ascii", "backslashreplace") for p in ESCAPED]),
    "completions": chunked(sse(completions(PIECES))),
    "completions, CRLF": chunked(sse(completions(PIECES), newline=b"\r\n")),
    "completions, unframed, without DONE": unframed(sse(completions(PIECES), done=False)),
    "completions, usage at the end": chunked(sse(completions(PIECES, continuous=False))),
    "completions, cut": chunked(sse(completions(PIECES)), close=False)[:-300],
    "generate": chunked(sse(generate(PIECES))),
    "generate, CRLF": chunked(sse(generate(PIECES), newline=b"\r\n")),
    "generate, unframed": unframed([b": ping\n\n", *sse(generate(PIECES))]),
    "generate, without DONE": chunked(sse(generate(PIECES), done=False)),
    "generate, incremental": chunked(sse(generate(PIECES, cumulative=False))),
    "generate, ids only": chunked(sse(generate(PIECES, counts=False))),
    "generate, new ids only": chunked(sse(generate(PIECES, counts=False, cumulative=False))),
    "generate, cut": chunked(sse(generate(PIECES)), close=False)[:-300],
    "generate, error": chunked(sse([*generate(PIECES)[:2], ERROR])),
    "chat document": sized(dump(document(CHAT_MESSAGE, 5)).encode()),
    "chat document, chunked": DOCUMENT_IN_CHUNKS,
    "completions document": sized(dump(document({"text": "All at once."}, 5)).encode()),
    "generate document": sized(dump(generate(PIECES)[-1]).encode()),
    "cut in a chunk": chunked(sse(CHAT), close=False)[:-40],
    "cut between chunks": chunked(sse(CHAT[:4], done=False), close=False),
    "cut in an event": BROKEN_EVENT,
    "cut in the head": HEAD.encode()[:30],
    "nothing": b"",
    "error event": chunked(sse([*CHAT[:3], ERROR])),
    "refused": sized(b'{"object":"error","message":"too long"}', status="400 Bad Request"),
    "bad gateway": sized(b"<html>Bad</html>", status="502 Bad Gateway", kind="text/html"),
    "not HTTP": b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
    "malformed chunk": HEAD.encode() + b"transfer-encoding: chunked\r\n\r\nxyz\r\ndata",
}
WHOLE = [
    name
    for name in ANSWERS
    if name.startswith(("chunk", "unframed", "sized", "comments", "other", "no "))
]


@settings(max_examples=40)
@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(1, 2500), max_size=12))
def test_any_split_of_the_bytes_gives_the_same_record(name: str, cuts: list[int]) -> None:
    data = ANSWERS[name]
    assert timeless(record(data, cuts)) == timeless(record(data))


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_one_byte_per_read_gives_the_same_record(name: str) -> None:
    data = ANSWERS[name]
    assert timeless(record(data, list(range(len(data))))) == timeless(record(data))


@pytest.mark.parametrize("name", WHOLE)
def test_every_framing_carries_the_same_answer(name: str) -> None:
    told = record(ANSWERS[name])
    assert told.error == "" and told.ok
    assert [n for _, n in told.arrivals] == [1, 4, 8, N_TOK]
    assert told.text == "".join(text for text, _ in PIECES)
    assert (told.n_prompt_tok, told.n_verify, told.finish_reason) == (9, 4, "stop")


lines = st.lists(st.sampled_from([b"data: a", b"data:b", b": c", b"", b"id: 1"]), max_size=8)
ends = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(lines, ends, st.lists(st.integers(1, 60), max_size=10))
def test_events_do_not_depend_on_the_split(
    given_lines: list[bytes], end: bytes, cuts: list[int]
) -> None:
    data = b"".join(line + end for line in given_lines)
    whole = [event for _, event in split_events(Body.of(reads(data)))]
    assert [event for _, event in split_events(Body.of(reads(data, cuts)))] == whole


def test_an_event_of_several_lines_is_joined() -> None:
    assert list(split_events(Body.of([(1.0, b"data: a\ndata: b\n\n")]))) == [(1.0, b"a\nb")]


def test_tokens_arrive_when_the_last_byte_of_their_event_does() -> None:
    payloads = sse(chat([("a", 1), ("b", 2)]))
    first = chunked(payloads[:2], close=False)
    rest = chunked(payloads[2:])[len(chunked([], close=False)) :]
    told = read_record([(1.0, first[:-9]), (2.0, first[-9:]), (5.0, rest)], 0.5, 6.0)
    assert told.arrivals == ((2.0, 1), (5.0, 3))
    assert told.ttft_s == 1.5
    assert told.tpot_s == 1.5


def test_tokens_are_spread_by_text_where_only_the_total_is_told() -> None:
    payloads = sse(chat([("aa", 2), ("bbbb", 4), ("cc", 2)], continuous=False))
    data = chunked(payloads)
    places = [data.index(payload) + len(payload) + 2 for payload in payloads]
    told = record(data, places)
    assert [n for _, n in told.arrivals] == [2, 6, 8]
    times = [at for at, _ in told.arrivals]
    assert times == sorted(set(times))


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=9), st.just(0)), min_size=2))
def test_spread_tokens_never_fall_and_end_at_the_total(pieces: list[tuple[str, int]]) -> None:
    events = [*chat(pieces, continuous=False, final=False), chunk(told=usage(len(pieces) * 2))]
    counts = [n for _, n in record(chunked(sse(events))).arrivals]
    assert counts == sorted(counts)
    assert counts[0] >= 1 and counts[-1] == len(pieces) * 2


def test_the_number_of_chunks_is_never_the_number_of_tokens() -> None:
    told = record(chunked(sse(chat([("abc def", 5), (" ghi", 4)]))))
    assert told.n_output_tok == 9
    assert [n for _, n in told.increments()] == [5, 4]


def test_reasoning_and_tool_calls_are_tokens() -> None:
    call = {"index": 0, "function": {"name": "search", "arguments": '{"q":'}}
    more = {"index": 0, "function": {"arguments": "1}"}}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "reasoning_content": None},
        {"reasoning_content": "Hm. ", "content": None},
        {"content": "So: "},
        {"content": None, "tool_calls": [call]},
        {"tool_calls": [more]},
    ]
    events = [*(chunk(delta) for delta in deltas), chunk({}, reason="tool_calls")]
    told = record(chunked(sse([*events, chunk(told=usage(8))])))
    assert told.ok and told.finish_reason == "tool_calls"
    assert told.text == 'Hm. So: {"q":1}'
    assert len(told.arrivals) == 4 and told.n_output_tok == 8


def test_the_first_token_is_the_first_reasoning_token() -> None:
    events = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Hm"}, told=usage(1)),
        chunk({"content": "So"}, told=usage(2)),
    ]
    payloads = sse(events)
    data = chunked(payloads)
    told = record(data, [data.index(payloads[2])])
    assert told.arrivals == ((1.0, 1), (2.0, 2))


@pytest.mark.parametrize("cumulative", [True, False])
def test_generate_tells_text_and_counts(cumulative: bool) -> None:
    told = record(chunked(sse(generate(PIECES, cumulative=cumulative))))
    assert told.text == "".join(text for text, _ in PIECES)
    assert [n for _, n in told.arrivals] == [1, 4, 8, N_TOK]
    assert (told.n_prompt_tok, told.n_cached_tok, told.n_verify) == (3, 2, 6)
    assert told.finish_reason == "length" and told.ok


def test_a_document_that_is_not_streamed_is_one_arrival() -> None:
    message = {"role": "assistant", "content": "All at once.", "reasoning_content": None}
    document = {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage(5, cached_tok=4),
        "sglext": {"spec_tokens_details": {"spec_verify_ct": 2}},
    }
    told = record(sized(dump(document).encode()))
    assert told.ok and told.text == "All at once."
    assert told.arrivals == ((1.0, 5),) and told.tpot_s is None
    assert (told.n_cached_tok, told.n_verify) == (4, 2)


@pytest.mark.parametrize(
    ("sglext", "n_cached_tok"),
    [
        ({"cached_tokens_details": {"device": 14, "host": 0}}, 14),
        ({"cached_tokens_details": {"device": 8, "host": 4, "storage": 2}}, 14),
        # 0.5.23 leaves the key out where nothing was cached.
        ({"spec_tokens_details": {"spec_verify_ct": 5}}, 0),
        ({"routed_experts": "AAAA"}, None),
        ({}, None),
    ],
)
def test_sglang_tells_of_its_cache_beside_a_usage_that_does_not(
    sglext: dict[str, Any], n_cached_tok: int | None
) -> None:
    closing = [{"choices": [], "usage": None, "sglext": sglext}, {"choices": [], "usage": usage(2)}]
    told = record(chunked(sse([chunk({"content": "So"}, told=usage(1)), *closing])))
    assert told.ok and told.n_cached_tok == n_cached_tok


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the connection ended before the head of the answer"),
        (ANSWERS["cut in the head"], "the connection ended before the head of the answer"),
        (ANSWERS["not HTTP"], "not an HTTP answer: 'SSH-2.0"),
        (ANSWERS["cut in a chunk"], "the stream broke off"),
        (ANSWERS["cut between chunks"], "the stream broke off"),
        (BROKEN_EVENT, "the stream broke off"),
        (unframed(sse(CHAT[:4], done=False)), "the stream broke off"),
        (sized(b'{"text": "abc'), 'the server sent something unreadable: b\'{"text"'),
        (sized(b"{}")[:-1], "the stream broke off"),
        (ANSWERS["malformed chunk"], "malformed chunk size b'xyz'"),
        (chunked(sse(["{no json}", *CHAT])), "something unreadable: b'{no json}'"),
        (ANSWERS["error event"], "out of memory"),
        (chunked(sse([{"error": "Unauthorized"}])), "Unauthorized"),
        (chunked(sse([{"object": "error", "message": "too long", "code": 400}])), "too long"),
        (ANSWERS["refused"], "HTTP 400: too long"),
        (sized(b'{"detail":"Not Found"}', status="404 Not Found"), 'HTTP 404: {"detail":"Not'),
        (ANSWERS["bad gateway"], "HTTP 502: <html>Bad</html>"),
        (sized(b"", status="503 Service Unavailable"), "HTTP 503"),
        (chunked(sse(chat([]))), "the answer holds no tokens"),
        (chunked(sse([])), "the answer holds no tokens"),
        (chunked([]), "the answer holds no tokens"),
        (sized(b"{}"), "the answer holds no tokens"),
        (chunked(sse(chat(PIECES, reason="abort"))), "the server aborted the request"),
        (chunked(sse(["5", "[]", '{"choices": 3}'])), "something unreadable: b'{\"choices\": 3}'"),
    ],
)
def test_what_does_not_count_says_why(data: bytes, words: str) -> None:
    told = record(data)
    assert words in told.error
    assert not told.ok


def test_tokens_that_came_before_the_break_are_kept() -> None:
    for name in ("cut in a chunk", "cut in an event", "error event"):
        assert record(ANSWERS[name]).n_output_tok > 0


def test_an_error_field_that_is_empty_is_no_error() -> None:
    events = [event | {"error": None} for event in CHAT]
    assert record(chunked(sse(events))).error == ""


keys = st.sampled_from(
    "error object meta_info text choices delta message content tool_calls function arguments "
    "finish_reason usage completion_tokens prompt_tokens prompt_tokens_details cached_tokens "
    "sglext spec_tokens_details cached_tokens_details device spec_verify_ct".split()
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.lists(st.dictionaries(keys, anything, max_size=4), max_size=4), st.booleans())
def test_no_event_of_a_strange_shape_is_an_exception(
    events: list[dict[str, Any]], streamed: bool
) -> None:
    data = chunked(sse(events)) if streamed else sized(dump(events[0] if events else 0).encode())
    assert isinstance(record(data).error, str)


heads = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n", b"content-length: x\r\n", b"transfer-encoding: chunked\r\n",
        b"content-type: text/event-stream\r\n", b"\r\n", b"data: {}\n\n", b"-4\r\n", b"5\r\n",
    ]
)  # fmt: skip


@settings(max_examples=200)
@given(st.lists(heads | st.binary(max_size=20), max_size=9))
def test_no_bytes_are_an_exception(parts: list[bytes]) -> None:
    pieces: list[Read] = [(float(n), part) for n, part in enumerate(parts)]
    assert isinstance(read_record(pieces, 0.0, 1.0), RequestRecord)
