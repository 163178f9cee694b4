"""Launch flags in the form a team deploys, from one neutral description."""

from __future__ import annotations

from autotune.export.choice import choose, front
from autotune.export.formats import FORMATS, SCRIPTS, SUFFIXES, check_format, render, render_all
from autotune.export.recipe import Recipe, describe_machine, recipe_for

__all__ = [
    "FORMATS",
    "SCRIPTS",
    "SUFFIXES",
    "Recipe",
    "check_format",
    "choose",
    "describe_machine",
    "front",
    "recipe_for",
    "render",
    "render_all",
]
