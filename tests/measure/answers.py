"""Answers as a server sends them: SGLang's event shapes with made-up values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from autotune.measure.stream import Read

HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"


def usage(output_tok: int, prompt_tok: int = 9, cached_tok: int | None = None) -> dict[str, Any]:
    details = None if cached_tok is None else {"cached_tokens": cached_tok}
    return {
        "prompt_tokens": prompt_tok,
        "total_tokens": prompt_tok + output_tok,
        "completion_tokens": output_tok,
        "prompt_tokens_details": details,
        "reasoning_tokens": 0,
    }


def chunk(
    delta: dict[str, Any] | None = None,
    *,
    reason: str | None = None,
    told: dict[str, Any] | None = None,
    **more: Any,  # noqa: ANN401 (whatever JSON holds)
) -> dict[str, Any]:
    """One chat chunk; without a delta its ``choices`` are empty."""
    choices: list[dict[str, Any]] = []
    if delta is not None:
        choices.append({"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason})
    document = {"id": "r1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return document | {"choices": choices} | ({"usage": told} if told else {}) | more


def chat(
    pieces: Sequence[tuple[str, int]],
    *,
    continuous: bool = True,
    final: bool = True,
    n_verify: int = 0,
    reason: str | None = "stop",
) -> list[dict[str, Any]]:
    """The chunks of one chat answer: ``pieces`` are (text, tokens)."""
    events = [chunk({"role": "assistant", "content": "", "reasoning_content": None})]
    so_far = 0
    for text, n_tok in pieces:
        so_far += n_tok
        delta = {"content": text, "reasoning_content": None}
        events.append(chunk(delta, told=usage(so_far) if continuous else None))
    events.append(chunk({"reasoning_content": None}, reason=reason))
    if n_verify:
        details = {"spec_verify_ct": n_verify, "spec_accept_length": so_far / n_verify}
        events.append(chunk(usage=None, sglext={"spec_tokens_details": details}))
    if final:
        events.append(chunk(told=usage(so_far)))
    return events


def completions(
    pieces: Sequence[tuple[str, int]], *, continuous: bool = True, n_verify: int = 4
) -> list[dict[str, Any]]:
    """The chunks of one ``/v1/completions`` answer."""

    def event(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401
        head = {"id": "r1", "object": "text_completion", "created": 1, "model": "m"}
        return head | {"choices": list(choices)} | more

    def choice(text: str, reason: str | None = None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}

    events, so_far = [], 0
    for text, n_tok in pieces:
        so_far += n_tok
        events.append(event(choice(text), usage=usage(so_far) if continuous else None))
    events.append(event(choice("", "stop")))
    events.append(event(sglext={"spec_tokens_details": {"spec_verify_ct": n_verify}}))
    return [*events, event(usage=usage(so_far))]


def generate(
    pieces: Sequence[tuple[str, int]], *, cumulative: bool = True, counts: bool = True
) -> list[dict[str, Any]]:
    """The events of one ``/generate`` answer; without counts it tells token ids only."""
    events, text, so_far = [], "", 0
    for place, (piece, n_tok) in enumerate(pieces):
        text, so_far = text + piece, so_far + n_tok
        last = place == len(pieces) - 1
        meta: dict[str, Any] = {
            "id": "r1",
            "finish_reason": {"type": "length", "length": so_far} if last else None,
            "prompt_tokens": 3,
            "cached_tokens": 2,
        }
        meta |= {"completion_tokens": so_far} if counts else {}
        meta |= {"spec_verify_ct": 6} if last else {}
        ids = list(range(so_far)) if cumulative else list(range(so_far - n_tok, so_far))
        events.append({"text": text if cumulative else piece, "output_ids": ids, "meta_info": meta})
    return events


def document(choice: dict[str, Any], output_tok: int) -> dict[str, Any]:
    """One OpenAI answer that is not streamed."""
    return {
        "id": "r1",
        "choices": [{"index": 0, "finish_reason": "stop"} | choice],
        "usage": usage(output_tok, cached_tok=4),
        "sglext": {"spec_tokens_details": {"spec_verify_ct": 2}},
    }


def sse(events: Iterable[object], *, done: bool = True, newline: bytes = b"\n") -> list[bytes]:
    """Each event as the bytes of one server-sent event."""
    texts = [event if isinstance(event, str) else dump(event) for event in events]
    texts += ["[DONE]"] if done else []
    return [b"data: " + text.encode() + 2 * newline for text in texts]


def dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def chunked(payloads: Iterable[bytes], *, close: bool = True, head: str = HEAD) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in payloads)
    return f"{head}transfer-encoding: chunked\r\n\r\n".encode() + body + b"0\r\n\r\n" * close


def sized(body: bytes, *, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def unframed(payloads: Iterable[bytes]) -> bytes:
    """Neither chunked nor sized: the end of the connection is the end of the answer."""
    return HEAD.encode() + b"\r\n" + b"".join(payloads)


def reads(data: bytes, cuts: Iterable[int] = ()) -> list[Read]:
    """The bytes in pieces, each a second after the one before."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(data)}), len(data)]
    return [
        (float(second), data[begin:end])
        for second, (begin, end) in enumerate(pairwise(edges), start=1)
    ]
