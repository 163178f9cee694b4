"""Request bodies as clients send them: SGLang's ``openai``, the OpenAI batch file, AIPerf payloads.

A body with the answers so far is one turn with the whole history: what was said is what is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from autotune.workload.lengths import Recorded
from autotune.workload.model import Session, Turn
from autotune.workload.readers.complaint import BadRow
from autotune.workload.readers.dialogue import check_messages
from autotune.workload.readers.driver import each
from autotune.workload.readers.source import Source
from autotune.workload.readers.units import MAX_TOK, SomeId

_MAX_OUTPUT_TOK = 256
"""SGLang's default for rows without ``max_tokens``."""
_CAPS = ("max_completion_tokens", "max_tokens")
_NOT_KEPT = frozenset({"messages", "model", "stream", "stream_options", "n", *_CAPS})

Body = dict[str, Any]
_body = msgspec.json.Decoder(Body)


class _Batch(msgspec.Struct):
    body: Body
    custom_id: SomeId = ""
    url: str = "/v1/chat/completions"


_batch = msgspec.json.Decoder(_Batch)


def bodies(source: Source) -> Iterator[Recorded]:
    """A chat body per line."""
    return each(source, _body, lambda body, line: session_of(body, str(line)))


def batch(source: Source) -> Iterator[Recorded]:
    """The file for OpenAI's batch API: ``custom_id`` and ``body``."""
    return each(source, _batch, _from_batch)


def _from_batch(row: _Batch, line: int) -> Session:
    if "messages" not in row.body and row.url != "/v1/chat/completions":
        raise BadRow(f"url is {row.url}: only bodies of /v1/chat/completions can be played")
    return session_of(row.body, str(row.custom_id or line))


def session_of(body: Body, session_id: str) -> Session:
    """One request; a recorded answer at the end of the messages is not sent but kept."""
    return Session((turn_of(body),), session_id=session_id, extra=extra_of(body))


def turn_of(body: Body) -> Turn:
    if "messages" not in body:
        raise BadRow(
            "there is no 'messages'"
            + (": this is a body of /v1/completions" if "prompt" in body else "")
        )
    messages, answer = check_messages(body["messages"]), None
    last = messages[-1]
    if last["role"] == "assistant" and len(messages) > 1 and isinstance(last.get("content"), str):
        messages, answer = messages[:-1], last["content"]
    return Turn(messages, _cap(body), answer=answer)


def extra_of(body: Body) -> dict[str, Any]:
    """What of a body is sent along: ``tools``, ``temperature``, ``top_p`` and their like."""
    return {key: value for key, value in body.items() if key not in _NOT_KEPT}


def _cap(body: Body) -> int:
    for key in _CAPS:
        cap = body.get(key)
        if cap is None:
            continue
        if not isinstance(cap, int) or isinstance(cap, bool) or not 1 <= cap <= MAX_TOK:
            raise BadRow(f"{key} must be a whole number from 1 to {MAX_TOK}, not {cap!r}")
        return cap
    return _MAX_OUTPUT_TOK
