"""Text of any kind, for those who only know how long it should be."""

from __future__ import annotations

from autotune.workload.text import documents, everyday, languages, output, prose
from autotune.workload.text.pen import Pen
from autotune.workload.text.python import python_file

_PIECE_CHARS = 900
_KINDS = (
    prose.document, prose.document, prose.review, python_file, python_file, languages.typescript,
    languages.rust, documents.document, output.runner_report, output.log, everyday.story,
)  # fmt: skip


def passage(seed: str, n_chars: int) -> str:
    """Exactly ``n_chars`` characters; a shorter passage of the same seed is the start of it."""
    pen = Pen(seed)
    parts: list[str] = []
    size = 0
    while size < n_chars:
        parts.append(pen.pick(_KINDS)(pen, _PIECE_CHARS) + "\n\n")
        size += len(parts[-1])
    return "".join(parts)[:n_chars]
