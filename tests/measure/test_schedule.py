"""Who sends what, and when: on a clock that jumps, so that every moment is exact."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.stats import percentiles
from autotune.errors import WorkloadError
from autotune.measure.plan import PhasePlan, plan_open_loop
from autotune.measure.prompt import n_chars
from autotune.measure.schedule import entry, past
from autotune.workload import Message, Session, Turn, Workload

from .sessions import SHORT, sessions_of
from .virtual import FakeLoad, Sent, by_session, play

LONG = sessions_of(8, answered=True)


def closed(concurrency: int, **more: object) -> PhasePlan:
    return replace(PhasePlan("serving", concurrency, 100, 0), **more)  # type: ignore[arg-type]


def turn_of(sent: Sent) -> int:
    return int(sent.said.split()[3])


# ---- closed loop --------------------------------------------------------------------------------


def test_so_many_are_in_flight_at_every_moment() -> None:
    load = FakeLoad(closed(5), SHORT, ends_s=60.0, serves=lambda at_s: 1.0 + at_s % 0.7)
    play(load)
    assert {load.in_flight(0.3 * n + 0.01) for n in range(190)} == {5}


def test_each_worker_joins_its_first_session_somewhere_in_the_middle() -> None:
    sent = play(FakeLoad(closed(24), LONG, ends_s=40.0))
    firsts = [requests[0] for requests in by_session(sent)]
    joined, later = firsts[:24], firsts[24:]
    assert len({turn_of(request) for request in joined}) >= 5, "not all at the same turn"
    assert later and {turn_of(request) for request in later} == {0}


def test_a_session_joined_midway_has_the_recorded_answers_as_its_past() -> None:
    sent = play(FakeLoad(closed(24), LONG, ends_s=1.0))
    midway = next(request for request in sent if turn_of(request) == 3)
    said = [str(message["content"]) for message in midway.messages]
    n = midway.number
    assert said == [
        "system",
        *(f"session {n} turn 0", f"recorded {n}.0"),
        *(f"session {n} turn 1", f"recorded {n}.1"),
        *(f"session {n} turn 2", f"recorded {n}.2"),
        f"session {n} turn 3",
    ]
    assert [m["role"] for m in midway.messages[1:4]] == ["user", "assistant", "user"]


def test_what_follows_the_joined_turn_has_the_real_answer() -> None:
    sent = play(FakeLoad(closed(1), LONG, ends_s=100.0))
    for before, after in itertools.pairwise(next(by_session(sent))):
        assert after.messages[:-2] == before.messages
        assert after.messages[-2] == {"role": "assistant", "content": before.record.text}


def test_without_recorded_answers_every_session_begins_at_its_beginning() -> None:
    sent = play(FakeLoad(closed(8), sessions_of(6), ends_s=30.0))
    assert {turn_of(requests[0]) for requests in by_session(sent)} == {0}


@pytest.mark.parametrize("stay", [1, 2, 4])
def test_a_phase_that_stays_short_sees_more_sessions_each_from_another_turn(stay: int) -> None:
    sent = play(FakeLoad(closed(1, stay_turns=stay), LONG, ends_s=100.0))
    turns = [[turn_of(request) for request in requests] for requests in by_session(sent)]
    assert all(len(places) <= stay for places in turns)
    assert all(places == list(range(places[0], places[0] + len(places))) for places in turns)
    assert len({places[0] for places in turns}) >= 4
    ended_early = [places for places in turns[:-1] if len(places) < stay]
    assert all(places[-1] == 7 for places in ended_early), "only the end of a session is earlier"


def test_pauses_are_waited_and_fewer_are_in_flight() -> None:
    paused = sessions_of(4, gap_s=3.0)
    load = FakeLoad(closed(6, gaps=True), paused, ends_s=120.0)
    for requests in by_session(play(load)):
        for before, after in itertools.pairwise(requests):
            assert after.at_s == pytest.approx(before.record.done_s + 3.0)
    levels = [load.in_flight(20 + n / 10) for n in range(800)]
    # Of 13 s of a session, 4 s are in flight.
    assert sum(levels) / len(levels) == pytest.approx(6 * 4 / 13, rel=0.1)


def test_without_being_asked_for_pauses_are_not_waited() -> None:
    load = FakeLoad(closed(3), sessions_of(4, gap_s=1e6), ends_s=30.0)
    play(load)
    assert {load.in_flight(n + 0.5) for n in range(29)} == {3}


def test_a_finite_workload_starts_over() -> None:
    sent = play(FakeLoad(closed(2), sessions_of(2, n_sessions=3), ends_s=20.0))
    said = [request.said.split(" turn")[0] for request in sent if turn_of(request) == 0]
    assert said[:7] == [f"session {n % 3}" for n in range(7)]
    numbers = [requests[0].number for requests in by_session(sent)]
    assert numbers == list(range(len(numbers))), "yet each is a session of its own"


def test_a_failed_answer_ends_its_session_only() -> None:
    load = FakeLoad(closed(1), SHORT, ends_s=30.0, fails=lambda place: place % 4 == 1)
    turns = [len(requests) for requests in by_session(play(load))]
    assert turns[:6] == [2, 3, 1, 3, 1, 3]
    assert sum(turns) >= 28


def test_what_does_not_fit_the_context_ends_the_session() -> None:
    growing = sessions_of(20, words=30)
    sent = play(FakeLoad(closed(2), growing, ends_s=200.0, context_tok=1500))
    for request in sent:
        assert request.record.n_prompt_tok + request.turn.max_output_tok < 1500
    lengths = {len(requests) for requests in by_session(sent)}
    assert max(lengths) >= 4, "as many turns as fit are played"


# ---- where a session is joined ------------------------------------------------------------------


def told(answers: list[str | None], *, fresh: bool = False, words: int = 5) -> Session:
    turns = tuple(
        Turn(({"role": "user", "content": f"turn{n} " * words},), 50, answer=said, fresh=fresh)
        for n, said in enumerate(answers)
    )
    return Session(turns)


answers = st.lists(
    st.one_of(st.none(), st.just(""), st.text("ab ", min_size=1, max_size=40)),
    min_size=1,
    max_size=9,
)


@given(answers, st.integers(0, 10_000), st.one_of(st.none(), st.integers(60, 4000)))
def test_a_session_is_joined_only_where_its_past_is_recorded(
    said: list[str | None], number: int, context_tok: int | None
) -> None:
    session = told(said)
    first = entry(session, number, context_tok)
    assert 0 <= first < len(said)
    assert all(said[:first])
    assert first == entry(session, number, context_tok)
    if first and context_tok is not None:
        prompt = [*past(session, first), *session.turns[first].messages]
        assert n_chars(prompt) / 3.0 + 50 < context_tok


def test_every_recorded_turn_is_joined_by_some_session() -> None:
    session = told(["a"] * 5)
    assert {entry(session, number, None) for number in range(200)} == set(range(5))


@given(answers)
def test_the_past_is_what_was_said_with_an_answer_after_each_turn(said: list[str | None]) -> None:
    session = told(said)
    for first in range(len(said)):
        before = past(session, first)
        assert [m["role"] for m in before] == ["user", "assistant"] * first
        assert [m["content"] for m in before[1::2]] == [text or "" for text in said[:first]]


def test_a_fresh_turn_forgets_what_was_said_before() -> None:
    session = told(["a", "b", "c"], fresh=True)
    assert [m["content"] for m in past(session, 2)] == ["turn1 " * 5, "b"]
    workload = Workload("fresh", "fresh", 100, 0.6, lambda number, context_tok: session)
    sent = play(FakeLoad(closed(1), workload, ends_s=9.0))
    assert {len(request.messages) for request in sent} == {1}


# ---- open loop ----------------------------------------------------------------------------------


def offered(rate: float, seconds: float = 200.0) -> PhasePlan:
    return plan_open_loop(rate, seconds)


def stalled(from_s: float, length_s: float, each_s: float) -> Callable[[float], float]:
    """A server that answers within ``each_s``, but for one stall that all wait out."""

    def serves(at_s: float) -> float:
        waits_s = from_s + length_s - at_s if from_s <= at_s < from_s + length_s else 0.0
        return waits_s + each_s

    return serves


@pytest.mark.parametrize("each_s", [0.01, 30.0], ids=["quick server", "slow server"])
def test_an_open_loop_keeps_its_rate_whatever_the_server_does(each_s: float) -> None:
    sent = play(FakeLoad(offered(5.0), SHORT, ends_s=200.0, serves=lambda at_s: each_s))
    assert len(sent) == pytest.approx(1000, abs=110)  # 3.5 standard deviations
    gaps = [after.at_s - before.at_s for before, after in itertools.pairwise(sent)]
    mean_s = sum(gaps) / len(gaps)
    spread = sum((gap - mean_s) ** 2 for gap in gaps) / len(gaps) / mean_s**2
    assert spread == pytest.approx(1.0, abs=0.3), "as those of a Poisson process"
    assert all(s.record.due_s == pytest.approx(s.at_s) for s in sent)
    assert len({s.number for s in sent}) == len(sent), "each is a session of its own"


def test_two_launches_get_the_same_arrivals() -> None:
    first, second = (
        play(FakeLoad(offered(3.0), SHORT, ends_s=50.0, serves=lambda at_s, n=n: float(n)))  # type: ignore[misc]
        for n in (1, 7)
    )
    assert [(s.at_s, s.said) for s in first] == [(s.at_s, s.said) for s in second]


def test_a_stall_shows_in_every_request_that_was_due_meanwhile() -> None:
    """No coordinated omission: a closed loop asks nobody during the stall, an open loop all."""
    serves = stalled(60.0, 3.0, 0.05)
    open_loop = play(FakeLoad(offered(10.0), SHORT, ends_s=100.0, serves=serves))
    closed_loop = play(FakeLoad(closed(1), SHORT, ends_s=100.0, serves=serves))
    late_open = [s for s in open_loop if s.record.ttft_s > 0.1]
    late_closed = [s for s in closed_loop if s.record.ttft_s > 0.1]
    assert len(late_closed) == 1 and 15 <= len(late_open) <= 45
    assert percentiles([s.record.ttft_s for s in closed_loop])["p99"] < 0.1
    assert percentiles([s.record.ttft_s for s in open_loop])["p99"] > 1.0


def test_a_client_that_is_late_counts_from_when_the_request_was_due() -> None:
    class Busy(FakeLoad):
        async def sleep_until(self, at_s: float) -> None:
            await super().sleep_until(at_s + 0.5)

    sent = play(Busy(offered(2.0), SHORT, ends_s=100.0))
    assert all(s.record.ttft_s >= 1.0 for s in sent)
    assert sum(s.record.ttft_s for s in sent) / len(sent) > 1.3


def test_a_rate_that_nobody_can_follow_does_not_starve_the_event_loop() -> None:
    """It would never notice that the window has closed."""

    class Tired(FakeLoad):
        @property
        def is_over(self) -> bool:
            return len(self.sent) >= 50 or self._n_sent > 5000

    sent = play(Tired(offered(1e9), SHORT, ends_s=1e9, serves=lambda at_s: 0.0))
    assert 50 <= len(sent) < 5000


def test_what_goes_wrong_in_a_session_ends_the_open_loop_with_it() -> None:
    class Broken(FakeLoad):
        async def send(self, *args: object, **more: object) -> object:  # type: ignore[override]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        play(Broken(offered(1.0), SHORT, ends_s=1e6))


# ---- replay -------------------------------------------------------------------------------------

REPLAY = plan_open_loop(None, 1e6)


def test_a_replay_sends_at_the_times_of_the_trace_and_after_its_pauses() -> None:
    trace = sessions_of(3, gap_s=5.0, n_sessions=4, starts_every_s=2.5)
    sent = play(FakeLoad(REPLAY, trace, ends_s=1e6))
    assert len(sent) == 12
    for number, requests in enumerate(by_session(sent)):
        at_s = 2.5 * number
        for request in requests:
            assert request.at_s == pytest.approx(at_s)
            assert request.record.due_s == pytest.approx(at_s)
            at_s = request.record.done_s + 5.0


def test_a_replay_begins_with_the_first_arrival_and_takes_them_in_order() -> None:
    starts = [700.0, 300.0, 500.0]

    def session(number: int, context_tok: int | None) -> Session:
        return replace_start(SHORT.session(number), starts[number])

    trace = Workload("trace", "trace", 100, 0.6, session, n_sessions=3)
    sent = play(FakeLoad(REPLAY, trace, ends_s=1e6))
    firsts = [requests[0] for requests in by_session(sent)]
    assert [(s.number, s.at_s) for s in firsts] == [(1, 0.0), (2, 200.0), (0, 400.0)]


def replace_start(session: Session, start_s: float) -> Session:
    return Session(session.turns, start_s=start_s)


def test_a_replay_of_a_workload_without_times_is_refused_in_a_sentence() -> None:
    with pytest.raises(WorkloadError, match="test has no arrival times to replay") as caught:
        play(FakeLoad(REPLAY, SHORT, ends_s=10.0))
    assert "rate" in caught.value.hint


def test_a_replay_ends_with_its_phase() -> None:
    endless = sessions_of(50, gap_s=1.0, starts_every_s=0.5)
    sent = play(FakeLoad(REPLAY, endless, ends_s=20.0))
    assert max(s.at_s for s in sent) < 20.0
    assert 20 <= len({s.number for s in sent}) <= 41


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(1, 5), st.floats(0.1, 3.0), st.integers(0, 50))
def test_a_closed_loop_never_has_more_in_flight_and_never_says_a_thing_twice(
    concurrency: int, n_turns: int, each_s: float, first_session: int
) -> None:
    plan = closed(concurrency, first_session=first_session)
    load = FakeLoad(plan, sessions_of(n_turns, answered=True), ends_s=12.0, serves=lambda s: each_s)
    sent = play(load)
    assert max(load.in_flight(s.at_s) for s in sent) <= concurrency
    said: list[list[Message]] = [s.messages for s in sent]
    assert len({repr(messages) for messages in said}) == len(said)
    assert min(s.number for s in sent) == first_session
