"""``autotune explain``: why a configuration is as good as it is."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from autotune.cli import options

if TYPE_CHECKING:
    from autotune.explain import Explanation

_INDENT = 11
_WIDTH = 100
_HELD = "\N{NO-BREAK SPACE}"

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
    from autotune.study.learned import knowledge_of
    from autotune.study.reading import open_study

    view, stored = open_study(study)
    found = explain(view, knowledge_of(view, stored), trial)
    if as_json:
        import msgspec

        options.print_json(msgspec.to_builtins(found))
        return
    click.echo(f"{options.heading(view)}\n")
    click.echo(as_text(found))


def as_text(found: Explanation) -> str:
    """Titles in a column of their own, sentences beside it; last what their words mean."""
    from autotune.explain.glossary import meanings

    lines = [_block(finding.title, finding.text) for finding in found.findings]
    told = " ".join(lines)
    known = meanings(told)
    if known:
        told_words = (f"{word}: {meaning}" for word, meaning in known)
        lines += ["", *(_block("" if i else "Words", text) for i, text in enumerate(told_words))]
    return "\n".join(lines)


def _block(title: str, text: str) -> str:
    from autotune.explain.said import unbroken

    filled = textwrap.fill(
        unbroken(text),
        _WIDTH,
        initial_indent=f"{title:<{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return filled.replace(_HELD, " ")
