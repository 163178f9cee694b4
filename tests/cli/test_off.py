"""Speculation off: said first where it is faster, and not launched where it is not wanted."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from autotune.cli.summary import summary
from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.trial import TrialRecord
from autotune.study.reading import StudyView
from autotune.study.verdict import off_wins

from ..core.samples import exactly
from ..report.studies import at_load, launch, store, view_of
from .commands import autotune, optimize_words


def off(number: int, *, turn_s: float, tok_s: float) -> TrialRecord:
    """Speculation off; ``launch`` yields 1.12 to 1.24 s and 950 to 1,000 tok/s with it."""
    return msgspec.structs.replace(
        launch(number),
        role="reference",
        flags={"mem_fraction_static": 0.85, "chunked_prefill_size": 2048},
        phases=[at_load(1, 0, 200 / turn_s, turn_s), at_load(16, 0, tok_s, 2 * turn_s)],
        objectives={LATENCY: exactly(turn_s, 0.01), THROUGHPUT: exactly(tok_s, 0.01)},
    )


def study(*, turn_s: float, tok_s: float) -> StudyView:
    return view_of([launch(0), off(1, turn_s=turn_s, tok_s=tok_s), launch(2)])


def verdict(view: StudyView) -> list[str]:
    return [line for line in summary(view, "all 3 launches are used").splitlines() if line]


def test_off_is_in_the_first_sentence_at_the_load_where_it_wins() -> None:
    said = verdict(study(turn_s=2.0, tok_s=2000.0))
    assert said[0].startswith("Off      speculation off (trial 1) is faster at C=16: 2,000 tok/s")
    assert "C=1:" not in said[0] and "it wins for agentic too" not in said[0]
    assert said[1].startswith("Use      --speculative-num-steps")


def test_where_it_has_the_better_score_that_is_said_too() -> None:
    (first, *_) = verdict(study(turn_s=0.5, tok_s=2000.0))
    assert "is faster at C=1: 0.500 s" in first and "and C=16: 2,000 tok/s" in first
    assert first.endswith("it wins for agentic too")


@pytest.mark.parametrize("tok_s", [700.0, 815.0])
def test_where_it_is_slower_or_within_the_noise_nothing_is_said(tok_s: float) -> None:
    assert not any("speculation off" in line for line in verdict(study(turn_s=2.0, tok_s=tok_s)))


def test_readers_say_it_too_and_the_row_is_marked(tmp_path: Path) -> None:
    view = study(turn_s=2.0, tok_s=2000.0)
    store(view.records, tmp_path)
    shown = autotune("show", cwd=tmp_path).stdout
    assert "speculation off (trial 1) is faster at C=16" in shown
    (row,) = [line for line in shown.splitlines() if line.startswith("  1 ")]
    assert " off " in row
    front = autotune("pareto", cwd=tmp_path).stdout
    assert "speculation off (trial 1) is faster at C=16" in front
    document = json.loads(autotune("pareto", "--json", cwd=tmp_path).stdout)
    assert document["off_wins"] == off_wins(view, view.ranking)
    assert 1 not in [standing["trial"] for standing in document["front"]]


def test_without_off_no_launch_is_without_speculation(tmp_path: Path) -> None:
    def planned(*words: str) -> list[str]:
        done = autotune(*optimize_words("--dry-run", "--json", *words, trials=4), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return [launch["role"] for launch in json.loads(done.stdout)["launches"]]

    assert planned()[:2] == ["baseline", "reference"]
    assert "reference" not in planned("--without-off")
