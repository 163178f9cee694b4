"""The simulated server changes its draft steps with the batch, as the file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.engine.simulated.acceptance import accept_distribution
from autotune.engine.simulated.adaptive import AdaptiveSteps, Slot, adapting, gearbox
from autotune.engine.simulated.arguments import RejectedArguments, parse_options
from autotune.engine.simulated.batch import BatchScheduler, Noise, Request
from autotune.engine.simulated.physics import Deployment, Speculation
from autotune.engine.simulated.prefix_cache import Piece
from autotune.engine.simulated.scenarios import scenario_named

SWEEP = scenario_named("qwen3.5-122b-sweep")
SIZES = (*range(1, 9), *range(10, 33, 2), 40, 48)


def table(**slots: list[int]) -> dict[str, Any]:
    """``table(b1=[4], b9=[2])``."""
    return {name[1:]: {"candidate_steps": steps} for name, steps in slots.items()}


def options(tmp_path: Path, document: object, *more: str) -> Any:  # noqa: ANN401
    path = tmp_path / "adaptive.json"
    path.write_text(json.dumps(document))
    words = ["--model-path", "M", "--scenario", SWEEP.name, "--speculative-algorithm", "EAGLE"]
    words += ["--mem-fraction-static", "0.85", "--speculative-adaptive", *more]
    return parse_options([*words, "--speculative-adaptive-config", str(path)])


# ---- which steps ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "steps"), [(1, 4), (8, 4), (9, 2), (10, 2), (30, 2), (31, 0), (47, 0), (60, 0)]
)
def test_a_batch_is_padded_to_its_graph_and_goes_to_the_slot_below(batch: int, steps: int) -> None:
    """A batch of 9 runs in the graph of 10 requests."""
    every = AdaptiveSteps(table(b1=[4], b10=[2], b32=[0]), 4, SIZES)
    assert every.slot(batch).steps == steps


def test_a_batch_below_the_first_slot_uses_the_first() -> None:
    assert AdaptiveSteps(table(b4=[3]), 3, SIZES).slot(1).steps == 3


def test_one_candidate_is_kept_whatever_is_accepted() -> None:
    slot = Slot(3, {"candidate_steps": [3]})
    for _ in range(100):
        slot.learn([0, 0])
    assert slot.steps == 3


def test_accepted_drafts_raise_the_steps_and_refused_ones_lower_them() -> None:
    slot = Slot(3, {"candidate_steps": [1, 3, 5]})
    for _ in range(10):
        slot.learn([3, 3])
    assert slot.steps == 3, "the first cycles are a warm-up"
    for _ in range(30):
        slot.learn([slot.steps])
    assert slot.steps == 5
    for _ in range(60):
        slot.learn([0])
    assert slot.steps == 1


def test_off_is_left_now_and_then_to_see_what_a_draft_would_bring() -> None:
    slot = Slot(0, {"candidate_steps": [0, 1], "down_hysteresis": 0.0})
    seen = []
    for _ in range(60):
        slot.learn([0])
        seen.append(slot.steps)
    assert set(seen) == {0, 1}
    only = Slot(2, {"candidate_steps": [0]})
    for _ in range(30):
        only.learn([0])
    assert only.steps == 0


# ---- the launch ---------------------------------------------------------------------------------


def test_memory_is_set_aside_for_the_deepest_steps(tmp_path: Path) -> None:
    found, _ = options(tmp_path, table(b1=[4], b9=[2]), "--speculative-num-steps", "2",
                       "--speculative-eagle-topk", "1")  # fmt: skip
    static = Deployment(SWEEP.machine, Speculation(4, 1, 5), 0.85, 48, 48)
    adaptive = found.deployment
    assert adaptive.speculation == Speculation(2, 1, 3)
    assert adaptive.running_limit == static.running_limit
    assert adaptive.reserved_tok == static.reserved_tok
    shallow = Deployment(SWEEP.machine, Speculation(2, 1, 3), 0.85, 48, 48)
    assert adaptive.free_after_capture_gb < shallow.free_after_capture_gb
    assert adaptive.spares == ((4, 8),), "graphs of 4 steps are needed up to a batch of 8"


def test_the_middle_candidate_is_where_it_starts_unless_told(tmp_path: Path) -> None:
    found, _ = options(tmp_path, table(b1=[1, 3, 5]))
    assert found.deployment.speculation == Speculation(3, 1, 4)
    assert found.resolved["speculative_adaptive"] is True


@pytest.mark.parametrize(
    ("document", "words", "told"),
    [
        (table(b1=[1, 3]), ("--speculative-num-steps", "2"), "is not in the adaptive config"),
        ({"1": {"candidate_steps": []}}, (), "must be a list of non-negative ints"),
        ({"1": {"candidate_steps": [-1]}}, (), "must be a list of non-negative ints"),
        ({"candidate_steps": [1, 3]}, (), "at least one integer-string BS key"),
    ],
)
def test_what_sglang_refuses_is_refused_in_its_words(
    tmp_path: Path, document: object, words: tuple[str, ...], told: str
) -> None:
    with pytest.raises(RejectedArguments, match=told):
        options(tmp_path, document, *words)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--speculative-eagle-topk", "2", "--speculative-num-draft-tokens", "4"), "eagle_topk=2"),
        (("--speculative-algorithm", "STANDALONE", "--speculative-eagle-topk", "1"), "STANDALONE"),
    ],
)
def test_what_cannot_adapt_runs_with_fixed_steps(
    tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    found, log = options(tmp_path, table(b1=[3]), "--speculative-num-steps", "3", *words)
    assert found.adaptive is None and not found.resolved["speculative_adaptive"]
    assert any("speculative_adaptive disabled" in line and why in line for line in log)


# ---- what it does -------------------------------------------------------------------------------


def cycles(n_requests: int, document: object | None, steps: int) -> tuple[float, float]:
    """Seconds per decode cycle and mean accept length of a batch that stays as it is."""
    plain = Deployment(SWEEP.machine, Speculation(steps, 1, steps + 1), 0.85, 48, 48)
    gears, deployment = None, plain
    if document is not None:
        every = AdaptiveSteps(document, steps, SIZES)
        deployment = adapting(plain, every)
        gears = gearbox(deployment, every, lambda n: accept_distribution(SWEEP.draft, n, 1, n + 1))
    accept = accept_distribution(SWEEP.draft, steps, 1, steps + 1)
    scheduler = BatchScheduler(deployment, accept, Noise(), 0, gears)
    for i in range(n_requests):
        scheduler.submit(Request((Piece(-i - 1, 100),), 4000))
    first = scheduler.step()
    assert first is not None and len(scheduler.running) == n_requests
    for _ in range(200):
        scheduler.step()
    lasted_s = scheduler.now_s - first.ends_at_s
    return lasted_s / 200, scheduler.n_accepted / scheduler.n_cycles


@pytest.mark.parametrize(("n_requests", "steps"), [(1, 4), (4, 4), (9, 2), (12, 2)])
def test_a_batch_runs_exactly_like_a_server_of_its_steps(n_requests: int, steps: int) -> None:
    adaptive = cycles(n_requests, table(b1=[4], b9=[2]), 2)
    static = cycles(n_requests, None, steps)
    assert adaptive == pytest.approx(static, rel=1e-9)


def test_zero_steps_yield_one_token_and_still_keep_the_draft_up_to_date() -> None:
    off_s, accept = cycles(12, table(b1=[3], b9=[0]), 3)
    assert accept == 1.0
    plain_s, _ = cycles(12, None, 0)
    drafting_s, _ = cycles(12, None, 3)
    assert plain_s < off_s < drafting_s
