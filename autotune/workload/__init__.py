"""What is sent: sessions of turns, and where they come from."""

from __future__ import annotations

from autotune.workload.model import Message, Session, Turn, Workload
from autotune.workload.named import workload_named

__all__ = ["Message", "Session", "Turn", "Workload", "workload_named"]
