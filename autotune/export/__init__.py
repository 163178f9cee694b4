"""Launch flags in the form a team deploys, from one neutral description."""

from __future__ import annotations

from autotune.export.adaptive import adaptive_recipe, check_adaptive, suggestion_for
from autotune.export.choice import check_proven, choose, front
from autotune.export.formats import FORMATS, SCRIPTS, SUFFIXES, check_format, render, render_all
from autotune.export.recipe import Recipe, other_machine, recipe_for

__all__ = [
    "FORMATS",
    "SCRIPTS",
    "SUFFIXES",
    "Recipe",
    "adaptive_recipe",
    "check_adaptive",
    "check_format",
    "check_proven",
    "choose",
    "front",
    "other_machine",
    "recipe_for",
    "render",
    "render_all",
    "suggestion_for",
]
