"""``autotune diagnose`` as its users run it."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import run

OUT_OF_MEMORY = """\
[2026-03-14 07:00:12 TP0] Load weight begin. avail mem=78.12 GB
[2026-03-14 07:00:13 TP0] Load weight end. type=Owl, avail mem=15.90 GB, mem usage=61.44 GB.
[2026-03-14 07:00:14 TP0] Scheduler hit an exception: Traceback (most recent call last):
ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.6. \
Raise --mem-fraction-static above 0.797 (minimum viable = 1 - available/pre = 0.7965).
[2026-03-14 07:00:15] Received sigquit from a child process. It usually means the child failed.
"""
HEALTHY = "[2026-03-14 07:00:12] The server is fired up and ready to roll!\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "server.log"
    path.write_text(OUT_OF_MEMORY)
    return path


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["diagnose", *words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_failure_is_told_with_line_remedy_and_what_a_study_would_do(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["diagnose", str(log)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("kv_does_not_fit (stage: pool)\n")
    assert "leave no GPU memory" in text and "line      4\n" in text
    assert "raise mem_fraction_static above 0.797" in text
    assert "mem_fraction_static ≥ 0.797" in text
    assert "would learn from it" in text


def test_the_same_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, str(log), "--exit-status", "-9")
    assert found["kind"] == "kv_does_not_fit" and found["line"] == 4
    assert found["bound"] == {"flag": "mem_fraction_static", "side": "at_least", "value": 0.797}
    assert found["policy"] == "learn"


@pytest.mark.parametrize(
    ("log_line", "policy", "words"),
    [
        ("ValueError: nccl_port at 28610 is not available in 30 seconds.", "retry_once", "once"),
        ("OSError: M is not a local folder and is not a valid model", "stop", "would stop"),
    ],
)
def test_each_policy_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log_line: str, policy: str, words: str
) -> None:
    path = tmp_path / "log"
    path.write_text(f"Traceback (most recent call last):\n{log_line}\n")
    assert document(capsys, str(path))["policy"] == policy
    assert run(["diagnose", str(path)]) == 0
    assert words in capsys.readouterr().out


def test_a_healthy_log_is_said_to_be_healthy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text(HEALTHY)
    assert run(["diagnose", str(path)]) == 0
    assert "shows no failure" in capsys.readouterr().out
    found = document(capsys, str(path))
    assert found["kind"] is None and found["stage"] == "serving" and found["policy"] is None


def test_an_exit_status_without_a_reason_is_told_honestly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    path.write_text(HEALTHY)
    found = document(capsys, str(path), "--exit-status", "137")
    assert found["kind"] == "crashed" and found["line"] is None
    assert "no reason in its log" in found["remedy"]
    path.write_text("")
    assert document(capsys, str(path), "--exit-status", "1")["evidence"].endswith("log is empty")


def test_stdin_and_gzip(log: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "autotune", "diagnose", "-", "--json"],
        input=gzip.compress(log.read_bytes()), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["file"] == "stdin"
    assert json.loads(done.stdout)["kind"] == "kv_does_not_fit"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file"),
        (b"", "is empty"),
        (b"\0\1\2\3\0" * 200, "binary file"),
        (b"\x1f\x8bnonsense", "damaged gzip"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, said: str
) -> None:
    path = tmp_path / "log"
    if content is not None:
        path.write_bytes(content)
    assert run(["diagnose", str(path)]) == 2
    output = capsys.readouterr()
    assert not output.out
    assert said in output.err and "Traceback" not in output.err


def test_a_folder_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diagnose", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err
