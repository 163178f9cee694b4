"""The limits that SGLang writes into its messages, as numbers that a search can use."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from autotune.core.trial import Bound, FailureKind

_FRACTION = "mem_fraction_static"
_DRAFT = "speculative_num_draft_tokens"

# "Raise --mem-fraction-static above 0.942" (kv_cache_configurator.py:3053 @0.5.23) and "Raise
# --chunked-prefill-size to at least 512" (scheduler.py:1821 @0.5.23).
_SAID = re.compile(
    r"--([a-z][a-z0-9-]{3,60})\W{1,3}(?:value )?(?:to |must be |should be |of )?"
    r"(at least|above|no less than|more than|>=|at most|below|no more than|less than|<=) ?"
    r"(\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_AT_LEAST = {"at least", "above", "no less than", "more than", ">="}

# Draft trees of UNO: speculative_hook.py:514 and :534 @0.5.23; the ring of the compressed state:
# pool_configurator.py:1303 @0.5.23.
_DRAFT_AT_MOST = re.compile(
    r"exceeds capacity=(\d+)|supports at most Q=(\d+)|serves at most (\d+) draft tokens"
)
_DRAFT_AT_LEAST = re.compile(r"requires Q >= F; got Q=\d+, F=(\d+)|draft_tokens must be >= (\d+)")
_PARENTS = re.compile(r"exceeds K\*\(F-2\)\+1=(\d+)")  # speculative_hook.py:543 @0.5.23, of Q-1
_WINDOW = re.compile(r"window_size=\d+, block_size=(\d+)")  # speculative_hook.py:431 @0.5.23
_LINES = 4
"""A message may be broken over lines: its first and the next ones."""

_POOL_EXHAUSTED = re.compile(
    r"(?:Prefill|Decode) out of memory|Out of memory\. Try to lower your batch size"
    r"|pool exhausted: need|Not enough memory",
    re.IGNORECASE,
)
_TREE_TOO_LARGE = re.compile(r"selected index k out of range|\bk not in range", re.IGNORECASE)


def bound_of(kind: FailureKind, message: Sequence[str], server_args: str) -> Bound | None:
    """The limit in a message; None where it tells none.

    Args:
        message: the evidence and the lines behind it.
        server_args: the line in which the server repeats its arguments; empty where not seen.
    """
    text = " ".join(message[:_LINES])
    if said := _SAID.search(text):
        is_least = said[2].lower() in _AT_LEAST
        side: Literal["at_least", "at_most"] = "at_least" if is_least else "at_most"
        return Bound(said[1].replace("-", "_"), side, float(said[3]))
    if found := _DRAFT_AT_MOST.search(text):
        return Bound(_DRAFT, "at_most", float(next(filter(None, found.groups()))))
    if found := _DRAFT_AT_LEAST.search(text):
        return Bound(_DRAFT, "at_least", float(next(filter(None, found.groups()))))
    if found := _PARENTS.search(text):
        return Bound(_DRAFT, "at_most", float(found[1]) + 1)
    if found := _WINDOW.search(text):
        return Bound("speculative_draft_window_size", "at_least", float(found[1]))
    return _from_arguments(kind, text, server_args)


def _from_arguments(kind: FailureKind, text: str, server_args: str) -> Bound | None:
    """What follows from the message and the arguments of the server together."""
    if kind is FailureKind.REJECTED_COMBINATION and _TREE_TOO_LARGE.search(text):
        steps = _argument("speculative_num_steps", server_args)
        topk = _argument("speculative_eagle_topk", server_args)
        if steps and topk:
            # eagle_utils.py (organize_draft_results) @0.5.23; the formula is also in PR #24054.
            return Bound(_DRAFT, "at_most", 1 + topk + (steps - 1) * topk**2)
    if kind is FailureKind.RUNTIME_OOM and _POOL_EXHAUSTED.search(text):
        # More memory outside the pool would not help here: the other wall (signatures.py).
        fraction = _argument(_FRACTION, server_args)
        return Bound(_FRACTION, "at_least", fraction) if fraction else None
    return None


def _argument(name: str, server_args: str) -> float | None:
    """From ``ServerArgs(name=3, …)`` (to 0.5.19) or ``{'name': 3, …}`` (later)."""
    found = re.search(rf"\b{name}'?[=:] ?(\d+(?:\.\d+)?)", server_args)
    return float(found[1]) if found else None
