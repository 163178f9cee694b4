"""What ``optimize --dry-run`` says is what ``optimize`` does."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from .commands import autotune, optimize_words, records, serve_words
from .conftest import FinishedStudy

SPACE = """
name: trees
parameters:
  speculative_num_steps: {low: 1, high: 5}
  speculative_eagle_topk: {choices: [1, 2, 4]}
  speculative_num_draft_tokens: {low: 2, high: 8}
  mem_fraction_static: {low: 0.8, high: 0.9, step: 0.05}
"""
EAGLE = (
    "python -m sglang.launch_server --model-path M --speculative-algorithm EAGLE "
    "--speculative-draft-model-path D"
)


def dry_run(*words: str, cwd: Path) -> str:
    done = autotune(*words[:1], "--dry-run", *words[1:], cwd=cwd)
    assert done.returncode == 0, done.stderr
    assert "A new study created" not in done.stderr
    return done.stdout


def plan_of(*words: str, cwd: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(dry_run(words[0], "--json", *words[1:], cwd=cwd))
    return document


def commands_in(told: str) -> list[list[str]]:
    """The commands on the screen, as a shell would read them."""
    blocks = re.findall(r"^# trial \d+:.*\n((?:.*\\\n)*.*\n)", told, re.M)
    return [shlex.split(block.replace("\\\n", " ")) for block in blocks]


def test_the_known_launches_are_those_that_a_run_makes(tmp_path: Path) -> None:
    (tmp_path / "trees.yaml").write_text(SPACE)
    words = optimize_words(space="trees.yaml", trials=5, serve=serve_words(speed=400))
    told = dry_run(*words, cwd=tmp_path)
    planned = plan_of(*words, cwd=tmp_path)["launches"]
    assert len(planned) == 5 and commands_in(told) == [p["command"] for p in planned]
    assert [p["role"] for p in planned] == ["baseline", "reference", *["search"] * 3]
    assert [p["is_known"] for p in planned] == [True, True, False, False, False]
    planned = planned[:2]
    done = autotune(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = records(tmp_path)
    assert [r["flags"] for r in made[:2]] == [p["flags"] for p in planned]
    for plan in planned:
        script = tmp_path / "studies" / "s" / "trials" / f"{plan['trial']:04d}" / "launch.sh"
        launched = script.read_text().partition("exec ")[2].replace("\\\n", " ")
        port = re.findall(r"--port (\d+)", launched)[0]
        assert shlex.split(launched.replace(port, "30000")) == plan["command"]


def test_what_the_search_may_yet_change_is_not_called_known(tmp_path: Path) -> None:
    planned = plan_of(*optimize_words(trials=30), cwd=tmp_path)["launches"]
    assert [p["role"] for p in planned] == ["baseline", "reference", *["search"] * 3]
    assert [p["is_known"] for p in planned] == [True, True, False, False, False]
    assert "which the trials before it may change" in dry_run(
        *optimize_words(trials=30), cwd=tmp_path
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("image", "flag"),
    [("v0.5.10", "--cuda-graph-max-bs"), ("v0.5.20", "--cuda-graph-max-bs-decode")],
)
def test_commands_are_written_for_their_release(tmp_path: Path, image: str, flag: str) -> None:
    (tmp_path / "graphs.yaml").write_text(
        "name: graphs\nparameters:\n  cuda_graph_max_bs: {choices: [16, 32]}\n"
    )
    serve = ("docker", "run", "--gpus", "all", f"lmsysorg/sglang:{image}", *EAGLE.split())
    words = ("optimize", "--space", "graphs.yaml", "--", *serve, "--cuda-graph-max-bs", "8")
    for launch in plan_of(*words, cwd=tmp_path)["launches"][1:]:
        at = launch["command"].index(flag)
        assert launch["command"][at + 1] in ("16", "32")


def test_the_time_is_assumed_or_taken_from_earlier_launches(
    finished: FinishedStudy, tmp_path: Path
) -> None:
    real = ("optimize", "--space", "steps-only", "--trials", "10", "--", *EAGLE.split())
    fresh = plan_of(*real, cwd=tmp_path)["estimate"]
    assert fresh["n_launches"] == 10 and fresh["each_s"] == 360.0 and fresh["total_s"] == 3600.0
    assert "10 launches to come, at most 60 min: 6 min each (assumed" in dry_run(
        *real, cwd=tmp_path
    )
    limited = plan_of(*real[:1], "--time", "30m", *real[1:], cwd=tmp_path)["estimate"]
    assert limited["total_s"] == 1800.0
    shutil.copytree(finished.directory / "studies", tmp_path / "studies")
    known = plan_of(*optimize_words(trials=5), cwd=tmp_path)
    took = [record["timings"]["wall_s"] for record in records(tmp_path)]
    assert known["estimate"]["each_s"] == pytest.approx(sum(took) / len(took))
    assert known["estimate"]["n_launches"] == 2
    assert known["estimate"]["origin"] == "the mean of 3 earlier launches of this study"
    first, second = known["launches"]
    assert (first["trial"], second["trial"]) == (3, 4)
    assert first["is_known"] and not second["is_known"]
    done = autotune(*optimize_words(trials=4), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert records(tmp_path)[3]["flags"] == first["flags"]


def test_rules_and_secrets_of_the_command_are_in_the_plan(tmp_path: Path) -> None:
    (tmp_path / "trees.yaml").write_text(SPACE)
    serve = (*EAGLE.split(), "--attention-backend", "flashmla", "--api-key", "k3y-of-mine")
    words = ("optimize", "--space", "trees.yaml", "--", *serve)
    told, plan = dry_run(*words, cwd=tmp_path), plan_of(*words, cwd=tmp_path)
    assert "k3y-of-mine" not in told + json.dumps(plan)
    assert "put your secrets back" in told
    removed = {rule["rule"]: rule for rule in plan["space"]["removed"]}
    assert removed["chain-backend"]["n"] > 0 and "flashmla_backend.py" in str(removed)
    assert plan["space"]["n_legal"] == plan["space"]["n_raw"] - sum(
        rule["n"] for rule in removed.values()
    )
