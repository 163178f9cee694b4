"""Who sends what, and when: closed loop, session replay, open loop.

A schedule only decides; sending, stamping and the window belong to the ``Load`` it plays on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count, islice
from random import Random
from typing import Protocol

from autotune.errors import WorkloadError
from autotune.measure.plan import PhasePlan
from autotune.measure.prompt import n_chars
from autotune.measure.records import RequestRecord
from autotune.workload.model import Message, Session, Turn, Workload

_AHEAD = 4
"""Sessions that are made before somebody asks for them."""
_TEXT_MARGIN = 1.6
"""How many more tokens per character a new text may have than the text before it."""
_DENSEST_CHARS_PER_TOK = 3.0
"""Characters per token to expect of text whose tokens nobody has counted yet, at least."""


class Load(Protocol):
    """What a schedule plays on."""

    @property
    def plan(self) -> PhasePlan: ...
    @property
    def workload(self) -> Workload: ...
    @property
    def began_s(self) -> float: ...
    @property
    def context_tok(self) -> int | None:
        """Tokens that prompt and answer may have together on this server; None: unknown."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be sent."""
        ...

    async def send(
        self,
        messages: Sequence[Message],
        turn: Turn,
        session: Session,
        number: int,
        due_s: float | None = None,
    ) -> RequestRecord: ...

    async def sleep_until(self, at_s: float) -> None:
        """Returns at ``at_s`` server seconds, or earlier once it is over."""
        ...

    def now_s(self) -> float: ...

    async def session(self, number: int) -> Session:
        """Session ``number`` of the workload, made without holding up the event loop."""
        ...


class _Stock:
    """Sessions made before they are needed: making one takes longer than many tokens."""

    def __init__(self, load: Load, numbers: Iterator[int]) -> None:
        self._load, self._numbers = load, numbers
        self._made: deque[tuple[int, asyncio.Task[Session]]] = deque()

    async def take(self) -> tuple[int, Session] | None:
        """The next session with its number; None where there is none, or it is over."""
        for number in islice(self._numbers, 1 + _AHEAD - len(self._made)):
            self._made.append((number, asyncio.create_task(self._load.session(number))))
        if self._load.is_over or not self._made:
            return None
        number, making = self._made.popleft()
        return number, await making


class ClosedLoop:
    """C workers, each playing session after session: a new one starts the moment one ends.

    Each worker joins its first session somewhere in the middle, with the recorded answers as its
    past, as on a server that has been busy for long; otherwise all C contexts would be short at the
    start and grow together.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._stock = _Stock(load, count(load.plan.first_session))

    def workers(self) -> Iterator[asyncio.Task[None]]:
        for _ in range(self._load.plan.concurrency):
            yield asyncio.create_task(self._work())

    async def _work(self) -> None:
        stay = self._load.plan.stay_turns
        is_first = True
        while (taken := await self._stock.take()) is not None:
            number, session = taken
            middle = is_first or stay is not None
            first = entry(session, number, self._load.context_tok) if middle else 0
            last = len(session.turns) if stay is None else min(len(session.turns), first + stay)
            await _play(self._load, session, number, first, last)
            is_first = False


class OpenLoop:
    """Requests that are due at moments of their own, whatever became of those before.

    At a rate, each is one turn of a session of its own, joined anywhere; moments are Poisson.
    In a replay, sessions begin when the trace says, and their turns follow after its gaps.

    Raises:
        WorkloadError: the workload has no arrival times to replay.
    """

    def __init__(self, load: Load) -> None:
        self._load, plan = load, load.plan
        self._rng = Random(plan.first_session)
        self._due_s = self._first_start_s = 0.0
        numbers: Iterator[int] = count(plan.first_session)
        if plan.replay:
            self._first_start_s, numbers = _in_order_of_arrival(load.workload)
        self._stock = _Stock(load, numbers)

    def workers(self) -> Iterator[asyncio.Task[None]]:
        self._due_s = self._load.began_s
        yield asyncio.create_task(self._arrive())

    async def _arrive(self) -> None:
        load = self._load
        try:
            async with asyncio.TaskGroup() as sessions:
                while (taken := await self._stock.take()) is not None:
                    number, session = taken
                    due_s = self._next_due_s(session)
                    await load.sleep_until(due_s)
                    if load.is_over:
                        break
                    sessions.create_task(self._play(session, number, due_s))
                    await asyncio.sleep(0)  # or arrivals that are all past would starve the rest
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    def _next_due_s(self, session: Session) -> float:
        rate = self._load.plan.rate_req_s
        if rate is None:
            return self._load.began_s + (session.start_s or 0.0) - self._first_start_s
        self._due_s += self._rng.expovariate(rate)
        return self._due_s

    async def _play(self, session: Session, number: int, due_s: float) -> None:
        if self._load.plan.replay:
            await _play(self._load, session, number, 0, len(session.turns), due_s)
        else:
            first = entry(session, number, self._load.context_tok)
            await _play(self._load, session, number, first, first + 1, due_s)


async def _play(
    load: Load,
    session: Session,
    number: int,
    first: int,
    last: int,
    due_s: float | None = None,
) -> None:
    """Plays the turns ``first`` to ``last`` (excluded), feeding back the real answers."""
    messages = past(session, first)
    before: RequestRecord | None = None
    for turn in session.turns[first:last]:
        if before is not None:
            due_s = await _wait_the_gap(load, turn, before)
        if load.is_over:
            return
        messages = list(turn.messages) if turn.fresh else [*messages, *turn.messages]
        if before is not None and not _fits(load.context_tok, before, messages, turn):
            return
        before = await load.send(messages, turn, session, number, due_s)
        if not before.ok:
            return  # without the answer the rest of the session makes no sense
        messages.append(_answer(before.text))


async def _wait_the_gap(load: Load, turn: Turn, before: RequestRecord) -> float | None:
    """Waits as long as the tool or the person took; when the turn is due, of an open loop."""
    if not (load.plan.gaps or load.plan.replay):
        return None
    due_s = before.done_s + turn.gap_s
    await load.sleep_until(due_s)
    return due_s if load.plan.open_loop else None


def past(session: Session, first: int) -> list[Message]:
    """Everything said before turn ``first``, with the recorded answers."""
    messages: list[Message] = []
    for turn in session.turns[:first]:
        messages = list(turn.messages) if turn.fresh else [*messages, *turn.messages]
        messages.append(_answer(turn.answer or ""))
    return messages


def entry(session: Session, number: int, context_tok: int | None) -> int:
    """The turn at which session ``number`` is joined: any whose past is recorded and fits."""
    joinable = 1
    while joinable < len(session.turns) and session.turns[joinable - 1].answer:
        joinable += 1
    first = Random(number).randrange(joinable)
    while first and context_tok is not None and not _fits_unseen(session, first, context_tok):
        first -= 1
    return first


def _fits_unseen(session: Session, first: int, context_tok: int) -> bool:
    turn = session.turns[first]
    prompt = [*(() if turn.fresh else past(session, first)), *turn.messages]
    return n_chars(prompt) / _DENSEST_CHARS_PER_TOK + turn.max_output_tok < context_tok


def _fits(
    context_tok: int | None, last: RequestRecord, messages: Sequence[Message], turn: Turn
) -> bool:
    """Whether the turn that ends ``messages`` still fits the context of the server.

    Only the server's tokenizer knows the length of new text: it is taken from the text that was
    sent before, with a margin for text of another kind, so that a session rather ends a turn
    early than is refused.
    """
    if context_tok is None or turn.fresh:
        return True
    sent = messages[: -len(turn.messages) - 1]
    tok_per_char = last.n_prompt_tok / max(1, n_chars(sent))
    new_tok = _TEXT_MARGIN * tok_per_char * n_chars(turn.messages)
    return last.n_prompt_tok + last.n_output_tok + new_tok + turn.max_output_tok < context_tok


def _answer(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _in_order_of_arrival(workload: Workload) -> tuple[float, Iterator[int]]:
    """When the first session begins, and the numbers of all in the order in which they do.

    Raises:
        WorkloadError: the workload has no arrival times.
    """
    first_s = workload.start_s(0)
    if first_s is None:
        raise WorkloadError(
            f"the workload {workload.name} has no arrival times to replay",
            hint="give a rate instead",
        )
    if workload.n_sessions is None:
        return first_s, count()
    starts = sorted((workload.start_s(n) or 0.0, n) for n in range(workload.n_sessions))
    return starts[0][0], iter([number for _, number in starts])
