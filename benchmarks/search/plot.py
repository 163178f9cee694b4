"""The median regret against launches, one curve for each sampler, one picture for each set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from plotly import graph_objects
from plotly.subplots import make_subplots

from benchmarks.search.play import GOOD, Run
from benchmarks.search.samplers import BY_MODEL
from benchmarks.search.tables import set_of

_TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50)
_COLOURS = ("#d62728", "#1f77b4", "#7f7f7f", "#2ca02c", "#9467bd")


def draw(runs: Sequence[Run], path: Path) -> None:
    """Writes ``.html``, or a picture where kaleido is installed."""
    sets = list(dict.fromkeys(set_of(run.world) for run in runs))
    samplers = list(dict.fromkeys(run.sampler for run in runs))
    figure = make_subplots(cols=len(sets), subplot_titles=sets, shared_yaxes=True)
    for column, name in enumerate(sets, start=1):
        for sampler, colour in zip(samplers, _COLOURS, strict=False):
            group = [r.regrets for r in runs if set_of(r.world) == name and r.sampler == sampler]
            medians = 100 * np.median(np.array(group), axis=0)
            figure.add_trace(
                graph_objects.Scatter(
                    x=list(range(1, len(medians) + 1)),
                    y=medians,
                    name=sampler,
                    line={"color": colour, "width": 3 if sampler in BY_MODEL else 2},
                    showlegend=column == 1,
                ),
                row=1,
                col=column,
            )
    figure.add_hline(y=100 * GOOD, line={"dash": "dot", "color": "#999999", "width": 1})
    figure.update_xaxes(title="launches, baseline included")
    figure.update_yaxes(type="log", tickvals=_TICKS, range=[np.log10(_TICKS[0]), np.log10(60)])
    figure.update_yaxes(title="regret of the recommendation (%), median", col=1)
    figure.update_layout(
        template="simple_white", width=320 * len(sets), height=380,
        legend={"orientation": "h", "y": 1.25}, margin={"t": 70, "r": 20},
    )  # fmt: skip
    if path.suffix == ".html":
        figure.write_html(path, include_plotlyjs="cdn")
    else:
        figure.write_image(path, scale=2)
