"""What is sent: sessions of turns, and where they come from."""

from __future__ import annotations

from autotune.workload.agentic import agentic
from autotune.workload.model import Session, Turn, Workload, workload_named

__all__ = ["Session", "Turn", "Workload", "agentic", "workload_named"]
