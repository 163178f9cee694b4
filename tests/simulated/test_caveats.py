"""Each warning is provoked on a real server process, and silent on a sound one."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from autotune.core.trial import Caveat, Phase
from autotune.measure import validity
from autotune.measure.plan import PhasePlan, plan_levels
from autotune.measure.validity import caveats
from autotune.study.evaluate import limits_of
from tests.simulated.conftest import Server, Start
from tests.simulated.loads import SHORT, measure_at, measure_plan, prompts

SPEED = 25
EAGLE = (
    *("--speed", SPEED, "--speculative-algorithm", "EAGLE", "--speculative-num-steps", 4),
    *("--speculative-eagle-topk", 1, "--speculative-num-draft-tokens", 5),
    *("--mem-fraction-static", 0.85),
)
SMALL_POOL = ("--scenario", "tight-32b-code", "--mem-fraction-static", 0.8455)
"""Some 12,000 tokens."""
MACHINE = frozenset({"client_busy", "wide_interval", "drift"})
"""Codes that the other work on this machine may add at any time."""
EIGHT_LONG_ANSWERS = prompts(lambda n: 1000, max_output_tok=512, extra={"ignore_eos": True})


def now_and_then_too_long(number: int) -> int:
    return 20_000 if number % 14 == 11 else 300


def burn() -> None:
    """Keeps the event loop from its work for a while."""
    ends = time.perf_counter() + 0.3
    while time.perf_counter() < ends:
        pass


@contextmanager
def nobody(server: Server) -> Iterator[None]:
    yield


@contextmanager
def another_client(server: Server) -> Iterator[None]:
    """Three requests of somebody else, all the time."""
    ended = threading.Event()
    body = {"text": "of others", "sampling_params": {"max_new_tokens": 2000, "ignore_eos": True}}

    def ask() -> None:
        while not ended.is_set():
            with suppress(httpx.HTTPError):
                server.post("/generate", body)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert server.wait_for(lambda: server.gauges()["sglang:num_running_reqs"] == 3)
    try:
        yield
    finally:
        ended.set()
        server.post("/abort_request", {"abort_all": True})
        for thread in threads:
            thread.join(30)


@contextmanager
def somebody_aborts_all(server: Server) -> Iterator[None]:
    """Once, in the midst of it."""

    def abort() -> None:
        if server.wait_for(lambda: server.gauges()["sglang:num_running_reqs"] >= 6):
            time.sleep(0.1)
            server.post("/abort_request", {"abort_all": True})

    thread = threading.Thread(target=abort)
    thread.start()
    yield
    thread.join(30)


@dataclass(frozen=True)
class Case:
    """How to provoke a warning, or to come near it.

    Attributes:
        says: a part of its text.
        load: of ``measure_at``.
        beside: what happens meanwhile.
        also: further warnings that must come with it.
    """

    code: str
    says: str = ""
    flags: Sequence[object] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)
    beside: Callable[[Server], Any] = nobody
    also: frozenset[str] = frozenset()


CASES = (
    Case("client_busy", "ms late", load={"check": burn}),
    Case("concurrency_above_running_limit", "5 run at once", ("--max-running-requests", 5)),
    Case("graph_below_batch", "end at batch 4", ("--cuda-graph-max-bs", 4)),
    Case("retractions", "had to begin again", SMALL_POOL, load={"workload": EIGHT_LONG_ANSWERS}),
    Case(
        "requests_aborted", "C=8: the server aborted",
        beside=somebody_aborts_all, also=frozenset({"requests_failed"}),
        load={"n_requests": 170},
    ),
    Case(
        "requests_failed", "longer than the model's context",
        SMALL_POOL, load={"workload": prompts(now_and_then_too_long, max_output_tok=64)},
    ),
    Case(
        "foreign_load", "requests of others", beside=another_client,
        load={"n_requests": 10_000, "max_window_s": 2.0 * SPEED},
    ),
    Case("few_requests", "only 4 requests", load={"n_requests": 4}),
    Case(
        "wide_interval", "only, after 6 requests in",
        load={"concurrency": 1, "n_requests": 6,
              "workload": prompts(lambda n: 300 + 15_000 * (n % 3 == 0), max_output_tok=64)},
    ),
    Case("answers_short", "12 tokens or fewer", load={"workload": prompts(max_output_tok=12)}),
    Case("repeated_prompts", "to be cached", load={"workload": prompts(n_sessions=5)}),
    Case(
        "repeated_prompts", "word for word at temperature 0",
        load={"workload": prompts(n_sessions=5, temperature=0.0)},
    ),
    Case(
        "drift", "slower than the first", ("--slow-down", 0.8, "--slow-down-after", 80),
        load={"role": "latency", "concurrency": 2, "n_requests": 10_000, "max_window_s": 110.0,
              "workload": prompts(max_output_tok=128)},
    ),
    Case("answers_loop", "repeat themselves", ("--looping-answers", 0.5)),
    Case("simulated_acceptance", "fake", env={"SGLANG_SIMULATE_ACC_LEN": "3"}),
    Case("accept_length_at_ceiling", "of 5", ("--scenario", "qwen3.5-122b-sweep")),
    Case("accept_length_about_one", "hardly guesses", ("--draft-quality", 0)),
)  # fmt: skip
ON_TWO_SERVERS = {"cache_hit_differs", "prompts_cached"}


def warned(phase: Phase, effective: Mapping[str, Any], *reference: Phase) -> dict[str, Caveat]:
    return {caveat.code: caveat for caveat in caveats([phase], limits_of(effective), reference)}


def test_every_warning_of_the_source_is_provoked_here() -> None:
    source = Path(validity.__file__).read_text()
    codes = set(re.findall(r'Caveat\(\s*"(\w+)"', source))
    assert len(codes) >= 18
    assert {case.code for case in CASES} | ON_TWO_SERVERS == codes


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code)
def test_a_warning_is_provoked(start: Start, case: Case) -> None:
    server = start(*EAGLE, *case.flags, env=case.env)
    with case.beside(server):
        phase, attached = measure_at(server.url, **case.load)
    found = warned(phase, attached.effective)
    assert case.code in found, (phase, found)
    assert case.says in found[case.code].text
    assert set(found) - MACHINE == {case.code} - MACHINE | case.also


def test_retractions_are_seen_in_the_log_where_no_metrics_are_told(start: Start) -> None:
    server = start(*EAGLE, *SMALL_POOL, metrics=False)
    assert server.get("/metrics").status_code == 404
    plan = PhasePlan("serving", 8, 12, 0)
    silent, _ = measure_plan(server.url, plan, workload=EIGHT_LONG_ANSWERS)
    assert silent.n_retractions is None and "#retracted_reqs" in server.log
    plan = replace(plan, first_session=100)
    phase, attached = measure_plan(
        server.url, plan, workload=EIGHT_LONG_ANSWERS, log=server.log_path
    )
    assert "retractions" in warned(phase, attached.effective)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("sound") / "server.log"
    server = Server(log, *EAGLE, "--scenario", "dense-70b-tp4-code")
    yield server.wait_ready()
    server.stop()


@pytest.mark.parametrize("concurrency", [1, 8, 16])
def test_a_sound_server_gives_no_warning(sound: Server, concurrency: int) -> None:
    """Measured for as long as it takes. Where other work on this machine disturbs the client, the
    measurement must say so itself.
    """
    (plan,) = plan_levels((concurrency,), 0.045)
    plan = replace(plan, n_requests=60 * concurrency, max_window_s=200.0)
    found: list[set[str]] = []
    for attempt in range(3):
        plan = replace(plan, first_session=1000 * concurrency + 200 * attempt)
        phase, server = measure_plan(sound.url, plan)
        assert phase.foreign_mean is None or phase.foreign_mean < 0.3
        found.append(set(warned(phase, server.effective)))
        assert found[-1] <= MACHINE
        if not found[-1] or "client_busy" in found[-1]:
            return
    raise AssertionError(found)


NEAR = (
    Case("concurrency_above_running_limit", flags=("--max-running-requests", 8)),
    Case("graph_below_batch", flags=("--cuda-graph-max-bs", 8)),
    Case("retractions", flags=SMALL_POOL, load={"workload": EIGHT_LONG_ANSWERS, "concurrency": 4}),
    Case("few_requests", load={"n_requests": 5}),
    Case("answers_short", load={"workload": prompts(max_output_tok=24)}),
    Case("repeated_prompts", load={"workload": prompts(n_sessions=80)}),
    Case("answers_loop", flags=("--looping-answers", 0.01), load={"workload": prompts()}),
    Case("simulated_acceptance", env={"SGLANG_SIMULATE_ACC_LEN": "-1"}),
    Case("accept_length_about_one", flags=("--draft-quality", 0.3)),
)


@pytest.mark.parametrize("case", NEAR, ids=lambda case: case.code)
def test_what_only_comes_near_is_not_named(start: Start, case: Case) -> None:
    phase, server = measure_at(start(*EAGLE, *case.flags, env=case.env).url, **case.load)
    assert set(warned(phase, server.effective)) <= MACHINE


def test_prompts_of_an_earlier_run_are_noticed_in_the_cache(start: Start) -> None:
    url = start(*EAGLE).url
    found = []
    for first_session in (0, 0, 500):
        phase, server = measure_at(url, first_session=first_session)
        found.append(set(warned(phase, server.effective)) - MACHINE)
    assert found == [set(), {"prompts_cached"}, set()]


def test_a_cache_that_helps_less_than_in_the_launch_before_is_named(start: Start) -> None:
    phases = []
    for flags in ((), (), ("--disable-radix-cache",)):
        server = start(*EAGLE, *flags)
        phases.append(measure_at(server.url, workload=SHORT)[0])
        server.stop()
    with_cache, again, without = phases
    assert set(warned(again, {}, with_cache)) <= MACHINE
    found = warned(without, {}, with_cache)
    assert set(found) - MACHINE == {"cache_hit_differs"}
    assert "C=8: 0% of the prompt tokens were cached" in found["cache_hit_differs"].text
