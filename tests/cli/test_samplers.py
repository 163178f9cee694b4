"""Every sampler by its name, on the same space and a real simulated server."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from .commands import autotune, complaint, optimize_words, records


@pytest.mark.parametrize("sampler", ["speculative", "tpe", "random", "grid", "sweep"])
def test_a_sampler_plays_a_study_to_its_end(sampler: str, tmp_path: Path) -> None:
    words = ("--sampler", sampler, "--exhaust")
    done = autotune(*optimize_words(*words, trials=3, space="speculative"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "all 3 launches are used" in done.stdout
    made = records(tmp_path)
    assert made[0]["role"] == "baseline" and len(made) == 3
    for record in made[1:]:
        flags = record["flags"]
        steps, topk, draft = (
            flags[f"speculative_{name}"] for name in ("num_steps", "eagle_topk", "num_draft_tokens")
        )
        assert draft == steps + 1 if topk == 1 else draft > steps, "canonical"


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_gp_without_torch_says_what_it_needs(tmp_path: Path) -> None:
    done = autotune(*optimize_words("--dry-run", "--sampler", "gp"), cwd=tmp_path)
    assert done.returncode == 3
    said = complaint(done)
    assert "the sampler gp needs torch, which is not installed" in said
    assert "pip install torch, or use --sampler speculative" in said


def test_an_unknown_sampler_is_refused_with_the_nearest(tmp_path: Path) -> None:
    done = autotune(*optimize_words("--dry-run", "--sampler", "rando"), cwd=tmp_path)
    assert done.returncode == 3
    assert "no sampler named 'rando': did you mean 'random'?" in complaint(done)
