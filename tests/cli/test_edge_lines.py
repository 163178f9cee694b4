"""The end of ``optimize`` and ``show`` name a best value that is the last one searched."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from autotune.cli.summary import edge_lines, summary
from autotune.core.objective import PRESETS
from autotune.search.edge import Edge
from autotune.space.rules import MEMORY, STEPS
from autotune.study.choice import Choice
from autotune.study.reading import StudyView

from ..explain.worlds import chain, launched, stored


def view_with(root: Path, *edges: Edge, trial: int = 1, widen: bool = True) -> StudyView:
    records = [launched(0, chain(3), role="baseline"), launched(1, chain(4))]
    view, _ = stored(root, records)
    choice = Choice(
        trial=trial, latency_weight=0.7, n_launches=2, n_unchanged=0, why="", stop=False,
        edges=edges,
    )  # fmt: skip
    config = dataclasses.replace(view.config, widen=widen)
    return dataclasses.replace(view, choice=choice, config=config)


MORE = Edge(flag=STEPS, value=4, side="most", beyond=6, gain_frac=0.021)
NO_MORE = Edge(flag=MEMORY, value=0.85, side="most", beyond=0.9, gain_frac=-0.01)


def test_each_edge_is_a_line_with_the_way_on(tmp_path: Path) -> None:
    view = view_with(tmp_path, MORE, NO_MORE, widen=False)
    assert list(edge_lines(view)) == [
        "Edge     The best steps, 4, are the most that were searched; the model expects 2.1 % more "
        "at 6 (--widen searches there)",
        "Edge     The best memory fraction, 0.85, is the most that was searched; the model expects "
        "nothing more beyond",
    ]
    assert "\nEdge     The best steps, 4, are the most" in summary(view, "enough")


@pytest.mark.parametrize("case", ["none", "another weight"])
def test_what_does_not_hold_is_not_told(tmp_path: Path, case: str) -> None:
    view = view_with(tmp_path, *(() if case == "none" else (MORE,)))
    if case == "another weight":
        view = dataclasses.replace(view, objective=PRESETS["throughput"])
    assert list(edge_lines(view)) == []
