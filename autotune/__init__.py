"""autotune finds SGLang launch flags for a model, a machine and a workload.

The command line is ``autotune``; from Python, ``load_space`` and ``load_objective`` give what a
sampler of ``autotune.search`` needs. Nothing heavy is imported before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotune.space import load_space
    from autotune.study.config import load_objective

__version__ = "0.1.0"
__all__ = ["__version__", "load_objective", "load_space"]


def __getattr__(name: str) -> object:
    if name == "load_space":
        from autotune.space import load_space

        return load_space
    if name == "load_objective":
        from autotune.study.config import load_objective

        return load_objective
    raise AttributeError(f"module 'autotune' has no attribute {name!r}")
