from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotune.core.trial import Bound, Failure, FailureKind
from autotune.search.memory import MemoryModel, learn_memory
from autotune.search.observation import Observation
from autotune.space.rules import DRAFT, MEMORY

FRACTIONS = np.linspace(0.5, 0.98, 25)


def lived(fraction: float, draft: int = 4, **told: Any) -> Observation:  # noqa: ANN401
    return Observation(0, {MEMORY: fraction, DRAFT: draft}, "measured", **told)


def died(
    kind: FailureKind,
    fraction: float,
    draft: int = 4,
    bound: Bound | None = None,
    gpu_gb: float | None = None,
) -> Observation:
    failure = Failure(kind, "", "", "", bound)
    return Observation(
        0, {MEMORY: fraction, DRAFT: draft}, "failed", failure=failure, gpu_gb=gpu_gb
    )


def learn(*seen: Observation) -> MemoryModel:
    return learn_memory(seen, np.random.default_rng(0))


def survival(model: MemoryModel, fraction: float, draft: float = 4) -> float:
    return float(model.survival(np.array([fraction]), np.array([float(draft)]))[0])


HISTORIES: tuple[tuple[Observation, ...], ...] = (
    (),
    (lived(0.85),),
    (lived(0.85, gpu_gb=80.0, free_gb=7.0, weights_gb=40.0, kv_tokens=1e5),),
    (died(FailureKind.GRAPH_CAPTURE_OOM, 0.9, 16),),
    (died(FailureKind.KV_DOES_NOT_FIT, 0.7), lived(0.8)),
    (died(FailureKind.WEIGHTS_DO_NOT_FIT, 0.6, gpu_gb=24.0),),
    (lived(0.9), died(FailureKind.RUNTIME_OOM, 0.8)),  # a contradiction
)


@pytest.mark.parametrize("seen", HISTORIES)
def test_the_walls_are_a_hill_over_the_fraction_and_fall_with_the_draft(
    seen: tuple[Observation, ...],
) -> None:
    model = learn(*seen)
    for alone in np.eye(model.weight.size)[::40]:
        # Of one draw: hills that stand apart do not add up to one hill.
        lives = replace(model, weight=alone).survival(FRACTIONS, np.full(FRACTIONS.size, 8.0))
        top = int(np.argmax(lives))
        assert (np.diff(lives[: top + 1]) >= -1e-9).all() and (np.diff(lives[top:]) <= 1e-9).all()
        assert (lives >= 0).all() and (lives <= 1).all()
    drafts = np.arange(1.0, 65.0)
    assert (np.diff(model.survival(np.full(64, 0.85), drafts)) <= 1e-9).all()


@pytest.mark.parametrize("seen", HISTORIES[:-1])  # after a contradiction it shows little
def test_a_launch_that_lives_shows_that_the_wall_is_elsewhere(
    seen: tuple[Observation, ...],
) -> None:
    model = learn(*seen)
    drafts = np.full(FRACTIONS.size, 8.0)
    before, after = model.survival_and_lasting(FRACTIONS, drafts)
    assert before == pytest.approx(model.survival(FRACTIONS, drafts))
    assert (after >= before - 1e-9).all() and (after <= 1.0 + 1e-9).all()
    # Doubt about where the wall is goes; what the wall itself leaves to luck stays.
    unsure = (before > 0.3) & (before < 0.7)
    assert (after[unsure] > before[unsure] + 0.1).all()


@pytest.mark.parametrize("kind", [FailureKind.GRAPH_CAPTURE_OOM, FailureKind.RUNTIME_OOM])
def test_running_out_of_memory_lowers_everything_beyond(kind: FailureKind) -> None:
    before, after = learn(), learn(died(kind, 0.85, 8))
    for fraction, draft in ((0.85, 8), (0.9, 8), (0.85, 32), (0.92, 16)):
        assert survival(after, fraction, draft) < survival(before, fraction, draft)
    assert survival(after, 0.85, 8) < 0.5


def test_no_room_for_the_cache_lowers_everything_with_less() -> None:
    before, after = learn(lived(0.85)), learn(lived(0.85), died(FailureKind.KV_DOES_NOT_FIT, 0.75))
    for fraction in (0.6, 0.7, 0.75):
        assert survival(after, fraction) < min(0.5, survival(before, fraction))


def test_what_lived_is_likely_to_live_and_so_is_all_below_it() -> None:
    before, after = learn(), learn(lived(0.9, 16))
    assert survival(after, 0.9, 16) > max(0.9, survival(before, 0.9, 16))
    assert survival(after, 0.9, 4) >= survival(after, 0.9, 16)


def test_the_free_memory_that_one_launch_tells_places_the_upper_wall() -> None:
    model = learn(lived(0.80, gpu_gb=80.0, free_gb=9.0, weights_gb=30.0))
    assert survival(model, 0.88) > 0.9, "2.6 GB are left"
    assert survival(model, 0.93) < 0.2, "nothing is left"


def test_kv_tokens_at_two_fractions_place_the_lower_wall() -> None:
    told = [lived(f, gpu_gb=80.0, kv_tokens=1e6 * (f - 0.70)) for f in (0.80, 0.85)]
    model = learn(*told)
    assert np.median(model.pool_start()) == pytest.approx(0.70, abs=0.01)
    assert survival(model, 0.66) < 0.2 < 0.9 < survival(model, 0.78)


def test_a_bound_that_the_server_told_is_the_wall() -> None:
    told = Bound(MEMORY, "at_least", 0.78)
    model = learn(lived(0.9), died(FailureKind.KV_DOES_NOT_FIT, 0.6, bound=told))
    assert survival(model, 0.74) < 0.2 < 0.8 < survival(model, 0.82)
    above = learn(died(FailureKind.RUNTIME_OOM, 0.95, bound=Bound(MEMORY, "at_most", 0.8)))
    assert survival(above, 0.9) < 0.4 < survival(above, 0.75)


def test_a_bound_of_another_flag_is_no_wall_of_the_fraction() -> None:
    bound = Bound("max_running_requests", "at_most", 8)
    other, none = (
        learn(died(FailureKind.RUNTIME_OOM, 0.9, bound=b)).survival(FRACTIONS, np.full(25, 4.0))
        for b in (bound, None)
    )
    assert other == pytest.approx(none)


def test_an_unknown_gpu_is_no_obstacle() -> None:
    model = learn(lived(0.8, free_gb=9.0), lived(0.85, free_gb=6.6), lived(0.9, free_gb=4.2))
    assert survival(model, 0.9) > 0.9
    assert survival(model, 0.98) < 0.3
    assert model.weight.sum() == pytest.approx(1.0)


def test_contradictions_leave_more_than_one_draw() -> None:
    model = learn(*[lived(0.9), died(FailureKind.GRAPH_CAPTURE_OOM, 0.6)] * 5)
    assert np.isfinite(model.weight).all() and (model.weight > 0).sum() > 100
