"""A server that changes flags by itself: what it makes of them is measured once."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from .commands import autotune, optimize_words, records, serve_words

CHANGER = """
import os, sys
words = sys.argv[2:]
at = words.index("--speculative-eagle-topk")
if words[at + 1] != "1":  # as SGLang up to 0.4.8 over pages of several tokens
    words[at + 1] = "1"
os.execv(sys.executable, [sys.executable, "-m", "autotune.engine.simulated", *words])
"""
SPACE = """
name: changed
parameters:
  speculative_num_steps: {choices: [2]}
  speculative_eagle_topk: {choices: [1, 4]}
  speculative_num_draft_tokens: {low: 3, high: 4}
"""


def test_a_server_that_was_measured_before_is_not_measured_again(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text(CHANGER)
    (tmp_path / "changed.yaml").write_text(SPACE)
    served = serve_words(speed=200)
    words = [sys.executable, "serve.py", *served[2:]]
    every = optimize_words("--sampler", "grid", space="changed.yaml", trials=3, serve=words)
    done = autotune(*every, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    baseline, *others = records(tmp_path)
    assert baseline["objectives"] and baseline["same_as"] is None
    assert others, done.stderr
    for record in others:
        assert record["flags"]["speculative_eagle_topk"] == 4
        assert record["same_as"] == 0 and record["status"] == "complete"
        assert record["objectives"] is None and record["phases"] == []
        assert record["effective"]["speculative_eagle_topk"] == 1
        assert record["timings"]["launch_s"] > 0
        assert "silent_change" in [warning["code"] for warning in record["warnings"]]
    row = rf"{others[0]['number']} +2 +4 +[34] +same as trial 0: the server changed topk 4 to 1"
    assert re.search(row, done.stderr)
    shown = autotune("show", cwd=tmp_path)
    assert shown.returncode == 0 and re.search(row, shown.stdout)
    assert "1 configuration that no other beats" in shown.stdout
    refused = autotune("export", "--trial", str(others[0]["number"]), cwd=tmp_path)
    assert refused.returncode == 2 and "ran as trial 0 had" in refused.stderr
