"""Where each setting comes from: command line, environment, study file, default."""

from __future__ import annotations

from pathlib import Path

from .commands import autotune, environment


def printed(*words: str, cwd: Path, **variables: str) -> dict[str, tuple[str, str]]:
    done = autotune(
        "optimize", "--print-config", *words, cwd=cwd, env=environment(**variables)
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = {}
    for line in done.stdout.splitlines():
        name, rest = line[:21].strip(), line[21:]
        value, origin = rest[:46].strip(), rest[46:].strip()
        found[name] = (value, origin)
    return found


def test_each_setting_is_shown_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "autotune.yaml").write_text("trials: 7\nseed: 7\nspace: steps-only\n")
    shown = printed(
        "--trials", "9", cwd=tmp_path, AUTOTUNE_TRIALS="8", AUTOTUNE_SEED="8"
    )  # fmt: skip
    assert shown["trials"] == ("9", "command line")
    assert shown["seed"] == ("8", "AUTOTUNE_SEED")
    assert shown["space"] == ("steps-only", "autotune.yaml, line 3")
    assert shown["workload"] == ("agentic", "default")
    assert shown["engine"] == ("simulated", "no launch command")
    assert {path.name for path in tmp_path.iterdir()} == {"autotune.yaml"}


def test_a_named_file_replaces_the_one_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "autotune.yaml").write_text("trials: 7\n")
    (tmp_path / "mine.yaml").write_text("seed: 3\n")
    shown = printed("--config", "mine.yaml", cwd=tmp_path)
    assert shown["seed"] == ("3", "mine.yaml, line 1")
    assert shown["trials"][1] == "default"


def test_lists_and_durations_are_shown_as_they_are_used(tmp_path: Path) -> None:
    shown = printed("--time", "1h30m", "--serving-concurrency", "32,16", cwd=tmp_path)
    assert shown["time_s"] == ("5400.0", "command line")
    assert shown["serving_concurrency"] == ("16 32", "command line")
