"""Every failure the simulated server can be told to play, as its engine sees it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from autotune.core.trial import Failure, FailureKind
from autotune.engine.base import LaunchFailed
from autotune.engine.simulated.engine import SimulatedEngine, bundled_command
from autotune.engine.simulated.faults import NAMES, fault_named
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO
from autotune.errors import ConfigError
from autotune.events import ignore
from autotune.measure.plan import PhasePlan
from autotune.measure.validity import fatal
from autotune.study.evaluate import ServerDied, measure
from autotune.workload import workload_named

AT_START = [n for n in NAMES if n.partition("@")[2] in ("parse", "load", "pool", "capture")]


def engine(fault: str, *words: str, ready_timeout_s: float = 30.0) -> SimulatedEngine:
    own = ("--fail", fault, "--startup-speed", "300", "--no-noise", "--speed", "20", *words)
    command = bundled_command(DEFAULT_SCENARIO).with_words(own)
    return SimulatedEngine(command, seed=0, ready_timeout_s=ready_timeout_s)


def launch_failure(fault: str, directory: Path, ready_timeout_s: float = 30.0) -> Failure:
    with pytest.raises(LaunchFailed) as raised:
        engine(fault, ready_timeout_s=ready_timeout_s).launch(
            {}, directory=directory, number=0, announce=lambda text: None
        )
    return raised.value.failure


@pytest.mark.parametrize("name", [*AT_START, "port_in_use@start"])
def test_a_failure_of_the_start_is_told_within_two_seconds(name: str, tmp_path: Path) -> None:
    failure = launch_failure(name, tmp_path / "0")
    happened = (tmp_path / "0" / "server.log").stat().st_mtime
    assert time.time() - happened < 2.0
    assert (failure.kind, failure.stage) == tuple(name.split("@"))
    assert failure.evidence and failure.remedy


def test_a_start_without_end_is_given_up(tmp_path: Path) -> None:
    failure = launch_failure("ready_timeout", tmp_path / "0", ready_timeout_s=4.0)
    assert failure.kind is FailureKind.READY_TIMEOUT
    assert "not ready after 4 s" in failure.remedy


def serving_failure(fault: str, directory: Path) -> Failure | None:
    plans = [PhasePlan("serving", 4, 60, 0)]
    with engine(fault).launch(
        {}, directory=directory, number=0, announce=lambda text: None
    ) as server:
        try:
            for phase in measure(
                server, workload_named("agentic-short"), plans, listener=ignore, stall_s=2.0
            ):
                failure = fatal(phase)
                if failure is not None:
                    return failure
        except ServerDied as died:
            happened = (directory / "server.log").stat().st_mtime
            assert time.time() - happened < 2.0
            return died.failure
    return None


@pytest.mark.parametrize("kind", ["runtime_oom", "watchdog", "crashed", "request_aborted", "hang"])
def test_a_failure_while_serving_is_told_soon(kind: str, tmp_path: Path) -> None:
    failure = serving_failure(f"{kind}@serving", tmp_path / "0")
    assert failure is not None
    assert (failure.kind, failure.stage) == (kind, "serving")


def test_a_server_that_does_not_hear_its_stop_is_killed(tmp_path: Path) -> None:
    server = engine("hang@stop").launch(
        {}, directory=tmp_path / "0", number=0, announce=lambda text: None
    )
    server._patience = type(server._patience)(leader_s=0.5, group_s=0.2)
    server.stop()
    assert server.stopped is not None and server.stopped.clean
    assert "SIGKILL group" in server.stopped.signals


def test_only_launches_with_so_many_steps_fail(tmp_path: Path) -> None:
    some = engine("graph_capture_oom@capture", "--fail-from-steps", "5")
    few = {"speculative_num_steps": 2, "speculative_eagle_topk": 1}
    with some.launch(
        few | {"speculative_num_draft_tokens": 3},
        directory=tmp_path / "2", number=0, announce=lambda text: None,
    ):  # fmt: skip
        pass
    many = few | {"speculative_num_steps": 5, "speculative_num_draft_tokens": 6}
    with pytest.raises(LaunchFailed):
        some.launch(many, directory=tmp_path / "5", number=1, announce=lambda text: None)


def test_a_fault_is_found_by_its_kind_alone_and_a_wrong_one_names_the_nearest() -> None:
    assert fault_named("hang").stage == "serving"
    assert {fault_named(name).kind for name in NAMES} <= set(FailureKind)
    with pytest.raises(ConfigError, match="did you mean 'nccl@load'"):
        fault_named("nccl@lod")
