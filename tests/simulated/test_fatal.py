"""When a phase carries no value at all: provoked on a real server process."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from autotune.core.trial import FailureKind
from autotune.measure import Endpoint, PhasePlan, measure_phase
from autotune.measure.plan import plan_open_loop
from autotune.measure.validity import fatal

from .conftest import Server, Start
from .loads import SHORT, measure_at, prompts

EAGLE = ("--speculative-algorithm", "EAGLE", "--speed", 20)


@pytest.mark.parametrize(
    "plan", [PhasePlan("serving", 4, 40, 0), plan_open_loop(5.0, 600.0)], ids=lambda plan: plan.load
)
def test_a_server_that_refuses_every_request(start: Start, plan: PhasePlan) -> None:
    server = start(*EAGLE, "--api-key", "key")
    began = time.monotonic()
    endpoint = Endpoint(server.url, "org/model", time_scale=20.0)
    failure = fatal(measure_phase(endpoint, SHORT, plan, check=lambda: None))
    assert time.monotonic() - began < 20, "600 server seconds are 30"
    assert failure is not None and failure.kind is FailureKind.REQUEST_ABORTED
    assert "requests failed" in failure.evidence and "401" in failure.evidence


def test_a_server_that_dies_meanwhile(start: Start) -> None:
    server = start(*EAGLE)
    killer = threading.Timer(0.5, server.stop)
    killer.start()
    phase, _ = measure_at(server.url, 4, 10_000)
    killer.join()
    failure = fatal(phase)
    assert failure is not None and "requests failed at C=4" in failure.evidence


@pytest.mark.parametrize("n_tok", [1, 4])
def test_answers_too_short_to_be_timed(shared: Server, n_tok: int) -> None:
    phase, _ = measure_at(shared.url, 2, 12, workload=prompts(max_output_tok=n_tok))
    failure = fatal(phase)
    assert failure is not None and "nothing to time" in failure.evidence


@contextmanager
def every_core_taken() -> Iterator[None]:
    """By this very process, so that it counts as the client's own work."""
    ended, block = threading.Event(), bytes(1 << 22)

    def work() -> None:
        while not ended.is_set():
            hashlib.sha256(block)  # lets other threads run

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield
    ended.set()
    for thread in threads:
        thread.join()


@pytest.mark.alone
def test_a_client_that_measures_itself(start: Start) -> None:
    server = start(*EAGLE)
    for attempt in range(4):  # as other work on this machine leaves it a core or not
        with every_core_taken():
            phase, _ = measure_at(
                server.url, 2, 6, workload=prompts(), check=lambda: time.sleep(0.4),
                first_session=100 * attempt,
            )  # fmt: skip
        failure = fatal(phase)
        if failure is not None:
            break
    assert failure is not None and failure.kind is FailureKind.CLIENT_SATURATED, phase
    assert "it measured itself" in failure.evidence
