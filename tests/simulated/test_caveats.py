"""Each warning is provoked on a real server process, and silent on a sound one."""

from __future__ import annotations

import pytest

from autotune.engine.attached import AttachedServer
from autotune.events import ignore
from autotune.measure.plan import PhasePlan
from autotune.measure.validity import caveats
from autotune.study.evaluate import limits_of, measure
from autotune.workload import workload_named
from tests.simulated.conftest import Start

EAGLE = (
    *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", 4),
    *("--speculative-eagle-topk", 1, "--speculative-num-draft-tokens", 5),
    *("--mem-fraction-static", 0.85),
)


def codes(start: Start, *flags: object, concurrency: int = 8) -> set[str]:
    return codes_at(start("--speed", 20, *EAGLE, *flags).url, concurrency)


def codes_at(url: str, concurrency: int = 8) -> set[str]:
    server = AttachedServer(url)
    plans = [PhasePlan("serving", concurrency, 24, 0)]
    phases = list(measure(server, workload_named("agentic-short"), plans, listener=ignore))
    found = caveats(phases, limits_of(server.effective))
    # How busy the client is depends on this machine; so short a phase has a wide interval.
    return {caveat.code for caveat in found} - {"client_busy", "wide_interval"}


def test_a_sound_server_gives_no_warning(start: Start) -> None:
    assert codes(start, "--scenario", "qwen3.5-122b-agentic") == set()


@pytest.mark.parametrize(
    ("flags", "concurrency", "code"),
    [
        (("--scenario", "qwen3.5-122b-sweep"), 8, "accept_length_at_ceiling"),
        (("--cuda-graph-max-bs", 4), 8, "graph_below_batch"),
        (("--max-running-requests", 5), 8, "concurrency_above_running_limit"),
    ],
)
def test_a_warning_is_provoked(
    start: Start, flags: tuple[object, ...], concurrency: int, code: str
) -> None:
    assert codes(start, *flags, concurrency=concurrency) == {code}


def test_prompts_of_an_earlier_run_are_noticed_in_the_cache(start: Start) -> None:
    url = start("--speed", 20, *EAGLE).url
    assert codes_at(url) == set()
    assert codes_at(url) == {"prompts_cached"}
