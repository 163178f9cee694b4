"""Every figure of a report as a picture, with the extra ``png``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotune.errors import UsageError
from autotune.report.figure import Figure
from autotune.report.page import figures_of
from autotune.report.subject import Subject

FORMATS = ("png", "svg")
_WIDTH_PX = 1000
_TITLE_PX = 60


def write_images(subject: Subject, folder: Path, kind: str) -> list[Path]:
    """Writes ``NAME.png`` or ``NAME.svg`` of each figure, on white, with one browser for all.

    Raises:
        UsageError: the extra is not installed, there is no browser to draw with, or the folder
            cannot be written.
    """
    try:
        import kaleido  # noqa: F401 (plotly uses it)
    except ImportError:
        raise UsageError(
            "pictures need the extra png", hint="pip install 'autotune[png]', and a Chrome"
        ) from None
    import plotly.io

    figures = figures_of(subject)
    paths = [folder / f"{figure.name}.{kind}" for figure in figures]
    simulated = " (SIMULATED)" if subject.view.is_simulated else ""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            path.touch()  # the browser's own error would not say which, nor why
        plotly.io.write_images(
            fig=[_titled(figure, figure.label + simulated) for figure in figures],
            file=paths,
            format=kind,
            width=_WIDTH_PX,
            height=[figure.height_px + _TITLE_PX for figure in figures],
            scale=2,
        )
    except OSError as error:
        raise UsageError(
            f"{error.filename or folder} cannot be written: {error.strerror}"
        ) from None
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"the pictures cannot be drawn: {reason}",
            hint="kaleido draws with Chrome or chromium: install one",
        ) from error
    return paths


def _titled(figure: Figure, title: str) -> Any:  # noqa: ANN401 (plotly has no types)
    """For paper: nothing to click, and the title inside."""
    drawing = figure.drawing
    drawing.update_traces(visible=False, selector={"visible": "legendonly"})
    drawing.update_layout(
        paper_bgcolor="white", plot_bgcolor="white", margin_t=30 + _TITLE_PX,
        title={"text": title, "x": 0.01, "y": 0.98, "yanchor": "top", "font": {"size": 16}},
    )  # fmt: skip
    return drawing
