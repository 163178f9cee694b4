from __future__ import annotations

from functools import cache
from statistics import fmean

import numpy as np
import pytest

from autotune.engine.simulated.acceptance import accept_distribution
from autotune.engine.simulated.physics import Speculation, steady_state
from autotune.engine.simulated.scenarios import SCENARIOS
from autotune.engine.simulated.virtual import Shape, deploy, play, steady_throughput
from tests.simulated.hand_sweep import CELLS, FRACTION, RUNNING_LIMITS, SCENARIO, Cell, swept

SEEDS = (11, 12, 13, 14, 15)


@cache
def simulated(steps: int, concurrency: int) -> tuple[float, float]:
    """Per-request speed and aggregate, averaged over the orders that answers may come in."""
    runs = [swept(steps, concurrency, seed) for seed in SEEDS]
    return fmean(r.decode_tok_s for r in runs), fmean(r.aggregate_tok_s for r in runs)


@pytest.mark.parametrize("cell", CELLS, ids=lambda c: f"steps{c.steps}-C{c.concurrency}")
def test_no_cell_of_the_sweep_is_off_by_more_than_seven_percent(cell: Cell) -> None:
    per_request, aggregate = simulated(cell.steps, cell.concurrency)
    if cell.per_request_tok_s is not None:
        assert per_request == pytest.approx(cell.per_request_tok_s, rel=0.07)
    if cell.aggregate_tok_s is not None:
        assert aggregate == pytest.approx(cell.aggregate_tok_s, rel=0.07)


def test_the_four_ratios_that_decide_are_within_three_percent() -> None:
    at_16 = {steps: simulated(steps, 16)[1] for steps in (3, 4, 5)}
    at_1 = {steps: simulated(steps, 1)[0] for steps in (3, 4, 5)}
    assert at_16[3] / at_16[4] == pytest.approx(1.086, rel=0.03)
    assert at_16[4] / at_16[5] == pytest.approx(1.426, rel=0.03)
    assert at_1[4] / at_1[3] == pytest.approx(1.185, rel=0.03)
    assert at_1[5] / at_1[4] == pytest.approx(1.015, rel=0.03)


@pytest.mark.parametrize(("steps", "limit"), RUNNING_LIMITS.items())
def test_the_running_limits_are_within_one(steps: int, limit: int) -> None:
    deployment, _ = deploy(SCENARIO, Speculation(steps, 1, steps + 1), mem_fraction=FRACTION)
    assert abs(deployment.running_limit - limit) <= 1


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("concurrency", [1, 8, 16])
def test_the_closed_form_agrees_with_played_load(name: str, concurrency: int) -> None:
    scenario = SCENARIOS[name]
    fraction = float(dict(scenario.base_flags)["--mem-fraction-static"])
    deployment, accept = deploy(scenario, Speculation(3, 1, 4), mem_fraction=fraction)
    shapes = [Shape(300, 220 + 7 * (i % 13)) for i in range(40 * concurrency)]
    output_tok = round(fmean(s.output_tok for s in shapes))
    expected = steady_state(
        deployment,
        concurrency,
        accept.mean,
        new_tok=300,
        output_tok=output_tok,
        context_tok=300 + output_tok // 2,
    )
    played = play(deployment, accept, shapes, concurrency, seed=3)
    if concurrency == 1:
        assert played.decode_tok_s == pytest.approx(expected.decode_tok_s, rel=0.03)
    else:
        measured = steady_throughput(played, concurrency)
        assert measured == pytest.approx(expected.output_tok_s, rel=0.05)


def test_a_pool_that_grows_a_little_serves_a_little_more() -> None:
    """Also between two whole numbers of requests."""
    accept = 3.0
    found = []
    for fraction in np.arange(0.86, 0.92, 0.005):
        deployment, _ = deploy(
            SCENARIOS["tight-32b-code"], Speculation(7, 4, 15), mem_fraction=float(fraction)
        )
        state = steady_state(deployment, 16, accept, new_tok=1500, output_tok=260, context_tok=4500)
        assert state.n_running == deployment.mean_running(16, 4500)
        found.append(state.output_tok_s)
    growth = np.diff(np.log(found))
    assert (growth > 0.005).all() and (growth < 0.1).all()


def test_speculation_off_yields_one_token_a_pass() -> None:
    assert accept_distribution(SCENARIO.draft, 0, 1, 1).mean == 1.0


def test_a_larger_batch_than_the_captured_graphs_is_much_slower() -> None:
    deployment, _ = deploy(
        SCENARIO, Speculation(3, 1, 4), mem_fraction=FRACTION, max_running_requests=8
    )
    assert deployment.cycle_s(9, 9000) > 1.8 * deployment.cycle_s(8, 8000)


def test_the_fraction_moves_the_pool_and_both_walls() -> None:
    spec = Speculation(4, 1, 5)
    low, high = (deploy(SCENARIO, spec, mem_fraction=f)[0] for f in (0.80, 0.90))
    assert low.kv_pool_tok < high.kv_pool_tok
    assert low.running_limit < high.running_limit
    assert low.free_after_capture_gb > high.free_after_capture_gb
