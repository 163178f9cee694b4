from __future__ import annotations

import json
from pathlib import Path

import pytest

from .commands import autotune, environment

EAGLE3 = (
    *("python", "-m", "sglang.launch_server", "--speculative-algorithm", "EAGLE3"),
    *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1"),
    *("--speculative-num-draft-tokens", "4"),
)


def findings(cwd: Path, *words: str, code: int, **env: str) -> dict[str, dict[str, str]]:
    done = autotune("doctor", "--json", *words, cwd=cwd, env=environment(**env))
    assert done.returncode == code, done.stderr
    return {found["name"]: found for found in json.loads(done.stdout)["findings"]}


def test_the_bundled_server_is_ready_to_be_tuned(tmp_path: Path) -> None:
    done = autotune("doctor", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    assert "✗" not in done.stdout and "✓ storage" in done.stdout
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_everything_that_would_stop_a_launch_is_told_at_once(tmp_path: Path) -> None:
    found = findings(
        tmp_path, "--", *EAGLE3, "--model-path", "/no/model", code=4, SGLANG_SIMULATE_ACC_LEN="3"
    )
    problems = {name for name, finding in found.items() if finding["state"] == "problem"}
    assert problems == {"model", "draft model", "acceptance"}
    assert all(found[name]["remedy"] for name in problems)


def test_an_accept_length_that_is_faked_on_purpose_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "autotune.yaml").write_text("allow_simulated_acceptance: true\n")
    found = findings(tmp_path, code=0, SGLANG_SIMULATE_ACC_LEN="3")
    assert found["acceptance"]["state"] == "warning"


def test_a_model_that_is_there_is_no_problem(tmp_path: Path) -> None:
    for name in ("target", "draft"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    found = findings(
        tmp_path,
        *("--", *EAGLE3, "--model-path", "./target"),
        *("--speculative-draft-model-path", "./draft"),
        code=0,
    )
    assert found["model"]["state"] == found["draft model"]["state"] == "ok"


@pytest.mark.parametrize(
    ("words", "name"),
    [(("--", "sglangg"), "program"), (("--space", "speculativ"), "study")],
)
def test_what_cannot_be_found_is_named(tmp_path: Path, words: tuple[str, ...], name: str) -> None:
    assert findings(tmp_path, *words, code=4)[name]["state"] == "problem"


def test_a_folder_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "studies").write_text("a file, not a folder")
    assert findings(tmp_path, code=4)["storage"]["state"] == "problem"
