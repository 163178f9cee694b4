from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ..engine.places import docker
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


def test_the_storage_of_a_study_is_looked_at_and_left_alone(tmp_path: Path) -> None:
    def told(location: str, code: int) -> dict[str, str]:
        return findings(tmp_path, "--storage", location, code=code)["database"]

    assert told("sqlite:///new.db", 0)["state"] == "ok"
    assert told("journal.log", 0)["state"] == "ok"
    assert list(tmp_path.iterdir()) == []
    assert told("sqlite:///absent/new.db", 4)["state"] == "problem"
    refused = told("postgresql://me:pa55word@127.0.0.1:1/x", 4)
    assert refused["state"] == "problem" and "pa55word" not in str(refused)


def test_flags_that_the_release_lacks_are_named(tmp_path: Path) -> None:
    image = ("docker", "run", "--network", "host", "lmsysorg/sglang:v0.5.3")
    tools = fake_docker(tmp_path)
    more = ("--model-path", "/models/m", "--speculative-draft-model-path", "/models/d")
    words = ("--", *image, *EAGLE3, *more, "--speculative-adaptive")
    found = findings(tmp_path, *words, code=4, PATH=tools)
    assert found["flags"]["state"] == "problem"
    assert "--speculative-adaptive came with SGLang 0.5.11" in found["flags"]["text"]
    assert found["version"]["text"].startswith("SGLang 0.5.3 (image")
    assert found["model"]["state"] == "ok" and "in the container" in found["model"]["text"]
    assert findings(tmp_path, *words[:-1], code=0, PATH=tools)["flags"]["state"] == "ok"


def test_a_container_tool_that_does_not_answer_is_a_problem(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "docker"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho permission denied; exit 1\n")
    tool.chmod(0o755)
    words = ("docker", "run", "--network", "host", "lmsysorg/sglang:v0.5.3", *EAGLE3)
    path = f"{tool.parent}:{os.environ['PATH']}"
    found = findings(tmp_path, "--", *words, code=4, PATH=path)
    assert "permission denied" in found["machine"]["text"]


@pytest.mark.parametrize(
    ("tp", "state", "text"), [("2", "ok", "2 × NVIDIA Test"), ("4", "problem", "needs 4 of them")]
)
def test_the_gpus_are_as_many_as_the_command_needs(
    tmp_path: Path, tp: str, state: str, text: str
) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\ncase $1 in *compute-apps*) ;; *) for i in 0 1; do "
        'echo "$i, GPU-$i, NVIDIA Test, 98304, 4"; done;; esac\n'
    )
    tool.chmod(0o755)
    words = (*EAGLE3, "--model-path", "m", "--speculative-draft-model-path", "d", "--tp", tp)
    code = 0 if state == "ok" else 4
    path = f"{tool.parent}:{os.environ['PATH']}"
    found = findings(tmp_path, "--", *words, code=code, PATH=path)["GPU"]
    assert found["state"] == state and text in found["text"]


def test_a_gpu_that_somebody_uses_and_few_open_files_are_problems(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(
        '#!/bin/sh\ncase $1 in *compute-apps*) echo "GPU-0, 7, other, 40000";; '
        '*) echo "0, GPU-0, NVIDIA Test, 98304, 41000";; esac\n'
    )
    tool.chmod(0o755)
    words = shlex.join(["--", *EAGLE3, "--speculative-draft-model-path", "d", "--model-path", "m"])
    done = subprocess.run(
        ["sh", "-c", f"ulimit -n 200; {sys.executable} -m autotune doctor --json {words}"],
        cwd=tmp_path,
        env=environment(PATH=f"{tool.parent}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    problems = {name for name, finding in found.items() if finding["state"] == "problem"}
    assert problems == {"GPU", "open files"}
    assert "other (process 7) holds 39.1 GB" in found["GPU"]["text"]
    assert "ulimit -n" in found["open files"]["remedy"]


def test_every_point_of_the_list_is_looked_at(tmp_path: Path) -> None:
    words = (*EAGLE3, "--model-path", "m", "--speculative-draft-model-path", "d")
    found = findings(tmp_path, "--", *words, code=0)
    assert {
        "study", "program", "machine", "version", "flags", "model", "draft model", "GPU", "ports",
        "acceptance", "secrets", "storage", "disk", "clock", "open files",
    } == set(found)  # fmt: skip


def fake_docker(folder: Path) -> str:
    """A ``PATH`` with a stand-in for docker."""
    tools = folder / "tools"
    tools.mkdir()
    docker(tools, tools)
    return f"{tools}:{os.environ['PATH']}"
