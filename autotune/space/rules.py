"""SGLang's own rules between the speculative flags, as pure functions.

They hold for EAGLE, EAGLE3, NEXTN and STANDALONE. SGLang itself checks little of this: it
overwrites one value silently and lets others crash a launch that already took minutes, so a
search must know better. Line numbers are of ``python/sglang/srt/`` in the release named.
"""

from __future__ import annotations

from collections.abc import Mapping

STEPS = "speculative_num_steps"
TOPK = "speculative_eagle_topk"
DRAFT = "speculative_num_draft_tokens"
MEMORY = "mem_fraction_static"

TREE_FLAGS = (STEPS, TOPK, DRAFT)

SHORT_NAMES = {STEPS: "steps", TOPK: "topk", DRAFT: "draft", MEMORY: "mem"}
"""What tables and pictures call the four flags, in the order in which the field writes them."""

MIN_DRAFT_TOKENS = 2
"""The root token and one drafted token; with fewer nothing is speculated."""

LIMITS: Mapping[str, tuple[float, float]] = {
    STEPS: (1, 64),
    TOPK: (1, 64),
    DRAFT: (MIN_DRAFT_TOKENS, 512),
    MEMORY: (0.01, 0.99),
}
"""Lowest and highest value worth a launch, both included.

The upper ends only catch slips of the pen: published settings go to 10 steps, topk 16 and 64
draft tokens, and SGLang's parser accepts 0, negative numbers and 1000 alike.
"""


def chain_draft_tokens(steps: int) -> int:
    """Draft tokens of a chain (topk 1): one per step, and the root.

    Source: SGLang 0.4.6.post5 to 0.5.23 overwrite any other value and log "adjusted to
    speculative_num_steps + 1" (server_args.py:425 @0.4.6.post5, speculative_hook.py:1260
    @0.5.23).
    """
    return steps + 1


def tree_capacity_tok(steps: int, topk: int) -> int:
    """Most draft tokens a tree can hold, its root included.

    The first step scores ``topk`` candidates and every later one ``topk`` squared; the best of
    them, one fewer than the draft tokens, are verified.

    Source: SGLang 0.5.23, speculative/eagle_utils.py, ``organize_draft_results``. Nothing checks
    it at start: ``torch.topk`` raises (index out of range) at graph capture.
    """
    return 1 + topk + (steps - 1) * topk**2


def draft_range(steps: int, topk: int) -> tuple[int, int]:
    """Fewest and most legal draft tokens, both included; they are equal for a chain.

    A tree of fewer than ``steps + 1`` tokens is legal; it only cuts the deepest path.
    """
    if topk == 1:
        return chain_draft_tokens(steps), chain_draft_tokens(steps)
    return MIN_DRAFT_TOKENS, tree_capacity_tok(steps, topk)


def why_rejected(steps: int, topk: int, draft_tok: int) -> str | None:
    """In one sentence, why SGLang does not run this triple as asked; None if it does."""
    for flag, value in ((STEPS, steps), (TOPK, topk), (DRAFT, draft_tok)):
        lowest = int(LIMITS[flag][0])
        if value < lowest:
            return f"{flag} {value} is below {lowest}"
    low, high = draft_range(steps, topk)
    if low <= draft_tok <= high:
        return None
    if topk == 1:
        return (
            f"with {TOPK} 1 and {STEPS} {steps} SGLang sets {DRAFT} to {low} (steps + 1), "
            f"not {draft_tok}"
        )
    return (
        f"{DRAFT} {draft_tok} is more than the draft tree can hold: {high} "
        f"with {STEPS} {steps} and {TOPK} {topk}, and SGLang crashes in graph capture"
    )
