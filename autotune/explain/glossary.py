"""What the words of an explanation mean, for readers who know other ones."""

from __future__ import annotations

import re
from collections.abc import Mapping

_MEANINGS: Mapping[str, tuple[str, str]] = {
    r"C=\d": ("C=16", "16 requests in flight at all times"),
    r"\bbinds\b": ("binds", "is what decides here; more of anything else brings little"),
    r"\bturn\b": ("turn", "one answer of reference length, from the request to its last token"),
    r"\bpass\b": ("pass", "one run of the large model, which checks what was drafted"),
    r"[Aa]ccept length": ("accept length", "tokens that a pass yields, its own one included"),
    r"running limit|at once": (
        "running limit",
        "requests that the server runs at once, told at its start; the others wait in its queue",
    ),
    r"KV pool": ("KV pool", "GPU memory for the contexts of running requests, counted in tokens"),
    r"\bscore\b": ("score", "latency and throughput against your flags, weighted by the objective"),
    r"\bmodel\)": ("(model)", "the search's own model of this study, with its 95 % interval"),
}


def meanings(text: str) -> list[tuple[str, str]]:
    """The words of a text that want one, each with its meaning."""
    return [meaning for pattern, meaning in _MEANINGS.items() if re.search(pattern, text)]
