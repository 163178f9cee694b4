from __future__ import annotations

import numpy as np
import pytest

from autotune.search.cost import NAMES, Configurations, Costs, Room, log_mean_throughput

DRAWS = np.random.default_rng(0).standard_normal((200, len(NAMES)))
CHAINS = Configurations.of([(steps, 1, steps + 1) for steps in range(1, 9)])
COSTS = Costs(DRAWS, (0.0, 0.0), CHAINS)


def room(limit: float = np.inf, tokens: float = np.inf) -> Room:
    return Room(np.full(8, limit), np.full(8, tokens))


@pytest.mark.parametrize(
    ("limit", "tokens"), [(np.inf, np.inf), (10.0, np.inf), (np.inf, 30_000.0), (12.0, 50_000.0)]
)
def test_the_batch_is_at_most_each_of_its_limits(limit: float, tokens: float) -> None:
    batch = COSTS.batch(16, room(limit, tokens))
    by_memory = np.maximum(tokens / np.exp(8.3 + 1.3 * np.clip(DRAWS[:, -1:], -5, 5)), 0.5)
    assert (batch <= np.minimum(min(16.0, limit), by_memory) * (1 + 1e-9)).all()
    assert (batch > 0).all()


def test_more_room_never_serves_a_smaller_batch() -> None:
    small, large = COSTS.batch(32, room(8, 4e4)), COSTS.batch(32, room(16, 8e4))
    assert (small <= large).all()


def test_a_batch_without_limits_is_what_is_asked() -> None:
    assert COSTS.batch(16, room()) == pytest.approx(16.0)


def test_latency_falls_with_acceptance_and_rises_with_the_time_of_a_pass() -> None:
    def latency(name: str, value: float) -> float:
        z = np.zeros((1, len(NAMES)))
        z[0, NAMES.index(name)] = value
        return float(Costs(z, (0.0, 0.0), CHAINS).log_latency()[0, 4])

    assert latency("q_logit", 1.0) < latency("q_logit", 0.0) < latency("q_logit", -1.0)
    for dearer in ("log_latency", "log_ttft", "log_draft_pass", "log_row", "log_states"):
        assert latency(dearer, -1.0) < latency(dearer, 1.0), dearer
    assert latency("log_load", -1.0) == latency("log_load", 1.0), "load has its own scale"


def test_throughput_is_at_most_that_of_so_many_requests_alone() -> None:
    """A batch never decodes faster per request than one request."""
    for concurrency in (4, 16, 64):
        together = COSTS.log_throughput(concurrency, room()) - np.log(concurrency)
        alone = COSTS.log_throughput(1, room())
        assert (together <= alone + 1e-9).all()


def test_the_mean_over_concurrencies_is_geometric() -> None:
    both = (COSTS.log_throughput(16, room()) + COSTS.log_throughput(32, room())) / 2
    assert log_mean_throughput(COSTS, (16, 32), room()) == pytest.approx(both)


def test_a_model_without_states_does_not_pay_for_them() -> None:
    with_states = Costs(DRAWS, (0.0, 0.0), CHAINS, keeps_states=True)
    without = Costs(DRAWS, (0.0, 0.0), CHAINS, keeps_states=False)
    assert (without.log_latency() < with_states.log_latency()).all()


def test_draws_from_far_outside_the_prior_stay_finite() -> None:
    for far in (-100.0, 100.0):
        costs = Costs(np.full((1, len(NAMES)), far), (0.0, 0.0), CHAINS)
        assert np.isfinite(costs.log_latency()).all()
        assert np.isfinite(costs.log_throughput(64, room(0.0, 1.0))).all()
