"""Every failure that the simulated server can be told to play, as a whole study meets it.

Real processes and real HTTP. The baseline (one draft step) lives; launches with two or three fail,
so a study that goes on after the first failure meets a second one.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autotune.core.trial import POLICIES, FailureKind, Policy
from autotune.engine.simulated.faults import NAMES

from .commands import (
    autotune,
    complaint,
    environment,
    no_server_left,
    optimize_words,
    records,
    serve_words,
)

SOON_S = 2.0
"""From the event to the finished record, the stop of the server included."""
STALL_S = 3.0
READY_S = 6.0
DEADLINES = {
    "hang@serving": {"AUTOTUNE_STALL_TIMEOUT_S": str(STALL_S)},
    "ready_timeout@start": {"AUTOTUNE_READY_TIMEOUT_S": str(READY_S)},
}
"""Short ones, for these two alone: on a busy machine a healthy server may need longer."""
WAITS = ("hang@serving", "ready_timeout@start", "hang@stop")
PLAYED = [name for name in NAMES if name not in WAITS]

SPACE = """
name: three
parameters:
  speculative_num_steps: {low: 1, high: 3}
fixed:
  speculative_eagle_topk: 1
"""
N_LAUNCHES = {Policy.LEARN: 3, Policy.RETRY_ONCE: 4, Policy.STOP: 4}
"""The baseline, the failure, once more where the policy says so, and the next configuration."""


@dataclass(frozen=True)
class Played:
    """A study that met a fault."""

    directory: Path
    run: subprocess.CompletedProcess[str]
    failed: Sequence[dict[str, Any]]

    def steps(self) -> list[int]:
        return [r["flags"]["speculative_num_steps"] for r in records(self.directory)]

    def found_after_s(self, record: dict[str, Any]) -> float:
        """From the server's own stamp of the event to the moment the record was written."""
        trial = self.directory / "studies" / "s" / "trials" / f"{record['number']:04d}"
        stamps = re.findall(r"simulated: a fault at ([\d.]+)", (trial / "server.log").read_text())
        return (trial / "record.json").stat().st_mtime - float(stamps[0])


def play(name: str, directory: Path, trials: int) -> Played:
    (directory / "three.yaml").write_text(SPACE)
    server = serve_words("--fail", name, "--fail-from-steps", "2", steps=1, speed=100)
    run = autotune(
        *optimize_words("--without-off", space="three.yaml", trials=trials, serve=server),
        cwd=directory,
        env=environment(**DEADLINES.get(name, {})),
    )
    assert no_server_left(directory)
    return Played(directory, run, [r for r in records(directory) if r["status"] == "failed"])


def check_policy(study: Played, kind: FailureKind) -> None:
    """What the study did next is what ``POLICIES`` says."""
    first, *rest = study.steps()[1:]
    if POLICIES[kind] is Policy.STOP:
        assert study.run.returncode == 4 and rest == []
        told = complaint(study.run)
        assert "nothing can work" in told and study.failed[0]["failure"]["remedy"] in told
        return
    assert study.run.returncode == 0, study.run.stderr
    other = 5 - first  # of two and three
    if POLICIES[kind] is Policy.RETRY_ONCE:
        assert rest == [first, other]
        assert f"({kind} before: once more)" in study.run.stderr
    else:
        assert rest == [other]


def check_records(study: Played, name: str) -> None:
    baseline, *others = records(study.directory)
    assert baseline["status"] == "complete" and study.failed == others
    for record in study.failed:
        failure = record["failure"]
        assert f"{failure['kind']}@{failure['stage']}" == name
        assert failure["evidence"] and failure["remedy"]
        assert record["objectives"] is None


@pytest.mark.parametrize("name", PLAYED)
def test_a_failure_is_found_at_once_and_the_study_does_what_its_policy_says(
    name: str, tmp_path: Path
) -> None:
    kind = FailureKind(name.partition("@")[0])
    study = play(name, tmp_path, N_LAUNCHES[POLICIES[kind]])
    check_policy(study, kind)
    check_records(study, name)
    for record in study.failed:
        assert 0 <= study.found_after_s(record) < SOON_S


@pytest.fixture(scope="module")
def waited(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """The studies that wait for a deadline, side by side: most of their time they sleep."""
    launches = dict(zip(WAITS, (4, 3, 2), strict=True))
    folders = [tmp_path_factory.mktemp("waited") for _ in launches]
    with ThreadPoolExecutor() as pool:
        studies = list(pool.map(play, launches, folders, launches.values()))
    return dict(zip(launches, studies, strict=True))


def test_a_server_that_hangs_is_given_up_after_one_stall(waited: dict[str, Played]) -> None:
    study = waited["hang@serving"]
    check_policy(study, FailureKind.HANG)
    check_records(study, "hang@serving")
    for record in study.failed:
        assert record["failure"]["evidence"].startswith("no byte for 3 s at C=1")
        assert STALL_S <= study.found_after_s(record) < STALL_S + SOON_S


def test_a_start_without_end_is_given_up_at_the_deadline(waited: dict[str, Played]) -> None:
    study = waited["ready_timeout@start"]
    check_policy(study, FailureKind.READY_TIMEOUT)
    check_records(study, "ready_timeout@start")
    for record in study.failed:
        assert "not ready after 6 s" in record["failure"]["remedy"]
        assert READY_S <= record["timings"]["wall_s"] < READY_S + SOON_S


def test_a_server_that_does_not_hear_its_stop_is_killed_and_its_trial_kept(
    waited: dict[str, Played],
) -> None:
    study = waited["hang@stop"]
    assert study.run.returncode == 0, study.run.stderr
    assert len(study.steps()) == 2 and not study.failed
    warned = [
        (record["number"], caveat["text"])
        for record in records(study.directory)
        for caveat in record["warnings"]
        if caveat["code"] == "hang_at_stop"
    ]
    assert len(warned) == 1 and warned[0][0] == 1
    assert "did not end when asked: killed after 1" in warned[0][1]
