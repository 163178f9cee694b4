"""One request over HTTP: reading the three request shapes, writing the three answer shapes."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from autotune.engine.simulated import text
from autotune.engine.simulated.arguments import ServerOptions
from autotune.engine.simulated.batch import Request
from autotune.engine.simulated.prefix_cache import Piece

Shape = Literal["generate", "completion", "chat"]
_SHAPES: dict[str, Shape] = {
    "/generate": "generate",
    "/v1/completions": "completion",
    "/v1/chat/completions": "chat",
}
_DEFAULT_MAX_TOK: dict[Shape, int] = {"generate": 128, "completion": 16, "chat": 4096}
_ROLE_TOK = 4
"""Tokens of the chat template around each message."""

_encode = msgspec.json.encode


class RequestError(Exception):
    """A request that SGLang answers with 400."""


@dataclass(slots=True)
class Generation:
    """An answer in the making."""

    shape: Shape
    request: Request
    tokens: list[str]
    model: str
    stream: bool
    include_usage: bool
    usage_in_chunks: bool
    spec_details: bool
    cached_details: bool
    cache_report: bool
    """Of ``--enable-cache-report``: without it, OpenAI's usage tells nothing of the cache."""
    ignores_end: bool
    speculates: bool
    rid: str = ""
    created: int = 0
    _clock: Callable[[], float] = field(default=lambda: 0.0)
    _began_s: float = 0.0
    _aborted: bool = False

    def begin(self, rid: str, created: int, clock: Callable[[], float]) -> None:
        self.rid, self.created, self._clock, self._began_s = rid, created, clock, clock()

    def advance(self, n_tok: int, finished: bool) -> Iterator[bytes]:
        """Events for ``n_tok`` new tokens, and the closing ones when finished."""
        self._aborted = self._aborted or self.request.aborted
        if not self.stream:
            return
        if self.shape == "generate":
            if n_tok or finished:
                yield _encode(self._generate_document(finished))
            return
        if n_tok:
            emitted = self.request.n_emitted
            piece = "".join(self.tokens[emitted - n_tok : emitted])
            if self.shape == "chat" and emitted == n_tok:
                yield self._chunk({"role": "assistant", "content": "", "reasoning_content": None})
            yield self._chunk({"content": piece, "reasoning_content": None}, used=True)
        if finished:
            yield from self._closing_chunks()

    def document(self) -> dict[str, Any]:
        """The whole answer, not streamed."""
        if self.shape == "generate":
            return self._generate_document(finished=True)
        answer = "".join(self.tokens[: self.request.n_emitted])
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": self._reason()}
        if self.shape == "chat":
            choice["message"] = {
                "role": "assistant", "content": answer, "reasoning_content": None,
                "tool_calls": None,
            }  # fmt: skip
        else:
            choice["text"] = answer
        document = self._envelope([choice], streamed=False) | {"usage": self._usage()}
        if details := self._details():
            document["sglext"] = details
        return document

    # ---- OpenAI shapes ------------------------------------------------------------------------

    def _chunk(
        self, delta: dict[str, Any], *, used: bool = False, reason: str | None = None
    ) -> bytes:
        choice: dict[str, Any] = {"index": 0}
        if self.shape == "chat":
            choice["delta"] = delta
        else:
            choice["text"] = delta.get("content", "")
        choice |= {"logprobs": None, "finish_reason": reason}
        chunk = self._envelope([choice])
        if used and self.usage_in_chunks:
            chunk["usage"] = self._usage()
        return _encode(chunk)

    def _closing_chunks(self) -> Iterator[bytes]:
        yield self._chunk({"reasoning_content": None}, reason=self._reason())
        if details := self._details():
            yield _encode(self._envelope([]) | {"usage": None, "sglext": details})
        if self.include_usage:
            yield _encode(self._envelope([]) | {"usage": self._usage()})

    def _envelope(self, choices: list[dict[str, Any]], streamed: bool = True) -> dict[str, Any]:
        kind = "text_completion"
        if self.shape == "chat":
            kind = "chat.completion.chunk" if streamed else "chat.completion"
        return {
            "id": self.rid, "object": kind, "created": self.created, "model": self.model,
            "choices": choices,
        }  # fmt: skip

    def _usage(self) -> dict[str, Any]:
        prompt_tok, output_tok = self.request.prompt_tok, self.request.n_emitted
        cached = {"cached_tokens": self.request.cached_tok} if self.cache_report else None
        return {
            "prompt_tokens": prompt_tok,
            "total_tokens": prompt_tok + output_tok,
            "completion_tokens": output_tok,
            "prompt_tokens_details": cached,
            "reasoning_tokens": 0,
        }

    def _details(self) -> dict[str, Any]:
        """``sglext``: what was asked for and is not nothing."""
        details: dict[str, Any] = {}
        if self.cached_details and self.request.cached_tok:
            details["cached_tokens_details"] = {"device": self.request.cached_tok, "host": 0}
        if self.spec_details and self.speculates:
            details["spec_tokens_details"] = self._spec_details()
        return details

    def _reason(self) -> str:
        if self._aborted:
            return "abort"
        return "length" if self.ignores_end or self._was_cut else "stop"

    @property
    def _was_cut(self) -> bool:
        return self.request.output_tok < len(self.tokens)

    # ---- SGLang's own shape -------------------------------------------------------------------

    def _generate_document(self, finished: bool) -> dict[str, Any]:
        tokens = self.tokens[: self.request.n_emitted]
        meta: dict[str, Any] = {
            "id": self.rid,
            "finish_reason": self._finish_reason() if finished else None,
            "prompt_tokens": self.request.prompt_tok,
            "completion_tokens": self.request.n_emitted,
            "cached_tokens": self.request.cached_tok,
            "num_retractions": self.request.n_retractions,
        }
        if finished:
            meta["e2e_latency"] = self._clock() - self._began_s
            if self.speculates:
                meta |= self._spec_details()
        ids = text.token_ids(tokens)
        return {"text": "".join(tokens), "output_ids": ids, "meta_info": meta}

    def _finish_reason(self) -> dict[str, Any]:
        reason = self._reason()
        return {"type": reason} | ({"length": self.request.n_emitted} if reason == "length" else {})

    def _spec_details(self) -> dict[str, Any]:
        request = self.request
        histogram = Counter(accepted - 1 for accepted in request.accept_histogram)
        deepest = max(histogram, default=0)
        cycles = max(1, request.n_verify)
        return {
            "spec_accept_length": request.n_emitted / cycles,
            "spec_num_correct_drafts": sum(request.accept_histogram) - request.n_verify,
            "spec_verify_ct": request.n_verify,
            "spec_correct_drafts_histogram": [histogram[i] for i in range(deepest + 1)],
        }


def read_generation(path: str, body: dict[str, Any], options: ServerOptions) -> Generation:
    """Reads a request body of any of the three shapes.

    Raises:
        RequestError: a field is missing or of the wrong type.
    """
    shape = _SHAPES[path]
    pieces, seed = _read_prompt(shape, body)
    sampling = _mapping(body, "sampling_params") if shape == "generate" else body
    max_tok = min(_read_max_tok(shape, sampling), options.scenario.machine.context_tok)
    ignores_end = bool(sampling.get("ignore_eos", False))
    loops = text.falls_into_a_loop(seed, options.defects.looping_answers)
    natural_tok = max_tok if ignores_end or loops else text.answer_length(seed, 1 << 30)
    tokens = text.answer_tokens(seed, natural_tok, loops=loops)
    n_tok = min(max_tok, natural_tok)
    request = Request(pieces, n_tok, text.pieces_of("".join(tokens[:n_tok])))
    wants = _mapping(body, "stream_options")
    return Generation(
        shape=shape,
        request=request,
        tokens=tokens,
        model=str(body.get("model") or options.served_model_name),
        stream=bool(body.get("stream", False)),
        include_usage=bool(wants.get("include_usage", False)),
        usage_in_chunks=bool(wants.get("continuous_usage_stats", False)),
        spec_details=bool(body.get("return_spec_tokens_details", False)),
        cached_details=bool(body.get("return_cached_tokens_details", False)),
        cache_report=bool(options.resolved["enable_cache_report"]),
        ignores_end=ignores_end or loops,
        speculates=options.deployment.speculation.is_on or options.adaptive is not None,
    )


def _mapping(body: dict[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name) or {}
    if not isinstance(value, dict):
        raise RequestError(f"{name} must be a JSON object, got {value!r}.")
    return value


def _read_max_tok(shape: Shape, sampling: dict[str, Any]) -> int:
    names = {"generate": ("max_new_tokens",)}.get(shape, ("max_completion_tokens", "max_tokens"))
    value = next((sampling[n] for n in names if sampling.get(n) is not None), None)
    if value is None:
        return _DEFAULT_MAX_TOK[shape]
    if type(value) is not int or value < 1:
        raise RequestError(f"{names[-1]} must be at least 1, got {value!r}.")
    return value


def _read_prompt(shape: Shape, body: dict[str, Any]) -> tuple[tuple[Piece, ...], int]:
    """Pieces of the prompt, and a seed that is the same for the same prompt in any process."""
    if shape == "chat":
        return _read_messages(body.get("messages"))
    ids = body.get("input_ids")
    prompt = body.get("text") if shape == "generate" else body.get("prompt")
    if isinstance(ids, list) and ids and all(type(i) is int for i in ids):
        pieces, raw = text.pieces_of_ids(ids), repr(ids)
    elif isinstance(prompt, str) and prompt:
        pieces, raw = text.pieces_of(prompt), prompt
    else:
        raise RequestError("a prompt is required: one non-empty string, or input_ids")
    return pieces, zlib.crc32(raw.encode())


def _read_messages(messages: object) -> tuple[tuple[Piece, ...], int]:
    if not isinstance(messages, list) or not messages:
        raise RequestError("messages must be a non-empty list")
    pieces: list[Piece] = []
    seed = 0
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, str):
            raise RequestError("each message needs a role and a text content")
        role = str(message.get("role"))
        pieces.append(Piece(hash(role), _ROLE_TOK))
        pieces.extend(text.pieces_of(content))
        seed = zlib.crc32(content.encode(), zlib.crc32(role.encode(), seed))
    # The template ends with the head of the answer, which the next turn so finds in the cache.
    pieces.append(Piece(hash("assistant"), _ROLE_TOK))
    return tuple(pieces), seed
