from __future__ import annotations

import pytest

from autotune.measure.metrics import summarize
from autotune.measure.observe import Observations
from autotune.measure.plan import PhasePlan
from autotune.measure.records import RequestRecord


def test_an_event_that_was_given_no_token_of_its_own_is_no_gap() -> None:
    arrivals = ((1.0, 1), (1.1, 5), (1.2, 5), (1.3, 9), (1.3, 9))
    phase = summarize(
        [RequestRecord(0.9, 1.4, arrivals)],
        plan=PhasePlan("serving", 1, 1, 0),
        window=(0.0, 2.0),
        in_flight=[(0.0, 1)],
        reference_output_tok=100,
        temperature=0.6,
        client_cpu_frac=0.1,
        seen=Observations(),
    )
    assert phase.percentiles["chunk_gap_s"]["p99"] == pytest.approx(0.2, abs=0.01)
    assert phase.percentiles["itl_s"]["p50"] == pytest.approx(0.05, abs=0.026)
    assert phase.itl_s is not None and phase.itl_s.value == pytest.approx(0.3 / 8)
