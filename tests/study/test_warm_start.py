"""A study that starts from another one, from hand measurements, or from recipes."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from autotune.core.objective import DIRECTIONS, PRESETS
from autotune.errors import ConfigError, StudyError
from autotune.search import SpeculativeSampler
from autotune.search.warm import WarmStart, keep_warm_start, observed, warm_start_of
from autotune.space import load_space
from autotune.space.rules import DRAFT, STEPS, TOPK
from autotune.study.recipes import RECIPES, recipes_for
from autotune.study.warm_start import read_warm_start

SPACE = load_space("speculative")
TABLE = """\
speculative-num-steps,speculative-eagle-topk,concurrency,decode_tok_s,throughput_tok_s
3,1,1,234,
3,1,16,,1733
4,1,1,277.4,
4,1,16,,1595.7
4,1,32,,1773
"""


def table(folder: Path, text: str = TABLE) -> str:
    path = folder / "hand.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_rows_with_equal_flags_are_one_launch(tmp_path: Path) -> None:
    seen = observed(read_warm_start(table(tmp_path), SPACE, ""), SPACE)
    assert [o.flags for o in seen] == [
        {STEPS: 3, TOPK: 1, DRAFT: 4},
        {STEPS: 4, TOPK: 1, DRAFT: 5},
    ]
    assert [s.concurrency for s in seen[1].served] == [16, 32]
    assert all(o.latency and o.throughput for o in seen)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("decode_tok_s", "latency_ms", "did you mean 'latency_s'?"),
        ("decode_tok_s", "accept_length", "has no column latency_s (or decode_tok_s)"),
        (",throughput_tok_s", ",accept_length", "has no column throughput_tok_s"),
        ("1733", "fast", "line 3: throughput_tok_s is 'fast', not a number above 0"),
        ("1733", "-1", "line 3: throughput_tok_s is '-1', not a number above 0"),
        ("3,1,1,", "three,1,1,", "line 2: "),
    ],
)
def test_a_bad_table_is_refused_in_a_sentence(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(ConfigError, match="hand") as caught:
        read_warm_start(table(tmp_path, TABLE.replace(old, new)), SPACE, "")
    assert said in caught.value.message


def test_a_table_without_a_value_under_load_starts_nothing(tmp_path: Path) -> None:
    lines = [line for line in TABLE.splitlines() if ",16," not in line and ",32," not in line]
    with pytest.raises(ConfigError, match="no flags with both"):
        read_warm_start(table(tmp_path, "\n".join(lines)), SPACE, "")


def test_a_missing_table_or_study_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"none\.csv cannot be read"):
        read_warm_start("none.csv", SPACE, "")
    with pytest.raises(StudyError, match="no study named 'none'"):
        read_warm_start("none", SPACE, "")


def test_the_first_recipe_is_of_the_model() -> None:
    assert recipes_for("Qwen/Qwen3.5-122B-A10B")[0].source.startswith("voipmonitor")
    assert recipes_for("somebody/unheard-of") == RECIPES[-1:]
    assert all(recipe.source for recipe in RECIPES)
    legal = SPACE.tree
    assert legal is not None
    assert {(r.steps, r.topk, r.draft_tok) for r in RECIPES} <= set(legal.triples())


def test_recipes_are_launched_first_at_the_fraction_that_lived() -> None:
    study = optuna.create_study(
        directions=DIRECTIONS, sampler=SpeculativeSampler(SPACE, PRESETS["agentic"], seed=0)
    )
    keep_warm_start(study, read_warm_start("recipes", SPACE, "google/gemma-3-27b"))
    study.enqueue_trial({STEPS: 2, TOPK: 1, DRAFT: 3, "mem_fraction_static": 0.71})
    for expected in ((2, 1, 3), (3, 4, 8), (3, 1, 4)):
        trial = study.ask()
        flags = SPACE.suggest(trial)
        assert (flags[STEPS], flags[TOPK], flags[DRAFT]) == expected
        assert flags["mem_fraction_static"] == 0.71
        study.tell(trial, [1.0, 1000.0])


def test_a_kept_warm_start_is_not_overwritten_and_garbage_is_none() -> None:
    study = optuna.create_study(directions=DIRECTIONS)
    keep_warm_start(study, WarmStart(source="first"))
    keep_warm_start(study, WarmStart(source="second"))
    kept = warm_start_of(study)
    assert kept is not None
    assert kept.source == "first"
    study.set_user_attr("warm_start", {"records": 3})
    assert warm_start_of(study) is None
