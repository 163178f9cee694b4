"""Sessions of which only the lengths are known, and the text that is written for them.

Most public traces hold no text: token counts, arrival times, and hashes of the prompts' blocks.
Such a session stays a few numbers per request until it is asked for; then each block becomes text
that depends on its id alone, so that prompts share prefixes exactly where the recorded ones did.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import takewhile

import msgspec

from autotune.workload.model import GapKind, Session, Turn
from autotune.workload.room import chars_of
from autotune.workload.text.documents import document
from autotune.workload.text.pen import Pen
from autotune.workload.text.prose import prose
from autotune.workload.text.python import python

CHARS_PER_TOK = 4.1
"""Characters per token of the text below; single blocks have 3.3 to 5.0 (Qwen's, 5 to 95 %)."""
LENGTH_ONLY = "length-only: the text comes from the built-in corpus"
"""What a reader of the numbers should know."""
_KINDS = (prose, prose, python, document)
_PART_CHARS = 600
"""Length of a piece of one kind: several kinds make a block of 512 tokens."""


class LengthRequest(msgspec.Struct, frozen=True, gc=False):
    """One request. Of its block ids only those are kept that differ from the request before.

    Attributes:
        n_kept: leading blocks that are those of the request before, 0 for the first request.
        blocks: ids of the blocks after them, as an array of 64-bit integers; what the ids do not
            cover of the prompt is text of its own.
    """

    n_input_tok: int
    n_output_tok: int
    gap_s: float
    gap_kind: GapKind
    n_kept: int
    blocks: array[int]


class LengthSession(msgspec.Struct, frozen=True, gc=False):
    """A session without text; its fields are those of ``Session``.

    Attributes:
        block_tok: tokens per block; 0 where no block is known.
    """

    requests: tuple[LengthRequest, ...]
    block_tok: int
    session_id: str
    start_s: float | None = None


Recorded = Session | LengthSession
"""What a file holds."""


def n_requests(session: Recorded) -> int:
    """How many requests a session has."""
    return len(session.requests if isinstance(session, LengthSession) else session.turns)


class Requests:
    """Collects the requests of a session, each as its difference to the one before."""

    def __init__(self) -> None:
        self._requests: list[LengthRequest] = []
        self._before: array[int] = array("q")

    def __len__(self) -> int:
        return len(self._requests)

    def add(
        self,
        n_input_tok: int,
        n_output_tok: int,
        ids: Sequence[int],
        *,
        gap_s: float = 0.0,
        gap_kind: GapKind = "tool",
    ) -> None:
        """The next request; of longer block ids the last 64 bits are kept."""
        try:
            now = array("q", ids)
        except OverflowError:
            now = array("q", [(n + 2**63) % 2**64 - 2**63 for n in ids])
        kept = _n_common(self._before, now) if self._requests else 0
        blocks = now[kept:] if kept else now
        self._requests.append(
            LengthRequest(n_input_tok, n_output_tok, gap_s, gap_kind, kept, blocks)
        )
        self._before = now

    @property
    def before(self) -> Sequence[int]:
        """Block ids of the latest request."""
        return self._before

    def session(self, block_tok: int, session_id: str, start_s: float | None) -> LengthSession:
        return LengthSession(tuple(self._requests), block_tok, session_id, start_s)


def _n_common(before: array[int], now: array[int]) -> int:
    shorter = min(len(before), len(now))
    if before[:shorter] == now[:shorter]:
        return shorter
    return sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))
    )


def prompts(session: LengthSession) -> Iterator[array[int]]:
    """All block ids of each request."""
    ids: array[int] = array("q")
    for request in session.requests:
        ids = ids[: request.n_kept] + request.blocks
        yield ids


class Corpus:
    """Writes the text of length-only sessions: the same for the same seed and ids.

    Args:
        seed: another seed gives other text everywhere.
        name: of the trace, so that two traces do not share blocks by accident.
    """

    def __init__(self, seed: int, name: str = "") -> None:
        self._key = f"{seed}:{name}"

    def block(self, number: int, n_tok: int) -> str:
        """Text of a block: about ``n_tok`` tokens; a shorter block is the start of a longer one."""
        return self._passage(f"{self._key}:{number}", n_tok)

    def own(self, session_id: str, place: int, n_tok: int) -> str:
        """Text that only request ``place`` of this session holds."""
        return self._passage(f"{self._key}:{session_id}/{place}", n_tok)

    def session(self, lengths: LengthSession) -> Session:
        """The session with its text: each turn has its whole prompt, as the trace has it."""
        written: dict[int, str] = {}
        turns = tuple(
            Turn(
                ({"role": "user", "content": self._prompt(lengths, place, ids, written)},),
                max_output_tok=max(1, request.n_output_tok),
                gap_s=request.gap_s,
                gap_kind=request.gap_kind,
                fresh=True,
                n_input_tok=request.n_input_tok,
                n_output_tok=request.n_output_tok,
            )
            for place, (request, ids) in enumerate(
                zip(lengths.requests, prompts(lengths), strict=True)
            )
        )
        return Session(turns, session_id=lengths.session_id, start_s=lengths.start_s)

    def _prompt(
        self, lengths: LengthSession, place: int, ids: Sequence[int], written: dict[int, str]
    ) -> str:
        """The text of a prompt; ``written`` holds the blocks that the session has had so far."""
        n_left = max(1, lengths.requests[place].n_input_tok)
        parts = []
        for number in ids:
            if n_left <= 0:
                break
            if number not in written:
                written[number] = self.block(number, lengths.block_tok)
            parts.append(written[number][: chars_of(n_left, CHARS_PER_TOK)])
            n_left -= lengths.block_tok
        if n_left > 0:
            parts.append(self.own(lengths.session_id, place, n_left))
        return "".join(parts)

    def _passage(self, key: str, n_tok: int) -> str:
        pen = Pen(key)
        n_chars = chars_of(n_tok, CHARS_PER_TOK)
        parts: list[str] = []
        n_written = 0
        while n_written < n_chars:
            part = pen.pick(_KINDS)(pen, _PART_CHARS)
            parts += (part, "\n\n")
            n_written += len(part) + 2
        return "".join(parts)[:n_chars]
