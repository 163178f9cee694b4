"""Which rules take what out of a space, and what would be launched, said before any launch."""

from __future__ import annotations

import shlex
from pathlib import Path

from .commands import autotune, complaint

SERVE = ("sglang", "serve", "--model-path", "M", "--attention-backend", "triton", "--page-size=64")


def test_a_space_is_checked_against_a_command_and_a_release(tmp_path: Path) -> None:
    words = ("space", "check", "speculative", "--sglang")
    old = autotune(*words, "0.5.10", "--", *SERVE, cwd=tmp_path)
    assert old.returncode == 0, old.stderr
    assert "speculative is sound: 288 legal configurations of 72,576" in old.stdout
    assert "SGLang 0.5.10 (as said)" in old.stdout
    assert "rule page-tree removed 33,876 configurations: " in old.stdout
    new = autotune(*words, "0.5.13", "--", *SERVE, cwd=tmp_path)
    assert "34,164 legal" in new.stdout and "page-tree" not in new.stdout
    confounded = autotune(*words, "0.5.12", cwd=tmp_path)
    assert "also switches the overlap scheduler off" in confounded.stdout


def test_a_space_with_a_flag_that_the_release_lacks_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("parameters: {prefill_max_requests: {low: 1, high: 4}}")
    done = autotune("space", "check", "s.yaml", "--sglang", "0.5.3", cwd=tmp_path)
    assert done.returncode == 2
    assert "--prefill-max-requests came with SGLang 0.5.7, and this is 0.5.3" in complaint(done)
    known = autotune("space", "check", "s.yaml", cwd=tmp_path)
    assert "unknown version (no command was given): the rules and flag names of" in known.stdout
    done = autotune("space", "check", "s.yaml", "--sglang", "new", cwd=tmp_path)
    assert done.returncode == 2 and "is no version of SGLang" in complaint(done)


def test_a_rehearsal_shows_words_that_can_be_pasted(tmp_path: Path) -> None:
    script = "cd /srv && exec python3 -m sglang.launch_server --model-path 'a b' {}"
    given = "--speculative-algorithm EAGLE --cuda-graph-max-bs 32 > log"
    image = ("docker", "run", "--gpus", "all", "lmsysorg/sglang:v0.5.20")
    words = ("optimize", "--dry-run", "--space", "steps-only", "--", *image, "bash", "-c")
    done = autotune(*words, script.format(given), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SGLang 0.5.20 (image lmsysorg/sglang:v0.5.20)" in done.stdout
    shown = [line for line in done.stdout.splitlines() if line.startswith("docker run")]
    tail = "--port 30000 --host 0.0.0.0 > log"
    trees = [
        f"--speculative-num-steps {steps} --speculative-eagle-topk 1 "
        f"--speculative-num-draft-tokens {steps + 1}"
        for steps in (3, 5)
    ]
    off = given.removeprefix("--speculative-algorithm EAGLE ")
    assert [shlex.split(line)[-1] for line in shown[:4]] == [
        script.format(given.replace("> log", tail)),
        script.format(off.replace("> log", tail)),
        *(script.format(given.replace("> log", f"{tree} {tail}")) for tree in trees),
    ]
    assert len(shown) == 5
    assert shlex.split(shown[0])[:4] == ["docker", "run", "-p", "127.0.0.1:30000:30000"]
