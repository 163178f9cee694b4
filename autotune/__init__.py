"""autotune finds SGLang launch flags for a model, a machine and a workload."""

from __future__ import annotations

__version__ = "0.1.0"
