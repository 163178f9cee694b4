"""How load is sent and what it measured: client, schedule, phases, metrics, validity."""

from __future__ import annotations

from autotune.measure.client import Endpoint
from autotune.measure.phase import measure_phase
from autotune.measure.plan import PhasePlan

__all__ = ["Endpoint", "PhasePlan", "measure_phase"]
