"""What a benchmark asks of the scripted server: known delays, known tokens, known bytes."""

from __future__ import annotations

import math
from itertools import accumulate, cycle, islice

import msgspec

TOKENS = (1, 4, 2, 3, 4, 1, 5, 4)
"""Tokens of the events, over and over: as under speculation, never one each (24 in 8 events)."""
MAX_EVENTS = 2048
N_PROMPT_TOK = 1200
COUNTS = tuple(accumulate(islice(cycle(TOKENS), MAX_EVENTS)))
"""Tokens so far after each event."""


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """How one request is answered; it travels as keys of the request's own body.

    Attributes:
        number: name of the request, to find it again in the server's truth.
        ttft_s: from the last byte of the request to the first event with tokens.
        gap_s: between events.
        n_events: events with tokens, 1 to ``MAX_EVENTS``.
        lockstep: events fall on a grid of ``gap_s`` that all requests share, as the steps of a
            running batch do; otherwise each request keeps its own time.
    """

    number: int
    ttft_s: float
    gap_s: float
    n_events: int
    lockstep: bool = False

    def deadline_s(self, received_s: float, place: int) -> float:
        """When event ``place`` is due. Absolute, so that lateness does not add up."""
        due_s = received_s + self.ttft_s + place * self.gap_s
        return math.ceil(due_s / self.gap_s) * self.gap_s if self.lockstep else due_s


class Sent(msgspec.Struct, frozen=True):
    """What the server really did for one request; its clock is the one of ``perf_counter``.

    Attributes:
        received_s: when the last byte of the request came.
        sent_s: when each event was handed to the kernel.
    """

    number: int
    received_s: float
    sent_s: list[float]


class Truth(msgspec.Struct, frozen=True):
    """Every request since the last asking, and what the server itself needed.

    Attributes:
        cpu_s: CPU time of the server process.
        late_s: by how much it missed its own deadlines, 99th percentile over events.
    """

    exchanges: list[Sent]
    cpu_s: float
    late_s: float


def _event(choices: list[object], so_far: int) -> bytes:
    document = {
        "id": "7b0e1e4b1c9f4d5e8a2f6c3d9e8b7a60",
        "object": "chat.completion.chunk",
        "created": 1750000000,
        "model": "scripted",
        "choices": choices,
        "usage": {
            "prompt_tokens": N_PROMPT_TOK,
            "total_tokens": N_PROMPT_TOK + so_far,
            "completion_tokens": so_far,
            "prompt_tokens_details": {"cached_tokens": 1024},
            "reasoning_tokens": 0,
        },
    }
    return _chunk(b"data: " + msgspec.json.encode(document) + b"\n\n")


def _chunk(payload: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(payload), payload)


def _delta(n_tok: int, reason: str | None) -> object:
    delta = {"role": None, "content": " word" * n_tok, "reasoning_content": None}
    return {
        "index": 0,
        "delta": delta | {"tool_calls": None},
        "logprobs": None,
        "finish_reason": reason,
        "matched_stop": None,
    }


HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
)
EVENTS = tuple(
    _event([_delta(n_tok, None)], so_far)
    for n_tok, so_far in zip(islice(cycle(TOKENS), MAX_EVENTS), COUNTS, strict=True)
)
"""Each event in its final bytes: OpenAI's chat format with usage in every event, one chunk each."""


def ending(n_events: int) -> bytes:
    """What follows the last event with tokens, sent with it."""
    so_far = COUNTS[n_events - 1]
    last = _event([_delta(0, "stop")], so_far) + _event([], so_far)
    return last + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
