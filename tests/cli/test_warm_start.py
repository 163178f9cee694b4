"""``--warm-start``: from hand measurements, from an earlier study, from recipes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ..report.studies import launch, store
from .commands import autotune, complaint, optimize_words, records
from .conftest import FinishedStudy

TABLE = """\
speculative_num_steps,concurrency,decode_tok_s,throughput_tok_s,accept_length
3,1,234,,3.6
3,16,,1733,
4,1,277.4,,4.1
4,16,,1595.7,
"""


@pytest.fixture
def hand(tmp_path: Path) -> Path:
    (tmp_path / "hand.csv").write_text(TABLE)
    return tmp_path


def test_a_study_starts_from_hand_measurements_and_goes_on_without_them(hand: Path) -> None:
    words = optimize_words("--warm-start", "hand.csv", trials=2)
    done = autotune(*words, cwd=hand)
    assert done.returncode == 0, done.stderr
    assert "warm start: 2 hand measurements of hand.csv; believed as far" in done.stderr
    (hand / "hand.csv").unlink()
    words = optimize_words("--warm-start", "hand.csv", trials=3)
    again = autotune(*words, cwd=hand)
    assert again.returncode == 0, again.stderr
    assert "2 done before" in again.stderr and "warm start: 2 hand measurements" in again.stderr
    assert records(hand)[0]["role"] == "baseline" and len(records(hand)) == 3
    other = autotune(*optimize_words("--warm-start", "recipes", trials=4), cwd=hand)
    assert other.returncode == 7
    assert "another warm_start (warm_start: 'hand.csv' then, 'recipes' now)" in complaint(other)


def test_an_earlier_study_starts_another_one(finished: FinishedStudy, tmp_path: Path) -> None:
    shutil.copytree(finished.directory / "studies", tmp_path / "studies")
    words = optimize_words("--warm-start", "s", "--json", study="next", trials=2)
    done = autotune(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "warm start: 3 launches of study s; believed as far" in done.stderr
    document = json.loads(done.stdout)
    assert document["n_trials"]["complete"] == 2, "what was measured elsewhere is no trial here"


def dry(directory: Path, *words: str, space: str = "speculative", study: str = "s") -> str:
    done = autotune(*optimize_words("--dry-run", *words, study=study, space=space), cwd=directory)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_one_of_another_model_and_machine_will_do(tmp_path: Path) -> None:
    store([launch(i) for i in range(4)], tmp_path)
    assert "warm start: 4 launches of study made-up" in dry(tmp_path, "--warm-start", "made-up")


def test_recipes_are_named_with_their_source(tmp_path: Path) -> None:
    assert "warm start: recipes 3-1-4 (" in dry(tmp_path, "--warm-start", "recipes")


NO_STEPS = """\
name: no-steps
parameters:
  chunked_prefill_size: {choices: [2048, 4096]}
"""


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--warm-start", "none.csv"), 3, "none.csv cannot be read as a table: No such file"),
        (("--warm-start", "bad.csv"), 3, "column 'latency_ms', which is neither a flag"),
        (("--warm-start", "empty.csv"), 3, "empty.csv has no column for a flag"),
        (("--warm-start", "binary.csv"), 3, "binary.csv cannot be read as a table"),
        (("--warm-start", "nowhere"), 7, "there is no study named 'nowhere'"),
        (("--warm-start", "s"), 3, "study 's' cannot start from itself"),
        (("--warm-start", "hand.csv", "--sampler", "tpe"), 3, "tpe cannot use a warm start"),
        (
            ("--warm-start", "recipes", "--space", "no-steps.yaml"),
            3,
            "recipes are draft trees, and space 'no-steps' searches no speculative_num_steps",
        ),
    ],
)
def test_what_cannot_be_a_start_is_said_in_a_sentence(
    hand: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    (hand / "bad.csv").write_text(TABLE.replace("decode_tok_s", "latency_ms"))
    (hand / "empty.csv").write_text("")
    (hand / "binary.csv").write_bytes(b"\xff\x00\xfe")
    (hand / "no-steps.yaml").write_text(NO_STEPS)
    done = autotune(*optimize_words("--dry-run", *words), cwd=hand)
    assert done.returncode == code, done.stderr
    assert said in complaint(done)
