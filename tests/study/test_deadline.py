"""A trial that measures for ever is stopped, and what it had measured is kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from autotune.core.trial import POLICIES, FailureKind, Policy
from autotune.engine.process import marked
from autotune.engine.simulated.engine import SimulatedEngine, bundled_command
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO
from autotune.errors import ConfigError
from autotune.events import ignore
from autotune.measure.plan import PhasePlan
from autotune.study.config import check_same, resolve
from autotune.study.evaluate import Evaluator
from autotune.workload import workload_named

NUMBER = 8814


def test_what_was_measured_before_the_deadline_is_kept(tmp_path: Path) -> None:
    own = ("--startup-speed", "2000", "--no-noise", "--speed", "20")
    evaluator = Evaluator(
        engine=SimulatedEngine(
            bundled_command(DEFAULT_SCENARIO).with_words(own), seed=0, ready_timeout_s=30.0
        ),
        workload=workload_named("agentic-short"),
        plans=[
            PhasePlan("latency", 1, 4, 0),
            PhasePlan("serving", 4, 100_000, 1000, max_window_s=1e6),
            PhasePlan("serving", 8, 8, 2000),
        ],
        slos=[],
        searched=[],
        listener=ignore,
        limit_s=4.0,
    )
    began = time.monotonic()
    record = evaluator.evaluate({}, number=NUMBER, directory=tmp_path / "1", role="search")
    assert time.monotonic() - began < 20.0
    assert record.status == "failed" and record.objectives is None
    assert [phase.load for phase in record.phases] == ["C=1"]
    failure = record.failure
    assert failure is not None and failure.kind is FailureKind.TOO_NOISY
    assert POLICIES[failure.kind] is Policy.LEARN
    assert failure.evidence.startswith("still measuring C=4 after 4 s, 0% of its window seen; 1 of")
    assert "trial_timeout_s" in failure.remedy
    assert record.effective["max_running_requests"] and record.timings["stop_s"] > 0
    assert not marked(lambda value: value.startswith(f"trial-{NUMBER}/"))


def test_the_deadline_stands_in_the_study_file_and_may_change(tmp_path: Path) -> None:
    file = tmp_path / "autotune.yaml"
    file.write_text("trial_timeout_s: 15m\nstudy: s\n")
    given = resolve({}, file).config
    assert given.trial_timeout_s == 900.0
    file.write_text("study: s\n")
    default = resolve({}, file).config
    assert default.trial_timeout_s == 1800.0
    check_same(given, default, "s")
    file.write_text("trial_timeout_s: soon\n")
    with pytest.raises(ConfigError, match="'soon' is no duration"):
        resolve({}, file)
