"""What is searched: parameters, SGLang's rules between flags, the canonical form, the loader."""

from __future__ import annotations

from autotune.space.load import load_space, space_names
from autotune.space.parameter import Choice, DecimalRange, IntegerRange, Parameter, Switch
from autotune.space.space import SearchSpace

__all__ = [
    "Choice",
    "DecimalRange",
    "IntegerRange",
    "Parameter",
    "SearchSpace",
    "Switch",
    "load_space",
    "space_names",
]
