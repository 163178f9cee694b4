from __future__ import annotations

import math
import statistics
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.engine.simulated.acceptance import DraftQuality, accept_distribution
from autotune.engine.simulated.batch import BatchScheduler, Noise, Request
from autotune.engine.simulated.physics import NO_SPECULATION, Deployment, Machine, Speculation
from autotune.engine.simulated.prefix_cache import Piece

CHAIN = Speculation(3, 1, 4)


def scheduler(
    pool_tok: int = 100_000,
    running: int = 4,
    speculation: Speculation = CHAIN,
    noise: Noise | None = None,
    seed: int = 0,
) -> BatchScheduler:
    """A small machine whose KV pool holds exactly ``pool_tok`` tokens."""
    machine = Machine(
        gpu="test",
        n_gpus=1,
        gpu_memory_gb=10.0,
        weights_gb=1.0,
        bandwidth_tb_s=1.0,
        compute_tflops=100.0,
        dense_params_b=0.5,
        draft_params_b=0.05,
        kv_kb_per_token=8.0 * 1e6 / pool_tok,
    )
    deployment = Deployment(machine, speculation, 0.9, running, running)
    assert abs(deployment.kv_pool_tok - pool_tok) <= 1
    accept = accept_distribution(
        DraftQuality(((1.0, 0.7),), 0.02),
        speculation.steps,
        speculation.topk,
        speculation.draft_tokens,
    )
    return BatchScheduler(deployment, accept, noise or Noise(), seed)


def request(key: int, prompt_tok: int = 64, output_tok: int = 40) -> Request:
    prompt = [Piece(1000 * key + place, 32) for place in range(prompt_tok // 32)]
    answer = [Piece(-1000 * key - place, 32) for place in range(output_tok // 32)]
    return Request(prompt, output_tok, answer)


def play(batch: BatchScheduler, limit: int = 50_000) -> dict[Request, int]:
    """Plays to the end: tokens each request got."""
    got: dict[Request, int] = {}
    now_s = batch.now_s
    for _ in range(limit):
        played = batch.step()
        if played is None:
            break
        assert played.ends_at_s > now_s
        now_s = played.ends_at_s
        assert len(batch.running) <= batch.deployment.running_limit
        assert 0 <= batch.cache.used_tok <= batch.cache.capacity_tok
        for done, n_tok, finished in played.emissions:
            got[done] = got.get(done, 0) + n_tok
            assert finished == (got[done] == done.output_tok)
    assert batch.is_idle
    return got


loads = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 90)), min_size=1, max_size=12)


@settings(max_examples=50)
@given(loads, st.integers(1, 5), st.sampled_from([CHAIN, Speculation(5, 4, 16), NO_SPECULATION]))
def test_every_request_gets_exactly_its_tokens(
    load: list[tuple[int, int]], running: int, speculation: Speculation
) -> None:
    batch = scheduler(running=running, speculation=speculation)
    requests = [request(n, 32 * p, out) for n, (p, out) in enumerate(load)]
    for one in requests:
        batch.submit(one)
    assert play(batch) == {one: one.output_tok for one in requests}
    assert batch.cache.held_tok == 0


@settings(max_examples=50)
@given(loads, st.integers(600, 900), st.sampled_from([CHAIN, Speculation(5, 4, 16)]))
def test_a_tiny_pool_retracts_and_still_finishes_everything(
    load: list[tuple[int, int]], pool_tok: int, speculation: Speculation
) -> None:
    batch = scheduler(pool_tok, 8, speculation)
    requests = [request(n, 32 * p, out) for n, (p, out) in enumerate(load)]
    for one in requests:
        batch.submit(one)
    assert play(batch) == {one: one.output_tok for one in requests}
    assert batch.cache.held_tok == 0


def test_retractions_happen_and_are_counted() -> None:
    batch = scheduler(700, 8)
    requests = [request(n, 64, 200) for n in range(6)]
    for one in requests:
        batch.submit(one)
    play(batch)
    assert batch.n_retractions == sum(one.n_retractions for one in requests) > 0


def test_a_lone_request_that_outgrows_the_pool_leaves_the_books_in_order() -> None:
    batch = scheduler(200, 2)
    batch.submit(request(1, 64, 400))
    for _ in range(2000):
        if batch.step() is None:
            break
        assert 0 <= batch.cache.used_tok <= batch.cache.capacity_tok
    assert batch.cache.held_tok == 0


def emissions(seed: int) -> list[tuple[float, list[int]]]:
    batch = scheduler(1200, noise=Noise(0.02, 0.02, outlier=0.2), seed=seed)
    draw = Random(3)
    for n in range(10):
        batch.submit(request(n, 32 * draw.randint(1, 5), draw.randint(5, 120)))
    passes = []
    while (played := batch.step()) is not None:
        passes.append((played.ends_at_s, [e.n_tok for e in played.emissions]))
    return passes


def test_a_seed_gives_the_same_passes_again() -> None:
    assert emissions(5) == emissions(5)
    assert emissions(5) != emissions(6)


def test_one_verify_pass_is_counted_for_each_decode_pass() -> None:
    batch = scheduler()
    one = request(1, 64, 100)
    batch.submit(one)
    play(batch)
    assert one.n_verify == len(one.accept_histogram) == batch.n_cycles
    assert sum(one.accept_histogram) == batch.n_accepted >= 99
    assert 2.0 < batch.n_accepted / batch.n_cycles < 3.0


def test_without_speculation_a_pass_is_one_token() -> None:
    batch = scheduler(speculation=NO_SPECULATION)
    one = request(1, 64, 50)
    batch.submit(one)
    while (played := batch.step()) is not None:
        assert [e.n_tok for e in played.emissions] == [1]
    assert one.n_verify == 49


def test_the_second_turn_finds_the_first_in_the_cache() -> None:
    batch = scheduler()
    first = request(1, 64, 32)
    batch.submit(first)
    play(batch)
    second = Request([*first.prompt, *first.answer, Piece(7, 20)], 10)
    batch.submit(second)
    play(batch)
    assert second.cached_tok == first.prompt_tok + 32


def test_a_prompt_that_is_cached_whole_still_computes_its_last_token() -> None:
    batch = scheduler()
    for _ in range(2):
        one = request(1, 64, 5)
        batch.submit(one)
        play(batch)
    assert one.cached_tok == 63


def test_an_aborted_request_gives_back_what_it_held() -> None:
    batch = scheduler(running=1)
    running, queued, other = request(1), request(2), request(3)
    for one in (running, queued, other):
        batch.submit(one)
    batch.step()
    batch.abort(running)
    batch.abort(queued)
    batch.abort(running)
    assert batch.cache.held_tok == 0 and running.aborted and queued.aborted
    assert play(batch) == {other: 40}


@pytest.mark.parametrize("factor", [0.02, 0.2])
def test_launches_stray_from_the_model_by_the_noise_and_are_right_on_average(factor: float) -> None:
    def duration_s(seed: int, noise: Noise) -> float:
        batch = scheduler(noise=noise, seed=seed)
        batch.submit(request(1, 64, 100))
        play(batch)
        return batch.now_s

    strays = [
        math.log(duration_s(seed, Noise(launch=factor)) / duration_s(seed, Noise()))
        for seed in range(60)
    ]
    assert abs(statistics.fmean(strays)) < 4 * factor / math.sqrt(60)
    assert statistics.stdev(strays) == pytest.approx(factor, rel=0.4)
