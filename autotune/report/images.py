"""Every figure of a report as a picture, with the extra ``png``."""

from __future__ import annotations

from pathlib import Path

from autotune.errors import UsageError
from autotune.report.page import figures_of
from autotune.study.reading import StudyView

FORMATS = ("png", "svg")
_WIDTH_PX = 1000


def write_images(view: StudyView, folder: Path, kind: str) -> list[Path]:
    """Writes ``NAME.png`` or ``NAME.svg`` of each figure, on white.

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
    written = []
    for figure in figures_of(view):
        path = folder / f"{figure.name}.{kind}"
        drawing = figure.drawing
        drawing.update_layout(paper_bgcolor="white", plot_bgcolor="white", title_text=figure.label)
        drawing.update_layout(margin_t=110, title_x=0.01, title_font_size=15)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            drawing.write_image(
                path, format=kind, width=_WIDTH_PX, height=figure.height_px + 100, scale=2
            )
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise UsageError(
                f"the pictures cannot be drawn: {reason}",
                hint="kaleido draws with Chrome or chromium: install one",
            ) from error
        written.append(path)
    return written
