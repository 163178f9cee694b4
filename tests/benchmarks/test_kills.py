"""A few tuners killed at random moments; ``python -m benchmarks.kills`` plays two hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.kills import ENDINGS, cases, play


@pytest.mark.timeout(300)
def test_killed_tuners_leave_nothing_and_their_studies_go_on(tmp_path: Path) -> None:
    todo = cases(8, seed=1)
    assert {case.ending for case in todo} == set(ENDINGS)
    assert {case.command for case in todo} == {"optimize", "measure"}
    outcomes = play(todo, tmp_path, jobs=2)
    assert [f"{o.case}: {text}" for o in outcomes for text in o.complaints] == []
    assert sum(outcome.hit for outcome in outcomes) >= 4
    assert list(tmp_path.iterdir()) == []
