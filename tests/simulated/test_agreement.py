"""Over HTTP in real time, or in virtual time without HTTP: the same server, the same answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest

from autotune.engine.simulated.physics import Speculation
from autotune.engine.simulated.virtual import Shape, deploy, play
from tests.simulated.conftest import Server, Start
from tests.simulated.hand_sweep import FRACTION, SCENARIO

PROMPT_TOK = 96


async def over_http(server: Server, lengths: list[int], concurrency: int, speed: float) -> float:
    """Tokens per server second of the whole run, closed loop."""
    numbers = iter(enumerate(lengths))
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(trust_env=False, timeout=60, limits=limits) as client:

        async def worker(todo: Iterator[tuple[int, int]]) -> None:
            for number, length in todo:
                ids = [number * PROMPT_TOK + i for i in range(PROMPT_TOK)]
                sampling = {"max_new_tokens": length, "ignore_eos": True}
                answer = await client.post(
                    server.url + "/generate", json={"input_ids": ids, "sampling_params": sampling}
                )
                assert answer.json()["meta_info"]["completion_tokens"] == length

        began = time.monotonic()
        await asyncio.gather(*(worker(numbers) for _ in range(concurrency)))
        return sum(lengths) / ((time.monotonic() - began) * speed)


# At C=1 the client's own turnaround, some real milliseconds, idles the server: slower time there.
@pytest.mark.alone
@pytest.mark.parametrize(("concurrency", "speed"), [(1, 2.0), (16, 3.0)])
def test_http_and_virtual_time_give_the_same_throughput(
    start: Start, concurrency: int, speed: float
) -> None:
    lengths = [200 + 17 * (i % 7) for i in range(6 + 5 * (concurrency - 1))]
    server = start(
        *("--scenario", SCENARIO.name, "--speed", speed, "--mem-fraction-static", FRACTION),
        *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", 4),
        *("--speculative-eagle-topk", 1, "--speculative-num-draft-tokens", 5),
    )
    measured = asyncio.run(over_http(server, lengths, concurrency, speed))
    deployment, accept = deploy(SCENARIO, Speculation(4, 1, 5), mem_fraction=FRACTION)
    shapes = [Shape(PROMPT_TOK, length) for length in lengths]
    expected = play(deployment, accept, shapes, concurrency).aggregate_tok_s
    assert measured == pytest.approx(expected, rel=0.03)
