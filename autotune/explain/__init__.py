"""Why a configuration is as good as it is: in sentences whose numbers say where they come from."""

from __future__ import annotations

from autotune.explain.document import Explanation, Figure, Finding
from autotune.explain.explanation import explain

__all__ = ["Explanation", "Figure", "Finding", "explain"]
