"""``autotune explain``: why a configuration is as good as it is."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING

import click

from autotune.cli import options

if TYPE_CHECKING:
    from autotune.explain import Explanation

_INDENT = 11
_WIDTH = 100
_NUMBER = re.compile(r"([+−] )?[\d.,]+( (%|s|ms|tok/s|tokens|requests?|GB)(?!\w))?( ± [\d.]+ %?)?")
"""What stays on one line: a number with its sign, its unit and its spread."""
_HELD = "\N{NO-BREAK SPACE}"

_GLOSSARY = {
    r"C=\d": "C=16: 16 requests in flight at all times",
    r"\bbinds\b": "binds: is what decides here; more of anything else brings little",
    r"\bturn\b": "turn: one answer of reference length, from the request to its last token",
    r"\bpass\b": "pass: one run of the large model, which checks what was drafted",
    r"[Aa]ccept length": "accept length: tokens that a pass yields, its own one included",
    r"running limit|at once": "running limit: requests that the server runs at once, told at its "
    "start; the others wait in its queue",
    r"KV pool": "KV pool: GPU memory for the contexts of running requests, counted in tokens",
    r"\bscore\b": "score: latency and throughput against your flags, weighted by the objective",
    r"\bmodel\)": "(model): the search's own model of this study, with its 95 % interval",
}
"""What a word of an explanation means; told where the word stands in it."""

EPILOG = """
\b
Examples:
  autotune explain
  autotune explain --study agents --trial 7
  autotune explain --json
"""


@click.command(short_help="why these flags", epilog=EPILOG)
@options.study
@click.option("--trial", type=int, metavar="N", help="This trial [the recommended one].")
@options.as_json
def command(study: str | None, trial: int | None, as_json: bool) -> None:
    """Why the recommended flags are the best: which limit binds, and what the next step would do.

    Each number says where it comes from: measured by the client, told by the server at its start,
    or the search's own model. The text is made by rules, and is the same for the same study.
    """
    from autotune.explain import explain
    from autotune.study.reading import open_study

    view, stored = open_study(study)
    found = explain(view, stored, trial)
    if as_json:
        import msgspec

        options.print_json(msgspec.to_builtins(found))
        return
    click.echo(f"{options.heading(view)}\n")
    click.echo(as_text(found))


def as_text(found: Explanation) -> str:
    """Titles in a column of their own, sentences beside it; last what their words mean."""
    lines = [_block(finding.title, finding.text) for finding in found.findings]
    told = " ".join(lines)
    known = [meaning for word, meaning in _GLOSSARY.items() if re.search(word, told)]
    if known:
        lines += ["", *(_block("" if i else "Words", text) for i, text in enumerate(known))]
    return "\n".join(lines)


def _block(title: str, text: str) -> str:
    held = _NUMBER.sub(lambda found: found[0].replace(" ", _HELD), text)
    filled = textwrap.fill(
        held,
        _WIDTH,
        initial_indent=f"{title:<{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return filled.replace(_HELD, " ")
