"""What all figures share: colours that hold on light and on dark, layout, error bars."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from autotune.core.trial import Interval
from autotune.report.html import Safe, tag

# Each has a contrast of at least 3 to 1 on white and on the dark background.
BLUE, GREEN, AMBER, RED, VIOLET, TEAL = (
    "#3b82f6", "#16a34a", "#d97706", "#ef4444", "#8b5cf6", "#0d9488",
)  # fmt: skip
GREY = "#8492a6"
SERIES = (BLUE, AMBER, VIOLET, TEAL, RED, GREEN)


def faint(colour: str, alpha: float = 0.35) -> str:
    """The colour of an error bar or a band."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


@dataclass(frozen=True, slots=True)
class Figure:
    """One plotly figure with what a reader who cannot see it is told.

    Attributes:
        name: its identity on the page and its file name.
        label: what it shows, in one sentence.
        drawing: a ``plotly.graph_objects.Figure``.
    """

    name: str
    label: str
    drawing: Any
    height_px: int = 420

    def place(self) -> Safe:
        """Where the script draws it."""
        return tag(
            "div", id=f"figure-{self.name}", class_="figure", role="img", aria_label=self.label,
            style=f"height:{self.height_px}px",
        )  # fmt: skip

    def data(self) -> Safe:
        """Its JSON for the script; ``<`` is written so that no text can end the element."""
        document = self.drawing.to_plotly_json()
        plain = json.dumps(document, cls=_encoder(), allow_nan=False, separators=(",", ":"))
        return Safe(
            f'<script type="application/json" class="drawing" data-for="figure-{self.name}">'
            + plain.replace("<", "\\u003c")
            + "</script>"
        )


def _encoder() -> Any:  # noqa: ANN401 (plotly has no types)
    from plotly.utils import PlotlyJSONEncoder

    return PlotlyJSONEncoder


def canvas(x_title: str, y_title: str, **layout: Any) -> Any:  # noqa: ANN401
    """An empty figure; its letters and lines get the page's colours from the script."""
    import plotly.graph_objects as go

    figure = go.Figure()
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 12},
        margin={"l": 56, "r": 12, "t": 12, "b": 48},
        xaxis={"title": {"text": x_title, "standoff": 10}, "automargin": True},
        yaxis={"title": {"text": y_title, "standoff": 10}, "automargin": True},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemsizing": "trace"},
        hoverlabel={"align": "left"},
    )
    figure.update_layout(**layout)
    return figure


def bars(values: Sequence[Interval], colour: str) -> dict[str, Any]:
    """95 % intervals as plotly's error bars."""
    return {
        "type": "data", "symmetric": False,
        "array": [v.high - v.value for v in values],
        "arrayminus": [v.value - v.low for v in values],
        "color": faint(colour, 0.55), "thickness": 1.3, "width": 3,
    }  # fmt: skip


def plain(texts: Iterable[str]) -> list[str]:
    """Texts of records for plotly, which reads some HTML in labels."""
    return [escape(text) for text in texts]
