"""Schedules without sockets and without waiting: the clock jumps from timer to timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.measure.plan import PhasePlan
from autotune.measure.records import RequestRecord
from autotune.measure.schedule import ClosedLoop, OpenLoop
from autotune.workload import Message, Session, Turn, Workload


class _JumpingLoop(asyncio.SelectorEventLoop):
    """Never sleeps: with nothing to do at once, it is the moment of the next timer."""

    _now_s = 0.0

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now_s = max(self._now_s, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run_virtually(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        runner.run(main)


@dataclass
class Sent:
    """One request as the schedule gave it."""

    number: int
    messages: list[Message]
    turn: Turn
    at_s: float
    record: RequestRecord

    @property
    def said(self) -> str:
        return str(self.messages[-1]["content"])


Serves = Callable[[float], float]
"""Seconds from when a request is sent to when its answer ends."""


@dataclass
class FakeLoad:
    """A server that answers ``serves`` seconds after a request; implements ``schedule.Load``."""

    plan: PhasePlan
    workload: Workload
    ends_s: float
    serves: Serves = lambda at_s: 1.0
    context_tok: int | None = None
    fails: Callable[[int], bool] = lambda place: False
    began_s: float = 0.0
    sent: list[Sent] = field(default_factory=list)
    _n_sent: int = 0

    @property
    def is_over(self) -> bool:
        return self.now_s() >= self.ends_s

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def session(self, number: int) -> Session:
        return self.workload.session(number)

    async def sleep_until(self, at_s: float) -> None:
        left_s = min(at_s, self.ends_s) - self.now_s()
        if left_s > 0:  # what is past costs no turn of the event loop, as in a real phase
            await asyncio.sleep(left_s)

    async def send(
        self,
        messages: Sequence[Message],
        turn: Turn,
        session: Session,
        number: int,
        due_s: float | None = None,
    ) -> RequestRecord:
        place, at_s = self._n_sent, self.now_s()
        self._n_sent += 1
        said = list(messages)
        await asyncio.sleep(self.serves(at_s))
        arrivals = ((self.now_s(), 10),)
        record = RequestRecord(
            at_s,
            self.now_s(),
            arrivals,
            text=f"real answer {place}",
            n_prompt_tok=sum(len(str(m["content"])) for m in said) // 4,
            error="HTTP 500" if self.fails(place) else "",
            session=number,
            due_s=due_s,
        )
        self.sent.append(Sent(number, said, turn, at_s, record))
        return record

    def in_flight(self, at_s: float) -> int:
        return sum(s.at_s <= at_s < s.record.done_s for s in self.sent)


def play(load: FakeLoad) -> list[Sent]:
    """What the schedule sent, in the order of sending."""

    async def main() -> None:
        schedule = OpenLoop(load) if load.plan.open_loop else ClosedLoop(load)
        await asyncio.gather(*schedule.workers())

    run_virtually(main())
    load.sent.sort(key=lambda sent: sent.at_s)
    return load.sent


def by_session(sent: Sequence[Sent]) -> Iterator[list[Sent]]:
    """The requests of each session, in order."""
    for number in dict.fromkeys(s.number for s in sent):
        yield [s for s in sent if s.number == number]
