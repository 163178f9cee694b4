"""A deployment whose draft steps follow the batch: the table as a file, and the command with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autotune.engine.sglang.adaptive import file_text
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.container import image_index, mounted
from autotune.engine.sglang.versions import Version
from autotune.errors import MeasurementError
from autotune.export.recipe import Attachment, Recipe, recipe_for
from autotune.study.adaptation import in_words
from autotune.study.adaptive_verdict import Comparison, compared
from autotune.study.reading import StudyView
from autotune.study.suggestion import Suggestion, suggest


def suggestion_for(view: StudyView, version: str | None) -> Suggestion:
    """The steps by batch size that a study suggests for a release of SGLang.

    Args:
        version: of the SGLang to write it for; None: the one that was measured.

    Raises:
        NoFeasibleConfiguration: the study has nothing to export.
    """
    best = view.ranking.best
    measured = view.record(best.trial).versions.get("sglang", "") if best else ""
    return suggest(view, view.command.for_version(Version.parse(version or measured)))


def check_adaptive(view: StudyView, suggestion: Suggestion) -> None:
    """Refuses a table whose launch was worse than fixed steps; one nobody launched passes.

    Raises:
        MeasurementError: fixed steps are better.
    """
    found = _launched(view, suggestion)
    if found is not None and (found.gain is None or found.verdict == "worse"):
        raise MeasurementError(
            f"adaptive steps were launched, and are not worth it: {found.text}",
            hint="leave --adaptive out, or export them anyway with --allow-unconfirmed",
        )


def adaptive_recipe(
    view: StudyView, suggestion: Suggestion, path: Path, version: str | None = None
) -> Recipe:
    """The best fixed flags with the table in place of their steps.

    Args:
        suggestion: with tiers.
        path: where the file will lie; absolute.
        version: as of ``suggestion_for``.

    Raises:
        UsageError: that release lacks a flag of the command, or is none.
    """
    fixed = recipe_for(view, suggestion.static, version)
    flags = suggestion.flags(str(path))
    command = fixed.command.with_flags(flags)
    target = command.version
    return replace(
        fixed,
        command=_seeing(command, str(path)),
        provenance=(*fixed.provenance, *_provenance(view, suggestion, path)),
        cautions=(*fixed.cautions, *_cautions(view, suggestion)),
        more=flags,
        file=Attachment(str(path), file_text(suggestion.tiers, target)),
    )


def _seeing(command: LaunchCommand, path: str) -> LaunchCommand:
    if image_index(command.argv) is None:
        return command
    return replace(command, argv=tuple(mounted(command.argv, path)))


def _provenance(view: StudyView, suggestion: Suggestion, path: Path) -> Iterator[str]:
    yield f"ADAPTIVE: {in_words(suggestion.tiers)}; the table is in {path}"
    yield f"the values above are those of the fixed flags of trial {suggestion.static.trial}"
    found = _launched(view, suggestion)
    yield "adaptive steps: not launched yet" if found is None else f"adaptive steps: {found.text}"


def _cautions(view: StudyView, suggestion: Suggestion) -> Iterator[str]:
    yield from suggestion.cautions
    found = _launched(view, suggestion)
    if found is None:
        yield f"these steps were not launched: autotune adaptive --study {view.name} does, once"
    elif found.verdict != "better":
        yield f"adaptive steps are not shown to be better: {found.text}"


def _launched(view: StudyView, suggestion: Suggestion) -> Comparison | None:
    """What launches of this very table showed; None: there was none."""
    found = compared(view)
    return found if found is not None and found.plan == suggestion.plan else None
