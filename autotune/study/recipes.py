"""Draft trees that others have published for a model: where to look first, not what to believe.

A recipe was measured, if at all, on another machine and another load, and published ones have
turned out wrong. So each is only launched early, two at most, and then judged like any other.
"""

from __future__ import annotations

from typing import NamedTuple


class Recipe(NamedTuple):
    """A tree for the models whose path holds one of these words; no word: for any model."""

    words: tuple[str, ...]
    steps: int
    topk: int
    draft_tok: int
    source: str


_AUTOMATIC = "SGLang's automatic choice, speculative_hook.py @0.5.23"
RECIPES = (
    Recipe(("qwen3-coder-next",), 3, 4, 8, "model card thoughtworks/Qwen3-Coder-Next-Eagle3"),
    Recipe(("qwen3.5", "qwen3-next"), 3, 1, 4, "voipmonitor/rtx6kpro, speculative-decoding.md"),
    Recipe(("qwen3-8b",), 4, 4, 16, "gpustack performance lab, Qwen3-8B on H100, latency"),
    Recipe(("gemma-3",), 3, 4, 8, "model card witcheer/gemma-3-27b-eagle3-drafter"),
    Recipe(("glm-5",), 5, 1, 6, "SGLang issue 29674"),
    Recipe(("glm-4.7-flash",), 3, 4, 6, "EAGLE pull request 330"),
    Recipe(("gpt-oss",), 3, 1, 4, "specdrift, gpt-oss-120b on H100"),
    Recipe(("llama", "grok"), 5, 4, 8, _AUTOMATIC),
    Recipe(("deepseek", "glm-4"), 3, 1, 4, _AUTOMATIC),
    Recipe((), 3, 1, 4, "SGLang's automatic choice for other models, 0.5.10 and later"),
)


def recipes_for(model_path: str) -> tuple[Recipe, ...]:
    """Those that fit a model, the most specific first, each tree once."""
    path = model_path.lower()
    fitting = [r for r in RECIPES if not r.words or any(word in path for word in r.words)]
    once = {(r.steps, r.topk, r.draft_tok): r for r in reversed(fitting)}
    return tuple(r for r in fitting if once[(r.steps, r.topk, r.draft_tok)] is r)
