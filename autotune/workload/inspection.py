"""What a stream of sessions looks like: lengths, gaps, arrivals, prefix reuse, varied text or not.

Everything is counted in one pass, in memory that hardly grows with the stream.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from random import Random

from autotune.workload.counting import Bag, Lengths, SeenIds
from autotune.workload.fitting import n_chars
from autotune.workload.lengths import CHARS_PER_TOK, LengthSession, Recorded
from autotune.workload.model import Message, Session, Turn

_BLOCK_CHARS = 256
"""Texts share prefixes in blocks of so many characters, some 64 tokens."""
_N_TEXTS = 64
_TEXT_CHARS = 16_384
_GRAM_WORDS = 4


class Inspection:
    """Counts over sessions.

    Attributes:
        turns: per session.
        input_tok: whole prompts. Of texts without a recorded length they are estimates: characters
            of everything said so far, recorded answers included, by ``CHARS_PER_TOK``.
        output_tok: recorded answers, or estimates from their text.
        gaps_ms: pauses before the second and later turns, by who is waited for.
        n_estimated: prompts and answers whose length is an estimate.
    """

    def __init__(self) -> None:
        self.turns = Lengths()
        self.input_tok = Lengths()
        self.output_tok = Lengths()
        self.gaps_ms = {"tool": Lengths(), "human": Lengths()}
        self.n_estimated = {"input": 0, "output": 0}
        self.n_length_only = 0
        self.temperatures: dict[float, int] = {}
        self.sources: set[str] = set()
        self.licences: set[str] = set()
        self._starts = Bag()
        self._openings = Bag()
        self._seen = SeenIds()
        self._reused_tok = 0.0
        self._reusable_tok = 0.0
        self._texts: list[str] = []
        self._rng = Random(0)

    @property
    def n_sessions(self) -> int:
        return self.turns.n

    @property
    def n_requests(self) -> int:
        return self.turns.total

    def add(self, session: Recorded) -> None:
        """Counts one more session."""
        if session.start_s is not None:
            self._starts.add(session.start_s)
        if isinstance(session, LengthSession):
            self._add_lengths(session)
        else:
            self._add_text(session)

    # ---- lengths ------------------------------------------------------------------------------

    def _add_lengths(self, session: LengthSession) -> None:
        self.n_length_only += 1
        self.turns.add(len(session.requests))
        for place, request in enumerate(session.requests):
            self.input_tok.add(request.n_input_tok)
            self.output_tok.add(request.n_output_tok)
            if place:
                self.gaps_ms[request.gap_kind].add(round(request.gap_s * 1e3))
            if not session.block_tok:
                continue
            n_known = request.n_kept + self._seen.add_all(request.blocks)
            self._reused_tok += min(n_known * session.block_tok, request.n_input_tok)
            self._reusable_tok += request.n_input_tok
        first = session.requests[0]
        if first.blocks:
            self._openings.add(zlib.crc32(first.blocks.tobytes(), first.n_input_tok))

    # ---- texts --------------------------------------------------------------------------------

    def _add_text(self, session: Session) -> None:
        self.turns.add(len(session.turns))
        self._note_origin(session)
        prompt = _Prompt(n_chars(session.extra.get("tools")))
        for place, turn in enumerate(session.turns):
            if turn.fresh:
                prompt = _Prompt(n_chars(session.extra.get("tools")))
            for message in turn.messages:
                prompt.say(message)
            if place:
                self.gaps_ms[turn.gap_kind].add(round(turn.gap_s * 1e3))
            blocks = prompt.new_blocks()
            n_known = prompt.n_old + self._seen.add_all(blocks)
            self._reused_tok += n_known * _BLOCK_CHARS / CHARS_PER_TOK
            self._reusable_tok += prompt.n_chars / CHARS_PER_TOK
            self._add_turn(turn, prompt)
            if turn.answer:
                prompt.say({"role": "assistant", "content": turn.answer})
        opening = "\n".join(map(_asked, session.turns[0].messages))
        self._openings.add(zlib.crc32(opening.encode(errors="replace")))
        self._keep_text(opening)

    def _add_turn(self, turn: Turn, prompt: _Prompt) -> None:
        if turn.n_input_tok is None:
            self.n_estimated["input"] += 1
        n_in = turn.n_input_tok
        self.input_tok.add(round(prompt.n_chars / CHARS_PER_TOK) if n_in is None else n_in)
        if turn.n_output_tok is not None:
            self.output_tok.add(turn.n_output_tok)
        elif turn.answer is not None:
            self.n_estimated["output"] += 1
            self.output_tok.add(round(len(turn.answer) / CHARS_PER_TOK))

    def _note_origin(self, session: Session) -> None:
        temperature = session.extra.get("temperature")
        if isinstance(temperature, int | float):
            key = float(temperature)
            self.temperatures[key] = self.temperatures.get(key, 0) + 1
        if session.source and len(self.sources) < 20:
            self.sources.add(session.source)
        if session.licence and len(self.licences) < 20:
            self.licences.add(session.licence)

    def _keep_text(self, text: str) -> None:
        """A sample of what is asked, the same for the same stream."""
        n_texts = self.n_sessions - self.n_length_only
        if len(self._texts) < _N_TEXTS:
            self._texts.append(text[:_TEXT_CHARS])
        elif (place := self._rng.randrange(n_texts)) < _N_TEXTS:
            self._texts[place] = text[:_TEXT_CHARS]

    # ---- results ------------------------------------------------------------------------------

    @property
    def prefix_reuse(self) -> float | None:
        """Share of all prompt tokens that an endless prefix cache would have; None: not known."""
        return self._reused_tok / self._reusable_tok if self._reusable_tok else None

    @property
    def duplicate_share(self) -> float:
        """Share of the sessions whose first prompt another session has, too."""
        import numpy as np

        keys = np.frombuffer(self._openings.values) if self._openings.values else np.zeros(0)
        return 1 - len(np.unique(keys)) / len(keys) if len(keys) else 0.0

    def arrivals(self) -> tuple[float, float] | None:
        """Sessions per second, and the coefficient of variation of the time between them.

        A Poisson process has 1. None where fewer than three sessions have a time.
        """
        import numpy as np

        times = np.sort(np.frombuffer(self._starts.values)) if self._starts.values else np.zeros(0)
        steps = np.diff(times)
        if len(steps) < 2 or steps.sum() <= 0:
            return None
        return float(1 / steps.mean()), float(steps.std() / steps.mean())

    def compression(self) -> float | None:
        """Compressed size of a sample of the prompts by their size; None of too little text."""
        joined = "\n".join(self._texts).encode(errors="replace")
        return len(zlib.compress(joined, 6)) / len(joined) if len(joined) >= 2_000 else None

    def distinct_grams(self) -> float | None:
        """Share of the sequences of four words in that sample that are there once only."""
        words = "\n".join(self._texts).split()
        grams = list(zip(*(words[i:] for i in range(_GRAM_WORDS)), strict=False))
        return len(set(grams)) / len(grams) if len(grams) >= 500 else None


class _Prompt:
    """What is said so far, as characters and as the hashes of its blocks, each of all before it."""

    def __init__(self, n_chars_before: int) -> None:
        self.n_chars = n_chars_before
        self.n_old = 0
        """Blocks that an earlier request of the session had."""
        self._n_new = 0
        self._rest: list[str] = []
        self._hash = 0

    def say(self, message: Message) -> None:
        self._rest.append(f"\n{message['role']}:")
        self._rest.extend(_strings(message))
        self.n_chars += n_chars(message)

    def new_blocks(self) -> list[int]:
        """The full blocks since the last call; they count as old from then on."""
        text = "".join(self._rest)
        self.n_old += self._n_new
        blocks = []
        for start in range(0, len(text) - _BLOCK_CHARS + 1, _BLOCK_CHARS):
            piece = text[start : start + _BLOCK_CHARS].encode(errors="replace")
            self._hash = zlib.crc32(piece, self._hash)
            blocks.append(self._hash)
        self._rest = [text[len(blocks) * _BLOCK_CHARS :]]
        self._n_new = len(blocks)
        return blocks


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _asked(message: Message) -> str:
    """The text of a message that is not the same in every session."""
    return "" if message["role"] == "system" else "".join(_strings(message.get("content")))
