"""The JSON documents of an answer, streamed or not, to tokens over time.

Three shapes: ``/v1/chat/completions``, ``/v1/completions`` and SGLang's ``/generate``. They are
decoded into typed structs, which is cheaper than into dictionaries. What a measurement stands on is
typed; what it can do without is taken as it comes, so that a new shape of a detail costs the detail
and not the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import msgspec


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct, gc=False):
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    """``delta`` of a streamed choice, ``message`` of a whole one."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    """vLLM's newer name of ``reasoning_content``; some versions send both, with one text."""
    tool_calls: list[_ToolCall] | None = None


class _Details(msgspec.Struct, gc=False):
    """``meta_info``, or ``sglext.spec_tokens_details``, which repeats a part of it."""

    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    finish_reason: Any = None
    cached_tokens: Any = None
    spec_verify_ct: Any = None
    spec_correct_drafts_histogram: Any = None
    """SGLang 0.5.12; before that ``spec_accept_histogram`` (0.5.9), by the same count."""
    spec_accept_histogram: Any = None
    total_retractions: Any = None
    num_retractions: Any = None
    queue_time: Any = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: Any = None
    meta_info: Any = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: Any = None


class _Usage(msgspec.Struct, gc=False):
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None


class _Timings(msgspec.Struct, gc=False):
    """llama.cpp's own counts: with every event once ``timings_per_token`` asks for it."""

    predicted_n: int | None = None
    prompt_n: int | None = None
    cache_n: int | None = None
    draft_n: int | None = None
    """Absent until a token has been drafted."""
    draft_n_accepted: int | None = None


class _Document(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: _Timings | None = None
    meta_info: _Details | None = None
    text: str | None = None
    output_ids: list[int] | None = None
    sglext: Any = None
    error: Any = None
    object: Any = None
    message: Any = None


_CACHES = ("device", "host", "storage")
"""Where SGLang may have found the beginning of a prompt."""
_DECODER = msgspec.json.Decoder(_Document | list[Any] | float | str | bool | None)
_Part = TypeVar("_Part", str, list[int])


@dataclass(slots=True)
class Tally:
    """What the documents of one answer add up to.

    Attributes:
        n_total_tok: output tokens told so far.
        unreadable: the first document that is none, or has a shape no server gives it.
        ended: the closing mark of the stream came.
    """

    n_total_tok: int = 0
    n_prompt_tok: int = 0
    n_verify: int = 0
    n_cached_tok: int | None = None
    accept_histogram: tuple[int, ...] = ()
    n_retractions: int = 0
    queue_s: float | None = None
    finish_reason: str = ""
    error: str = ""
    unreadable: bytes = b""
    ended: bool = False
    _counted: list[tuple[float, int]] = field(default_factory=list)
    _uncounted: list[tuple[float, int]] = field(default_factory=list)
    """``(time, characters)`` of the text whose tokens nobody has told yet."""
    _pieces: list[str] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    """What ``/generate`` sent: cumulative, unless the server was told otherwise."""
    _ids: list[tuple[float, list[int]]] = field(default_factory=list)

    @property
    def aborted(self) -> bool:
        return self.finish_reason == "abort"

    @property
    def text(self) -> str:
        """The answer: reasoning, visible text, arguments of tool calls, as they came."""
        if self._texts and _is_cumulative(self._texts):
            return self._texts[-1]
        return "".join(self._texts or self._pieces)

    @property
    def arrivals(self) -> tuple[tuple[float, int], ...]:
        """Token counts over time."""
        if self._counted or not self._ids:
            return tuple(self._counted)
        lists = [ids for _, ids in self._ids]
        lengths = [len(ids) for ids in lists]
        if not _is_cumulative(lists):
            lengths = [sum(lengths[: place + 1]) for place in range(len(lengths))]
        grown = zip(self._ids, lengths, [0, *lengths], strict=False)
        return tuple((at_s, n_tok) for (at_s, _), n_tok, before in grown if n_tok > before)

    @property
    def uncounted(self) -> tuple[tuple[float, int], ...]:
        """``(time, characters)`` of the text that came after the last count; token ids count."""
        return () if self._ids else tuple(self._uncounted)

    def read(self, at_s: float, data: bytes) -> None:
        """One JSON document; what is no object is passed over. Never raises."""
        try:
            document = _DECODER.decode(data)
        except ValueError:
            self.unreadable = self.unreadable or data
            return
        if not isinstance(document, _Document):
            return
        if document.error or document.object == "error":
            self.error = _error_text(document)
        elif document.meta_info is not None:
            self._take_generate(at_s, document, document.meta_info)
        else:
            self._take_openai(at_s, document)

    def _take_generate(self, at_s: float, document: _Document, meta: _Details) -> None:
        text = document.text or ""
        before = self._texts[-1] if self._texts else ""
        n_chars = len(text) - len(before) if text.startswith(before) else len(text)
        self._texts.append(text)
        if meta.completion_tokens is None:
            self._ids.append((at_s, document.output_ids or []))
        self._count(at_s, n_chars, meta.completion_tokens)
        self.n_prompt_tok = meta.prompt_tokens or self.n_prompt_tok
        self._take_details(meta)

    def _take_openai(self, at_s: float, document: _Document) -> None:
        n_chars = 0
        for choice in document.choices or ():
            delta = choice.delta or choice.message
            piece = choice.text or ""
            if delta is not None:
                piece += (delta.reasoning_content or delta.reasoning or "") + (delta.content or "")
                if delta.tool_calls:
                    called, n_name_chars = _calls(delta.tool_calls)
                    piece += called
                    n_chars += n_name_chars
            if piece:
                self._pieces.append(piece)
                n_chars += len(piece)
            if choice.finish_reason:
                self._finish(choice.finish_reason)
            if choice.meta_info:
                self._take_any(choice.meta_info)
        usage, timings = document.usage, document.timings
        told = usage.completion_tokens if usage is not None else None
        if timings is not None:
            told = timings.predicted_n if told is None else told
            self._take_timings(timings)
        self._count(at_s, n_chars, told)
        if usage is not None:
            self.n_prompt_tok = usage.prompt_tokens or self.n_prompt_tok
            if usage.prompt_tokens_details is not None:
                self._take_cached(usage.prompt_tokens_details.cached_tokens)
        if document.sglext and isinstance(document.sglext, dict):
            self._take_sglext(document.sglext)

    def _take_sglext(self, told: dict[str, Any]) -> None:
        """SGLang's details of an OpenAI answer, those it was asked for.

        It leaves out ``cached_tokens_details`` where nothing was cached, and whoever tells of
        speculation knows that key (0.5.19).
        """
        self._take_any(told)
        self._take_any(told.get("spec_tokens_details"))
        cached = told.get("cached_tokens_details")
        if isinstance(cached, dict):
            parts = (_whole(cached.get(place)) for place in _CACHES)
            self.n_cached_tok = sum(part for part in parts if part is not None)
        elif "spec_tokens_details" in told and self.n_cached_tok is None:
            self.n_cached_tok = 0

    def _take_timings(self, timings: _Timings) -> None:
        """Of llama.cpp, which names drafted tokens and not passes: each pass yields one token
        beside those it accepted. The first token is the prompt's.
        """
        self.n_prompt_tok = (timings.prompt_n or 0) + (timings.cache_n or 0) or self.n_prompt_tok
        if timings.draft_n:
            passes = (timings.predicted_n or 0) - (timings.draft_n_accepted or 0) - 1
            self.n_verify = max(1, passes)

    def _take_any(self, value: Any) -> None:  # noqa: ANN401 (whatever JSON holds)
        """Details in a place where nothing is promised."""
        try:
            self._take_details(msgspec.convert(value, _Details))
        except msgspec.ValidationError:
            return

    def _take_details(self, details: _Details) -> None:
        """Per-request values; what an event does not tell stays as it was."""
        self._take_cached(details.cached_tokens)
        self.n_verify = _whole(details.spec_verify_ct) or self.n_verify
        histogram = details.spec_correct_drafts_histogram or details.spec_accept_histogram
        if isinstance(histogram, list) and all(_whole(n) is not None for n in histogram):
            self.accept_histogram = tuple(histogram)
        thrown = _whole(details.total_retractions), _whole(details.num_retractions)
        self.n_retractions = max(self.n_retractions, thrown[0] or thrown[1] or 0)
        if isinstance(details.queue_time, int | float):
            self.queue_s = float(details.queue_time)
        if details.finish_reason:
            self._finish(details.finish_reason)

    def _take_cached(self, n_tok: object) -> None:
        told = _whole(n_tok)
        self.n_cached_tok = self.n_cached_tok if told is None else told

    def _finish(self, reason: object) -> None:
        """``/generate`` tells a dictionary, OpenAI a word."""
        self.finish_reason = str(reason.get("type") if isinstance(reason, dict) else reason)

    def _count(self, at_s: float, n_chars: int, so_far: int | None) -> None:
        """Takes the tokens told with an event of so many characters (None: nothing was told).

        An event whose count grew brought tokens, whether its text shows them or not. Text without
        a count waits for the next one, which is then spread over it by length.
        """
        if so_far is None:
            if n_chars:
                self._uncounted.append((at_s, n_chars))
            return
        before = self.n_total_tok
        if so_far > before:
            self.n_total_tok = so_far
            if self._uncounted:
                self._spread(before, at_s, n_chars)
            else:
                self._counted.append((at_s, so_far))
        if self._uncounted:
            self._uncounted.clear()

    def _spread(self, before: int, at_s: float, n_chars: int) -> None:
        events = [*self._uncounted, (at_s, n_chars)] if n_chars else self._uncounted
        total_chars, said = sum(n for _, n in events), 0
        for event_s, n in events:
            said += n
            share = max(1, round((self.n_total_tok - before) * said / total_chars))
            self._counted.append((event_s, before + share))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _is_cumulative(parts: Sequence[_Part]) -> bool:
    """Whether each part repeats the one before it. The most decide: a stop string that is cut off
    at the end shortens the last text, and a short piece may begin as the one before it.
    """
    repeats = [part[: len(before)] == before for before, part in pairwise(parts)]
    return 2 * sum(repeats) > len(repeats) or not repeats


def _calls(calls: Sequence[_ToolCall]) -> tuple[str, int]:
    """Arguments of tool calls, and the characters of their names: both are tokens."""
    functions = [call.function for call in calls if call.function is not None]
    return "".join(f.arguments or "" for f in functions), sum(len(f.name or "") for f in functions)


def _error_text(document: _Document) -> str:
    error = document.error or document.message
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or "the server reported an error in the stream")
