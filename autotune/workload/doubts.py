"""What to keep in mind before a workload decides about launch flags."""

from __future__ import annotations

from autotune.workload.inspection import Inspection
from autotune.workload.lengths import LENGTH_ONLY

_LEAST_COMPRESSION = 0.15
_LEAST_DISTINCT = 0.5
_MOST_DUPLICATES = 0.05
_SHORT_TOK = 32
_FEW_SESSIONS = 64
"""Two turnovers of 32 requests in flight."""


def doubts(found: Inspection, context_tok: int) -> list[str]:
    """A sentence for each thing that makes numbers from these sessions less worth.

    Args:
        found: the sessions.
        context_tok: context of the server that is meant.
    """
    said = []
    if found.n_length_only:
        said.append(
            f"{LENGTH_ONLY}, which says little about the accept length of a draft model on yours"
        )
    said += _about_text(found)
    if found.temperatures and set(found.temperatures) == {0.0}:
        said.append(
            "all requests ask for temperature 0, where drafts are accepted more often than above it"
        )
    if found.output_tok.n and found.output_tok.quantile(0.5) < _SHORT_TOK:
        said.append(
            f"half of the answers have fewer than {_SHORT_TOK} tokens: too short to measure "
            "decoding in a steady window"
        )
    if found.n_sessions < _FEW_SESSIONS:
        said.append(
            f"few sessions ({found.n_sessions}): they repeat within a measurement, and the prefix "
            "cache serves the repetition"
        )
    beyond = found.input_tok.share_above(context_tok)
    if beyond:
        said.append(
            f"{100 * beyond:.3g} % of the prompts are longer than {context_tok:,} tokens: on a "
            "server of that context such sessions are cut down"
        )
    return said


def _about_text(found: Inspection) -> list[str]:
    said = []
    ratio, distinct = found.compression(), found.distinct_grams()
    if ratio is not None and ratio < _LEAST_COMPRESSION:
        said.append(
            f"the text is repetitive (it compresses to {100 * ratio:.0f} %): drafts are accepted "
            "more often than on varied text"
        )
    elif distinct is not None and distinct < _LEAST_DISTINCT:
        said.append(
            f"the text is repetitive ({100 * distinct:.0f} % of its four-word sequences are "
            "distinct): drafts are accepted more often than on varied text"
        )
    duplicates = found.duplicate_share
    if duplicates > _MOST_DUPLICATES:
        said.append(
            f"{100 * duplicates:.0f} % of the first prompts are duplicates of others: the prefix "
            "cache serves them"
        )
    return said
