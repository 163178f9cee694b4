"""The request of one turn, in the words of each API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from autotune.workload.model import Message

Api = Literal["chat", "completions", "generate"]
"""``/v1/chat/completions``, ``/v1/completions``, or SGLang's own ``/generate``."""
APIS: tuple[Api, ...] = get_args(Api)

_PATHS: Mapping[Api, str] = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "generate": "/generate",
}
_SAMPLING = frozenset(
    {
        "temperature", "top_p", "top_k", "min_p", "stop", "stop_token_ids", "ignore_eos",
        "frequency_penalty", "presence_penalty", "repetition_penalty", "skip_special_tokens",
    }
)  # fmt: skip
"""Keys of a chat request that are sampling parameters of ``/generate``; it refuses all others."""


def request_of(
    api: Api,
    model: str,
    messages: Sequence[Message],
    *,
    max_output_tok: int,
    temperature: float,
    extra: Mapping[str, Any],
) -> tuple[str, bytes]:
    """Path and body of a streamed request that asks for every count a server can give.

    ``continuous_usage_stats`` is SGLang's and vLLM's word for usage in every event (SGLang 0.5.6);
    ``return_spec_tokens_details`` brings the verify passes (SGLang 0.5.19), and
    ``return_cached_tokens_details`` what the prefix cache held, which usage tells only under
    ``--enable-cache-report`` (streamed since SGLang PR 22055);
    ``timings_per_token`` is llama.cpp's word for counts in every event. Servers pass over what they
    do not know.
    """
    body: dict[str, Any]
    if api == "generate":
        sampling = {name: value for name, value in extra.items() if name in _SAMPLING}
        limits = {"temperature": temperature, "max_new_tokens": max_output_tok}
        body = {
            "text": as_text(messages),
            "sampling_params": limits | sampling,
            "stream": True,
        }
    else:
        prompt = {"messages": messages} if api == "chat" else {"prompt": as_text(messages)}
        body = {
            "model": model,
            **prompt,
            "max_tokens": max_output_tok,
            "temperature": temperature,
            **extra,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "return_spec_tokens_details": True,
            "return_cached_tokens_details": True,
            "timings_per_token": True,
        }
    return _PATHS[api], msgspec.json.encode(body)


def as_text(messages: Sequence[Message]) -> str:
    """A conversation as plain text, for the APIs that take no messages.

    One message alone is its content. Several become a transcript: the chat template of the model is
    known to its server only, and draft models guess worse without it (InferenceX #1737).
    """
    if len(messages) == 1:
        return content_of(messages[0])
    lines = [f"{m.get('role', 'user')}: {content_of(m)}" for m in messages]
    return "\n\n".join([*lines, "assistant:"])


def content_of(message: Message) -> str:
    """The text of a message, also where its content is a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def n_chars(messages: Sequence[Message]) -> int:
    """Characters of text in these messages."""
    return sum(len(content_of(message)) for message in messages)
