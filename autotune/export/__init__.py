"""Launch flags in the form a team deploys, from one neutral description."""

from __future__ import annotations

from autotune.export.formats import FORMATS, render
from autotune.export.recipe import Recipe, choose, recipe_for

__all__ = ["FORMATS", "Recipe", "choose", "recipe_for", "render"]
