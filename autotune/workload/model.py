"""Sessions and turns: the load, without saying how it is sent.

Lengths are tokens, times are seconds. A session file is one ``Session`` per line, as JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

Message = dict[str, Any]
"""One chat message as it is sent: ``role``, ``content``, and whatever else the format carries."""

GapKind = Literal["tool", "human"]
STREAM = 100_000
"""Sessions are numbered in streams of so many; each phase of a launch plays a stream of its own."""
_HELD_OUT_FROM = 1_000_000_000
"""Number of the first held-out session of an endless workload."""
_GOLDEN = 0.381966
"""Steps of this share of a circle keep any number of starting points far apart."""


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request of a session: what the user (or a tool) says next.

    Attributes:
        messages: the messages since the answer before, at least one.
        max_output_tok: cap of the answer; the natural end usually comes first.
        gap_s: pause between the end of the answer before and this request, >= 0.
        gap_kind: who is waited for in the pause.
        answer: the recorded answer; None where only the length, or nothing, is known.
        fresh: ``messages`` are the whole prompt, not an addition to what was said before.
        n_input_tok: recorded length of the whole prompt; None where unknown.
        n_output_tok: recorded length of the answer; None where unknown.
    """

    messages: tuple[Message, ...]
    max_output_tok: int
    gap_s: float = 0.0
    gap_kind: GapKind = "tool"
    answer: str | None = None
    fresh: bool = False
    n_input_tok: int | None = None
    n_output_tok: int | None = None


class Session(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation. Each turn is sent with everything said before it, real answers included.

    Attributes:
        turns: at least one.
        session_id: its name in the file it comes from.
        start_s: when it begins, in seconds from the start of the trace; None: no time is known.
        extra: further keys of every request body (``tools``, ``top_p``, …), as the file has them.
        source: where it comes from, for people.
        licence: of the text, as an SPDX name where there is one.
    """

    turns: tuple[Turn, ...]
    session_id: str = ""
    start_s: float | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    source: str = ""
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """A source of sessions: session ``n`` is the same text for every trial and every run.

    Attributes:
        reference_output_tok: length of the reference turn that ``latency_s`` speaks of (n_ref).
        temperature: sampling temperature, as deployed.
        source: makes session ``n`` (0, 1, 2, …) for a context of so many tokens (None: unknown),
            deterministic in both and in the workload's seed.
        n_sessions: how many different ones there are; None: endless. Past the end they repeat.
        n_held_out: sessions after those, kept back for confirmation (finite workloads only).
        context_tok: tokens that prompt and answer may have together; sessions are made to fit.
        first: number of the first session in ``source``.
        starts_s: when each session of ``source`` begins, held-out ones included; empty where no
            time is known, or the workload is endless.
        notes: what a reader of the numbers should know of the text, a sentence each.
    """

    name: str
    title: str
    reference_output_tok: int
    temperature: float
    source: Callable[[int, int | None], Session]
    n_sessions: int | None = None
    n_held_out: int = 0
    context_tok: int | None = None
    first: int = 0
    starts_s: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    def session(self, number: int) -> Session:
        """Session ``number``, >= 0; a finite workload starts over after its last one.

        The streams of a finite workload begin far apart in it, so that phases share sessions, and
        with them the prefix cache, as late as can be.
        """
        return self.source(self.first + self._place(number), self.context_tok)

    def start_s(self, number: int) -> float | None:
        """When session ``number`` begins; None where no time is known."""
        if self.starts_s:
            return self.starts_s[self.first + self._place(number)]
        return self.session(number).start_s

    def _place(self, number: int) -> int:
        if self.n_sessions is None:
            return number
        stream, place = divmod(number, STREAM)
        return (int(stream * _GOLDEN * self.n_sessions) + place) % self.n_sessions

    def sized(self, context_tok: int | None) -> Workload:
        """The same workload for a server with this context; as it is where the context is None."""
        return self if context_tok is None else replace(self, context_tok=context_tok)

    def held_out(self) -> Workload:
        """The sessions that no search trial sees; the workload itself where none are kept back."""
        if self.n_sessions is None:
            return replace(self, first=_HELD_OUT_FROM)
        if self.n_held_out == 0:
            return self
        first = self.first + self.n_sessions
        return replace(self, first=first, n_sessions=self.n_held_out, n_held_out=0)
