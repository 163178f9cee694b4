"""The request of one turn, in the words of each API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autotune.measure import Endpoint, PhasePlan, measure_phase
from autotune.measure.prompt import APIS, Api, as_text, n_chars, request_of
from autotune.workload import Message, Session, Turn, Workload

from .scripted import ScriptedServer, talk
from .sessions import healthy

ASKED: list[Message] = [{"role": "user", "content": "Grüße?"}]
TALK: list[Message] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": [{"type": "text", "text": t} for t in ("And ", "now?")]},
]
COUNTS = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    "return_spec_tokens_details": True,
    "return_cached_tokens_details": True,
    "timings_per_token": True,
}


def sent(api: Api, messages: list[Message], **extra: object) -> tuple[str, dict[str, Any]]:
    path, body = request_of(
        api, "some/model", messages, max_output_tok=64, temperature=0.6, extra=extra
    )
    return path, json.loads(body)


def test_chat_sends_the_messages_as_they_are() -> None:
    path, body = sent("chat", TALK, top_p=0.9, tools=[{"type": "function"}])
    assert path == "/v1/chat/completions"
    assert body == COUNTS | {
        "model": "some/model", "messages": TALK, "max_tokens": 64, "temperature": 0.6,
        "top_p": 0.9, "tools": [{"type": "function"}],
    }  # fmt: skip


def test_completions_send_a_text() -> None:
    path, body = sent("completions", ASKED, top_p=0.9)
    assert path == "/v1/completions"
    assert body == COUNTS | {
        "model": "some/model", "prompt": "Grüße?", "max_tokens": 64, "temperature": 0.6,
        "top_p": 0.9,
    }  # fmt: skip


def test_generate_sends_sampling_parameters_and_nothing_else() -> None:
    unknown = {"tools": [1], "response_format": {}, "user": "me", "seed": 3, "stream": False}
    path, body = sent("generate", ASKED, top_p=0.9, **unknown)  # SGLang would refuse a single one
    assert path == "/generate"
    assert body == {
        "text": "Grüße?",
        "sampling_params": {"temperature": 0.6, "max_new_tokens": 64, "top_p": 0.9},
        "stream": True,
    }


@pytest.mark.parametrize("api", APIS)
def test_what_a_session_brings_never_turns_streaming_or_counting_off(api: Api) -> None:
    _, body = sent(api, ASKED, stream=False, stream_options={}, return_spec_tokens_details=False)
    assert body["stream"] is True
    if api != "generate":
        assert body.items() >= COUNTS.items()


@pytest.mark.parametrize("api", APIS)
def test_a_session_may_set_its_own_temperature(api: Api) -> None:
    _, body = sent(api, ASKED, temperature=0.1)
    assert body.get("sampling_params", body)["temperature"] == 0.1


def test_a_conversation_becomes_a_transcript_that_ends_where_the_answer_begins() -> None:
    assert as_text(TALK) == (
        "system: Be brief.\n\nuser: Hello?\n\nassistant: Yes.\n\nuser: And now?\n\nassistant:"
    )
    assert n_chars(TALK) == len("Be brief.Hello?Yes.And now?")


@pytest.mark.parametrize("content", [None, "", []])
def test_a_message_without_text_has_no_characters(content: object) -> None:
    assert n_chars([{"role": "assistant", "content": content}]) == 0


@pytest.mark.parametrize("api", APIS)
def test_a_phase_sends_every_turn_over_the_api_it_was_given(api: Api) -> None:
    def session(number: int, context_tok: int | None) -> Session:
        turns = [Turn(({"role": "user", "content": f"{number} {n}"},), 32) for n in range(2)]
        return Session(tuple(turns), extra={"top_k": 5})

    workload = Workload("two", "two", 100, 0.3, session)
    with ScriptedServer(talk(0.0, 0.0)) as server:
        endpoint = Endpoint(server.url, "m", api=api)
        measure_phase(endpoint, workload, PhasePlan("serving", 1, 6, 0), check=healthy)
        first, second = (exchange.body for exchange in server.exchanges[:2])
        paths = {exchange.head.split()[1] for exchange in server.exchanges}
    assert len(paths) == 1
    for body in (first, second):
        asked = body.get("sampling_params", body)
        assert (asked["top_k"], asked["temperature"]) == (5, 0.3)
    said = " answer0" * 13
    if api == "chat":
        assert second["messages"] == [*first["messages"], {"role": "assistant", "content": said},
                                      {"role": "user", "content": "0 1"}]  # fmt: skip
    else:
        field = "prompt" if api == "completions" else "text"
        assert first[field] == "0 0"
        assert second[field] == f"user: 0 0\n\nassistant: {said}\n\nuser: 0 1\n\nassistant:"
