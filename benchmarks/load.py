"""The load of the benchmarks: scripts, the workload made of them, request bodies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import msgspec

from autotune.measure.prompt import request_of
from autotune.workload.model import Message, Session, Turn, Workload
from benchmarks.script import MAX_EVENTS, Script

PROMPT = " ".join(f"line {n}: what does this function return?" for n in range(100))
"""Some 4 kB, so that sending is no smaller than it is in practice."""


@dataclass(frozen=True, slots=True)
class Load:
    """So many requests at a time, each an answer of known pace.

    Attributes:
        ttft_s: shortest time to the first token; the longest is twice as long.
        gap_s: between the events of one answer.
        n_events: events of an answer, on average; they vary by a third.
        lockstep: all answers advance at once, as in a batch.
    """

    concurrency: int
    ttft_s: float
    gap_s: float
    n_events: int
    lockstep: bool = False

    def script(self, number: int) -> Script:
        """The script of request ``number``, the same every time."""
        random = Random(number)
        spread = self.n_events // 3
        return Script(
            number=number,
            ttft_s=self.ttft_s * random.uniform(1.0, 2.0),
            gap_s=self.gap_s,
            n_events=min(MAX_EVENTS, self.n_events + random.randint(-spread, spread)),
            lockstep=self.lockstep,
        )

    def scripts(self, n_requests: int) -> Iterator[Script]:
        return (self.script(number) for number in range(n_requests))

    def session(self, number: int, context_tok: int | None = None) -> Session:
        """One turn, whose script goes along as keys of the request body."""
        turn = Turn(messages=tuple(messages_of(number)), max_output_tok=8192)
        return Session(turns=(turn,), extra=extra_of(self.script(number)))

    def workload(self) -> Workload:
        return Workload(
            name="scripted",
            title="answers of known pace",
            reference_output_tok=216,
            temperature=0.7,
            source=self.session,
        )


def messages_of(number: int) -> list[Message]:
    return [{"role": "user", "content": f"Question {number}. {PROMPT}"}]


def extra_of(script: Script) -> dict[str, object]:
    """The keys that tell the scripted server what to do."""
    return dict(msgspec.structs.asdict(script))


def body_of(script: Script) -> tuple[str, bytes]:
    """Path and body of the request, the same bytes for every client."""
    return request_of(
        "chat",
        "scripted",
        messages_of(script.number),
        max_output_tok=8192,
        temperature=0.7,
        extra=extra_of(script),
    )
