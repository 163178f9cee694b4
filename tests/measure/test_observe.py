"""What is seen beside the requests: the server's load, its retractions, the client's own delay."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from autotune.measure import Endpoint, PhasePlan, measure_phase
from autotune.measure.observe import Observations, Observer, ServerLoad, server_load

from .answers import sized
from .scripted import Exchange, Script, ScriptedServer, hang_up, refuse, talk
from .sessions import SHORT, healthy


def documents(**bodies: str) -> Script:
    """A server that knows these paths (``v1_loads``, ``metrics``) and nothing else."""

    async def script(exchange: Exchange) -> None:
        path = exchange.head.split()[1].partition("?")[0]
        body = bodies.get(path.strip("/").replace("/", "_"))
        status = "404 Not Found" if body is None else "200 OK"
        await exchange.write(sized((body or "").encode(), status=status, kind="text/plain"))

    return script


def loads(*ranks: tuple[int, int], token_usage: tuple[float, ...] = ()) -> str:
    told: list[dict[str, object]] = [
        {"num_running_reqs": r, "num_waiting_reqs": w, "extra": None} for r, w in ranks
    ]
    for rank, share in zip(told, token_usage, strict=False):
        rank["token_usage"] = share
    return json.dumps({"version": "0.5.10", "loads": told})


def metrics(prefix: str = "sglang:", **values: object) -> str:
    lines = ["# HELP anything", "# TYPE sglang:num_running_reqs gauge"]
    for name, ranks in values.items():
        for rank, value in enumerate(ranks if isinstance(ranks, tuple) else (ranks,)):
            lines.append(f'{prefix}{name}{{model_name="a b",tp_rank="{rank}"}} {value}')
    return "\n".join(lines) + "\n"


def load_of(script: Script) -> ServerLoad | None:
    with ScriptedServer(hang_up, script) as server:
        return asyncio.run(server_load(Endpoint(server.url, "m")))


@pytest.mark.parametrize(
    ("script", "load"),
    [
        (documents(v1_loads=loads((3, 1))), ServerLoad(3, 1)),
        (documents(v1_loads=loads((3, 1), (4, 0))), ServerLoad(7, 1)),
        (documents(metrics=metrics(num_running_reqs="3", num_queue_reqs="2.0")), ServerLoad(3, 2)),
        (documents(metrics=metrics("sglang_", num_running_reqs="3.0")), ServerLoad(3, 0)),
        (documents(metrics=metrics(num_running_reqs=("3.0", "4.0"))), ServerLoad(7, 0)),
        (documents(v1_loads=loads((3, 1), (4, 0), token_usage=(0.25, 0.5))), ServerLoad(7, 1, 0.5)),
        (documents(metrics=metrics(num_running_reqs="3", token_usage=("0.2", "1e-05"))),
         ServerLoad(3, 0, 0.2)),
        (documents(v1_loads="[]", metrics=metrics(num_running_reqs="1e+00")), ServerLoad(1, 0)),
        (documents(v1_loads="no json"), None),
        (documents(v1_loads='{"loads": [{"num_running_reqs": null}]}'), None),
        (documents(metrics="vllm:num_requests_running 3\n"), None),
        (documents(metrics=metrics(num_running_reqs="nan")), None),
        (documents(), None),
        (refuse(), None),
    ],
)  # fmt: skip
def test_the_load_is_read_as_each_version_tells_it(script: Script, load: ServerLoad | None) -> None:
    assert load_of(script) == load


def test_a_server_that_is_gone_tells_nothing() -> None:
    assert asyncio.run(server_load(Endpoint("http://127.0.0.1:9", "m"))) is None


def retractions(before: str, after: str) -> int | None:
    told = [before, after]

    async def script(exchange: Exchange) -> None:
        path = exchange.head.split()[1]
        body = told.pop(0) if path == "/metrics" and len(told) > 1 else told[0]
        await exchange.write(sized(body.encode(), kind="text/plain"))

    async def watch(url: str) -> Observations:
        observer = Observer(Endpoint(url, "m"), lambda: 0, lambda: True)
        watching = asyncio.create_task(observer.watch_server())
        await asyncio.sleep(0.2)
        watching.cancel()
        return await observer.finish()

    with ScriptedServer(hang_up, script) as server:
        return asyncio.run(watch(server.url)).n_retractions


@pytest.mark.parametrize(
    ("before", "after", "n"),
    [
        ({"num_retracted_requests_total": "5.0"}, {"num_retracted_requests_total": "9.0"}, 4),
        ({"num_retracted_requests_total": ("1.0", "2.0")},
         {"num_retracted_requests_total": ("1.0", "4.0")}, 2),
        ({"total_retracted_reqs": "0.0"}, {"total_retracted_reqs": "3.0"}, 3),
        ({"num_retractions_sum": "7.0", "num_retractions_count": "90.0"},
         {"num_retractions_sum": "8.0", "num_retractions_count": "190.0"}, 1),
        # Newer versions have several at once: each counts all of them.
        ({"num_retracted_requests_total": "5.0", "num_retractions_sum": "5.0"},
         {"num_retracted_requests_total": "7.0", "num_retractions_sum": "7.0"}, 2),
        # A gauge of the last batch is no counter.
        ({"num_retracted_reqs": "0.0"}, {"num_retracted_reqs": "6.0"}, None),
        ({"num_retracted_requests_total": "5.0", "num_retracted_reqs": "0.0"},
         {"num_retracted_requests_total": "5.0", "num_retracted_reqs": "6.0"}, 0),
        ({"num_retracted_requests_total": "5.0"}, {"num_retracted_requests_total": "0.0"}, 0),
        ({"num_running_reqs": "5.0"}, {"num_running_reqs": "5.0"}, None),
    ],
)  # fmt: skip
def test_retractions_are_counted_by_the_server(
    before: dict[str, Any], after: dict[str, Any], n: int | None
) -> None:
    assert retractions(metrics(**before), metrics(**after)) == n


def measured_beside(script: Script, in_flight: Callable[[], int]) -> Observations:
    async def watch(url: str) -> Observations:
        observer = Observer(Endpoint(url, "m"), in_flight, lambda: True)
        watching = asyncio.create_task(observer.watch_server())
        await asyncio.sleep(1.3)
        watching.cancel()
        return await observer.finish()

    with ScriptedServer(hang_up, script) as server:
        return asyncio.run(watch(server.url))


def test_only_what_is_beyond_our_own_requests_is_foreign() -> None:
    seen = measured_beside(documents(v1_loads=loads((5, 2))), lambda: 4)
    assert set(seen.foreign) == {3} and set(seen.waiting) == {2}
    assert (seen.foreign_mean, seen.waiting_mean) == (3.0, 2.0)
    none = measured_beside(documents(v1_loads=loads((3, 0))), lambda: 4)
    assert set(none.foreign) == {0}


def test_a_server_that_does_not_tell_its_load_is_asked_once() -> None:
    asked: list[str] = []

    async def script(exchange: Exchange) -> None:
        asked.append(exchange.head.split()[1])
        await refuse("404 Not Found")(exchange)

    seen = measured_beside(script, lambda: 0)
    assert seen.foreign_mean is None and seen.waiting_mean is None
    assert asked.count("/v1/loads?include=core") == 1


def test_health_is_never_asked_while_a_phase_is_measured() -> None:
    """It makes SGLang generate a token."""
    paths: set[str] = set()

    async def looked_at(exchange: Exchange) -> None:
        paths.add(exchange.head.split()[1].partition("?")[0])
        await documents(v1_loads=loads((1, 0)))(exchange)

    with ScriptedServer(talk(0.01, 0.01), looked_at) as server:
        plan = PhasePlan("serving", 2, 10_000, 0, max_window_s=1.2, max_warm_s=0.1)
        measure_phase(Endpoint(server.url, "m"), SHORT, plan, check=healthy)
        assert {e.head.split()[1] for e in server.exchanges} == {"/v1/chat/completions"}
    assert paths == {"/metrics", "/v1/loads"}


def test_a_blocked_event_loop_is_seen_as_late() -> None:
    async def watch(blocks: bool) -> float:
        observer = Observer(Endpoint("http://127.0.0.1:9", "m"), lambda: 0, lambda: True)
        watching = asyncio.create_task(observer.watch_client())
        for _ in range(10):
            await asyncio.sleep(0.02)
            if blocks:
                time.sleep(0.15)
        watching.cancel()
        return observer.seen.lag_p99_s or 0.0

    late_s = asyncio.run(watch(True))
    assert late_s > 0.12
    assert asyncio.run(watch(False)) < late_s
