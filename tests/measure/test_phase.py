from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import Callable

import pytest

from autotune.core.trial import Phase
from autotune.errors import UsageError
from autotune.measure import Endpoint, PhasePlan, measure_phase
from autotune.measure.plan import plan_phases
from autotune.measure.validity import fatal
from autotune.workload import Workload

from .scripted import Exchange, Script, ScriptedServer, hang_up, refuse, say_nothing, talk
from .sessions import SHORT, healthy


def measure(
    target: ScriptedServer | str,
    concurrency: int,
    n_requests: int,
    *,
    workload: Workload = SHORT,
    check: Callable[[], None] = healthy,
    progress: Callable[[float], None] = lambda share: None,
    stall_s: float = 30.0,
    first_session: int = 0,
    max_warm_s: float = 20.0,
    max_window_s: float = 30.0,
    context_tok: int | None = None,
) -> Phase:
    url = target if isinstance(target, str) else target.url
    plan = PhasePlan(
        *("serving", concurrency, n_requests, first_session),
        max_warm_s=max_warm_s,
        max_window_s=max_window_s,
    )
    endpoint = Endpoint(url, "m", context_tok=context_tok, stall_s=stall_s)
    return measure_phase(endpoint, workload, plan, check=check, progress=progress)


def test_a_phase_shows_the_delays_of_the_server() -> None:
    with ScriptedServer(talk(0.04, 0.02, (1, 4, 4, 4))) as server:
        phase = measure(server, 1, 10)
    assert (phase.n_requests, phase.n_failed, phase.first_error) == (10, 0, "")
    assert phase.ttft_s.value == pytest.approx(0.04, abs=0.006)
    assert phase.tpot_s.value == pytest.approx(0.06 / 12, abs=0.001)
    assert phase.turn_latency_s.value == pytest.approx(0.04 + 100 * 0.06 / 12, rel=0.15)
    assert phase.e2e_s.value == pytest.approx(0.10, abs=0.012)
    assert phase.decode_tok_s.value == pytest.approx(200.0, rel=0.15)
    assert phase.output_tok_s.value == pytest.approx(13 / 0.105, rel=0.15)
    assert phase.accept_length == 13 / 4
    assert phase.in_flight_mean == pytest.approx(1.0, abs=0.1)


def test_the_load_is_constant_while_it_is_measured() -> None:
    with ScriptedServer(talk(0.03, 0.01)) as server:
        phase = measure(server, 6, 36)
        ended = sorted(e.ended_s for e in server.exchanges)
    opened, closed = ended[5], ended[41]
    moments = [opened + (closed - opened) * i / 200 for i in range(1, 200)]
    levels = [server.in_flight(moment) for moment in moments]
    assert max(levels) <= 6
    assert sum(levels) / len(levels) > 5.4
    assert phase.in_flight_mean > 5.6
    assert phase.n_requests == 36


def test_what_is_slow_while_warming_up_is_not_measured() -> None:
    async def script(exchange: Exchange) -> None:
        await talk(0.25 if exchange.number < 4 else 0.01, 0.005)(exchange)

    with ScriptedServer(script) as server:
        phase = measure(server, 4, 20)
    assert phase.n_requests == 20
    assert phase.percentiles["ttft_s"]["p99"] < 0.1


def test_a_turn_is_sent_with_the_real_answers_before_it() -> None:
    with ScriptedServer(talk(0.0, 0.0, (2, 3))) as server:
        measure(server, 1, 4)
    first, second, third, fourth = (e.body["messages"] for e in server.exchanges[:4])
    assert [m["role"] for m in first] == ["system", "user"]
    assert [m["role"] for m in second] == ["system", "user", "assistant", "user"]
    assert second[:2] == first and third[:4] == second
    assert second[2]["content"] == " answer0" * 5
    assert [m["content"] for m in fourth] == ["system", "session 1 turn 0"]


def test_a_session_ends_before_it_outgrows_the_context_of_the_server() -> None:
    with ScriptedServer(talk(0.001, 0.001, (1, 4))) as server:
        phase = measure(server, 2, 12, context_tok=80)
    assert {len(e.body["messages"]) for e in server.exchanges} == {2}, "first turns only"
    assert (phase.n_requests, phase.n_failed) == (12, 0)


def test_no_turn_is_sent_twice() -> None:
    with ScriptedServer(talk(0.005, 0.0)) as server:
        measure(server, 5, 30, first_session=100)
    last = [e.body["messages"][-1]["content"] for e in server.exchanges]
    assert len(set(last)) == len(last)
    assert all(text.startswith("session 1") for text in last)


def test_progress_rises_to_one() -> None:
    shares: list[float] = []
    with ScriptedServer(talk(0.0, 0.0)) as server:
        measure(server, 2, 8, progress=shares.append)
    assert shares == [n / 8 for n in range(1, 9)]


def test_phases_of_one_launch_share_no_session() -> None:
    plans = plan_phases(1, (32, 16))
    assert [(p.role, p.concurrency) for p in plans] == [
        ("latency", 1),
        ("serving", 16),
        ("serving", 32),
    ]
    firsts = [p.first_session for p in plans]
    assert all(b - a > 10_000 for a, b in itertools.pairwise(firsts))
    assert [p.n_warm for p in plans] == [2, 16, 32]


class ServerGone(Exception):
    pass


@pytest.mark.parametrize("script", [say_nothing, talk(0.01, 0.0), refuse(), hang_up])
def test_a_dying_server_ends_the_phase_with_what_the_check_raises(script: Script) -> None:
    began = time.monotonic()

    def check() -> None:
        if time.monotonic() > began + 0.15:
            raise ServerGone

    with ScriptedServer(script) as server, pytest.raises(ServerGone):
        measure(server, 4, 4000, check=check)
    assert time.monotonic() - began < 5


def test_a_server_that_is_dead_at_the_start_sends_nothing() -> None:
    def check() -> None:
        raise ServerGone

    with ScriptedServer(talk(0.0, 0.0)) as server, pytest.raises(ServerGone):
        measure(server, 2, 4, check=check)


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize(
    ("script", "words"),
    [(refuse(), "HTTP 500: refused"), (hang_up, "before the head of the answer")],
)
def test_a_server_that_refuses_everything_ends_the_phase_soon(
    script: Script, words: str, concurrency: int
) -> None:
    began = time.monotonic()
    with ScriptedServer(script) as server:
        phase = measure(server, concurrency, 5 * concurrency + 20)
    assert time.monotonic() - began < 5
    assert phase.n_requests == 0 and 1 <= phase.n_failed <= 4 * concurrency
    assert words in phase.first_error
    assert fatal(phase) is not None


@pytest.mark.parametrize("concurrency", [1, 16])
def test_a_port_where_nobody_listens_ends_the_phase_soon(concurrency: int) -> None:
    began = time.monotonic()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        phase = measure(url, concurrency, 5 * concurrency + 20)
    assert time.monotonic() - began < 5
    assert phase.n_requests == 0 and phase.n_failed >= 1
    assert phase.first_error.startswith("cannot connect")


@pytest.mark.parametrize("concurrency", [1, 16])
def test_a_silent_server_holds_the_phase_for_one_stall_only(concurrency: int) -> None:
    began = time.monotonic()
    with ScriptedServer(say_nothing) as server:
        phase = measure(server, concurrency, 5 * concurrency + 20, stall_s=1.5)
    assert time.monotonic() - began < 3  # a second request would have waited as long again
    failure = fatal(phase)
    assert failure is not None and failure.kind == "hang"
    assert phase.first_error == "no byte for 1.5 s"


def test_the_answer_that_failed_ends_its_session_and_not_the_phase() -> None:
    async def script(exchange: Exchange) -> None:
        answer = refuse() if exchange.number == 10 else talk(0.002, 0.0)
        await answer(exchange)

    with ScriptedServer(script) as server:
        phase = measure(server, 1, 40)
    assert (phase.n_requests, phase.n_failed) == (39, 1)
    assert fatal(phase) is None
    broken = server.exchanges[10].body["messages"][-1]["content"].split(" turn ")[0]
    after = [e.body["messages"][-1]["content"] for e in server.exchanges[11:]]
    assert not any(text.startswith(f"{broken} turn") for text in after)


def test_what_is_in_flight_at_the_end_is_broken_off_and_no_failure() -> None:
    async def script(exchange: Exchange) -> None:
        last = exchange.number >= 8  # two to warm up, six inside the window
        await talk(0.01, 60.0 if last else 0.01)(exchange)

    began = time.monotonic()
    with ScriptedServer(script) as server:
        phase = measure(server, 2, 6)
    assert time.monotonic() - began < 5
    assert (phase.n_requests, phase.n_failed, phase.first_error) == (6, 0, "")
    assert fatal(phase) is None


def test_tokens_of_a_request_that_is_broken_off_still_count() -> None:
    # A never ends; B's answers end and close the window. Both stream 100 tokens/s all the time.
    async def script(exchange: Exchange) -> None:
        await talk(0.01, 0.01, (1,) * (4000 if exchange.number == 0 else 20))(exchange)

    with ScriptedServer(script) as server:
        phase = measure(server, 2, 4)
    assert phase.n_requests == 4
    assert phase.output_tok_s.value == pytest.approx(200.0, rel=0.15)
    assert phase.percentiles["e2e_s"]["p99"] < 1.0


def test_a_window_closes_after_its_time_with_what_it_has() -> None:
    shares: list[float] = []
    with ScriptedServer(talk(0.03, 0.01)) as server:
        phase = measure(server, 2, 10_000, max_window_s=0.5, progress=shares.append)
    assert 0.5 <= phase.duration_s < 1.0
    assert 6 <= phase.n_requests < 40 and phase.n_failed == 0
    assert shares == sorted(shares) and shares[-1] == 1.0


def test_a_window_opens_after_its_time_even_if_not_all_have_turned_over() -> None:
    async def script(exchange: Exchange) -> None:
        slow = exchange.number in (0, 1, 2)
        await talk(0.01, 60.0 if slow else 0.02)(exchange)

    with ScriptedServer(script) as server:
        phase = measure(server, 4, 3, max_warm_s=0.2)
    assert phase.n_requests == 3
    assert server.exchanges[-1].number < 3 + 4 + 3


def test_a_phase_that_is_given_up_has_no_tasks_left() -> None:
    async def slow(exchange: Exchange) -> None:
        await asyncio.sleep(0.02)
        await refuse()(exchange)

    with ScriptedServer(slow) as server:
        measure(server, 8, 40)
        n_sent = len(server.exchanges)
        time.sleep(0.2)
        assert len(server.exchanges) == n_sent


def test_an_impossible_port_is_a_usage_error_and_no_endless_loop() -> None:
    with pytest.raises(UsageError, match="310010"):
        measure("http://127.0.0.1:310010", 4, 8)
