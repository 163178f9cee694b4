"""``autotune confirm``: the proof of a study that ended without one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from autotune.cli.documents import schema_of

from ..json_schema import problems
from .commands import autotune, complaint, records
from .conftest import FinishedStudy


@pytest.fixture(scope="module")
def proven(finished: FinishedStudy, tmp_path_factory: pytest.TempPathFactory) -> FinishedStudy:
    directory = tmp_path_factory.mktemp("proven")
    shutil.copytree(finished.directory / "studies", directory / "studies")
    done = autotune("confirm", "--launches", "1", cwd=directory)
    assert done.returncode == 0, done.stderr
    return FinishedStudy(directory, done)


def test_winner_and_baseline_are_launched_afresh_and_a_verdict_is_said(
    proven: FinishedStudy,
) -> None:
    assert "to confirm: 2 fresh launches in turns with your flags" in proven.run.stderr
    said = proven.run.stdout
    assert "Use      --speculative-num-steps" in said and "SIMULATED" in said
    assert "1 fresh launch beside the baseline" in said
    assert "Launched 2 times to confirm" in said
    assert [r["role"] for r in records(proven.directory)[3:]] == ["confirm", "confirm"]


def test_the_verdict_is_in_every_reading_of_the_study(proven: FinishedStudy) -> None:
    told = json.loads(autotune("pareto", "--json", cwd=proven.directory).stdout)["confirmation"]
    assert told["n_each"] == 1 and told["n_left"] == 0
    assert told["verdict"] in ("better", "worse", "tie", "inconclusive")
    gain = told["finalists"][0]["gain"]
    assert gain["low"] < gain["value"] < gain["high"]
    whole = json.loads(autotune("show", "--json", cwd=proven.directory).stdout)
    assert problems(whole, schema_of("show")) == [] and len(whole["confirm_launches"]) == 2
    shown = autotune("show", cwd=proven.directory).stdout
    assert "Confirm  fresh launches in turns, on prompts new to the search" in shown


def test_launches_made_before_are_not_made_again(proven: FinishedStudy) -> None:
    again = autotune("confirm", "--launches", "1", "--json", cwd=proven.directory)
    assert again.returncode == 0, again.stderr
    assert "trial" not in again.stderr
    document = json.loads(again.stdout)
    assert document["confirmation"]["n_left"] == 0
    assert problems(document, schema_of("pareto")) == []
    assert len(records(proven.directory)) == 5


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--study", "t"), 7, "there is no study named 't': known: s"),
        (("--launches", "0"), 2, "--launches is 0, and a verdict needs at least one"),
        (("--finalists", "-1"), 3, "finalists is -1, and it must be at least 1"),
        (("--", "python", "-m", "other"), 7, "another"),
    ],
)
def test_what_cannot_be_confirmed_is_said_in_a_sentence(
    finished: FinishedStudy, words: tuple[str, ...], code: int, said: str
) -> None:
    done = autotune("confirm", *words, cwd=finished.directory)
    assert done.returncode == code, done.stderr
    assert said in complaint(done)


def test_a_command_with_a_secret_must_be_given_again(
    finished: FinishedStudy, tmp_path: Path
) -> None:
    shutil.copytree(finished.directory / "studies", tmp_path / "studies")
    kept = tmp_path / "studies" / "s" / "study.yaml"
    config = yaml.safe_load(kept.read_text())
    config["command"] += ["--api-key", "REDACTED"]
    kept.write_text(yaml.safe_dump(config))
    done = autotune("confirm", cwd=tmp_path)
    assert done.returncode == 2
    assert "holds a secret, which no file keeps: give the command again" in complaint(done)
