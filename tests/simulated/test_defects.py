"""What can be made to go wrong on a simulated server, each by an option of its own."""

from __future__ import annotations

import os
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.engine.simulated import text
from autotune.engine.simulated.acceptance import accept_distribution, faked_distribution
from autotune.engine.simulated.arguments import Defects, ServerOptions, build_parser, parse_options
from autotune.engine.simulated.batch import Noise
from autotune.engine.simulated.physics import Speculation
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO, scenario_named
from autotune.engine.simulated.server import SimulatedServer
from autotune.engine.simulated.virtual import Shape, deploy, play

from .conftest import Start

SCENARIO = scenario_named(DEFAULT_SCENARIO)
EAGLE = ("--speculative-algorithm", "EAGLE")


def options(*flags: str) -> ServerOptions:
    return parse_options(["--model-path", "M", "--no-noise", *EAGLE, *flags])[0]


def test_nothing_goes_wrong_unless_it_is_asked_for() -> None:
    assert options().defects == Defects() == Defects(0.0, 1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "flags",
    [("--looping-answers", "1.1"), ("--draft-quality", "-0.1"), ("--slow-down", "nan"),
     ("--slow-down-after", "inf")],
)  # fmt: skip
def test_an_impossible_defect_is_refused(
    flags: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        options(*flags)
    assert f"argument {flags[0]}: " in capsys.readouterr().err


def test_each_defect_has_a_line_in_the_help_and_stands_in_the_server_info(start: Start) -> None:
    told = build_parser().format_help()
    given = {"looping_answers": 0.5, "draft_quality": 0.25, "slow_down": 0.1, "slow_down_after": 9}
    flags = [
        word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    assert all(str(word) in told for word in flags[::2])
    info = start(*flags).get("/server_info").json()
    assert info["simulation"].items() >= given.items()
    assert not info.keys() & given.keys(), "they are no arguments of SGLang"


def looping(answer: str) -> bool:
    raw = answer[len(answer) // 2 :].encode()
    return len(zlib.compress(raw)) < 0.2 * len(raw)


def test_the_share_of_looping_answers_is_decided_by_the_prompts() -> None:
    chosen = [text.falls_into_a_loop(seed, 0.3) for seed in range(2000)]
    assert 0.25 < sum(chosen) / 2000 < 0.35
    assert chosen == [text.falls_into_a_loop(seed, 0.3) for seed in range(2000)]
    assert not any(text.falls_into_a_loop(seed, 0.0) for seed in range(100))
    assert all(text.falls_into_a_loop(seed, 1.0) for seed in range(100))


@given(st.integers(0, 1 << 32), st.integers(1, 900))
def test_a_loop_begins_as_any_other_answer_and_has_its_length(seed: int, n_tok: int) -> None:
    answer = text.answer_tokens(seed, n_tok, loops=True)
    assert len(answer) == n_tok
    assert answer[:40] == text.answer_tokens(seed, n_tok)[:40]
    if n_tok > 200:
        assert looping("".join(answer))


def test_an_answer_that_loops_goes_on_to_its_cap(start: Start) -> None:
    server = start("--looping-answers", 1, "--speed", 60)
    for prompt in ("one", "two", "three"):
        document = server.chat(prompt, max_tokens=300)
        assert document["usage"]["completion_tokens"] == 300
        assert document["choices"][0]["finish_reason"] == "length"
        assert looping(document["choices"][0]["message"]["content"])


@pytest.mark.parametrize("topk", [1, 4])
def test_a_draft_of_another_model_guesses_nothing_and_a_worse_one_less(topk: int) -> None:
    lengths = [
        accept_distribution(SCENARIO.draft.scaled(quality), 3, topk, 4).mean
        for quality in (0.0, 0.3, 0.7, 1.0)
    ]
    assert lengths[0] == 1.0
    assert lengths == sorted(set(lengths))
    assert lengths[-1] == accept_distribution(SCENARIO.draft, 3, topk, 4).mean


@given(st.floats(0.1, 12), st.integers(1, 8))
def test_a_faked_accept_length_is_met_on_average_within_what_the_chain_can_yield(
    wanted: float, steps: int
) -> None:
    distribution = faked_distribution(wanted, steps)
    met = min(max(wanted, 1.0), steps + 1.0)
    assert distribution.mean == pytest.approx(met)
    drawn = [distribution.draw((n + 0.5) / 1000) for n in range(1000)]
    assert {int(met), -int(-met // 1)} >= set(drawn)
    assert sum(drawn) / 1000 == pytest.approx(met, abs=0.002)


@pytest.mark.parametrize(
    ("value", "mean"), [("3.5", 3.5), ("9", 4.0), ("-1", None), ("", None), ("many", None)]
)
def test_the_variable_of_sglang_sets_the_accept_length(
    monkeypatch: pytest.MonkeyPatch, value: str, mean: float | None
) -> None:
    assert "SGLANG_SIMULATE_ACC_LEN" not in os.environ
    sound = SimulatedServer(options()).scheduler._accept.mean
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", value)
    server = SimulatedServer(options())
    assert server.scheduler._accept.mean == pytest.approx(sound if mean is None else mean)


def test_without_speculation_nothing_is_faked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3")
    plain, _ = parse_options(["--model-path", "M", "--no-noise"])
    assert SimulatedServer(plain).scheduler._accept.mean == 1.0


def test_heat_makes_every_later_pass_longer() -> None:
    deployment, accept = deploy(SCENARIO, Speculation(3, 1, 4), mem_fraction=0.85)
    shapes = [Shape(500, 200)] * 40

    def lasted(slow_down: float, after_s: float) -> float:
        noise = replace(Noise(), slow_down=slow_down, slow_down_after_s=after_s)
        return play(deployment, accept, shapes, 4, noise=noise).ended_s

    cool_s = lasted(0.0, 0.0)
    assert lasted(0.5, 0.0) == pytest.approx(1.5 * cool_s, rel=0.02)
    assert lasted(0.5, 1e9) == cool_s
    assert lasted(0.5, cool_s / 2) == pytest.approx(1.25 * cool_s, rel=0.05)


def test_without_a_radix_cache_nothing_is_found_again(start: Start) -> None:
    server = start("--disable-radix-cache", "--enable-cache-report", "--speed", 60)
    prompt = "the same words once more " * 60
    for _ in range(2):
        usage = server.chat(prompt, max_tokens=4)["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert server.gauges()["sglang:num_used_tokens"] == 0
