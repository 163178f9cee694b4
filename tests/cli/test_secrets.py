"""A key in the launch command is used, and reaches no file and no screen."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .commands import autotune, environment, optimize_words, records, serve_words

SECRET = "SECRET123-do-not-tell"
TOKEN = "hf_AbCdEfGhIjKlMnOpQrStUv"


def assert_untold(directory: Path, *runs: subprocess.CompletedProcess[str]) -> None:
    for run in runs:
        assert SECRET not in run.stdout + run.stderr
        assert TOKEN not in run.stdout + run.stderr
    for path in directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert SECRET.encode() not in data, path
            assert TOKEN.encode() not in data, path


@pytest.mark.parametrize("form", [("--api-key", SECRET), (f"--api-key={SECRET}",)], ids=len)
def test_an_api_key_reaches_no_file_and_no_screen(tmp_path: Path, form: tuple[str, ...]) -> None:
    words = optimize_words(trials=2, serve=serve_words(*form))
    first = autotune(*words, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    assert [r["status"] for r in records(tmp_path)] == ["complete", "complete"]
    again = autotune(*words, cwd=tmp_path)
    assert again.returncode == 0, "the same command goes on although its key is masked on disk"
    rehearsed = autotune("optimize", "--dry-run", *words[1:], cwd=tmp_path)
    assert rehearsed.returncode == 0
    readers = [
        autotune(*reader, cwd=tmp_path)
        for reader in (("show",), ("show", "--json"), ("export",), ("export", "--format", "json"))
    ]
    assert all(reader.returncode == 0 for reader in readers)
    assert_untold(tmp_path, first, again, rehearsed, *readers)


def test_printing_the_configuration_masks_the_key(tmp_path: Path) -> None:
    words = optimize_words("--print-config", serve=serve_words("--api-key", SECRET))
    done = autotune(*words, cwd=tmp_path)
    assert done.returncode == 0 and "REDACTED" in done.stdout
    assert_untold(tmp_path, done)


def test_a_refused_command_does_not_tell_its_key(tmp_path: Path) -> None:
    assert autotune(*optimize_words(trials=1), cwd=tmp_path).returncode == 0
    done = autotune(*optimize_words(serve=serve_words("--api-key", SECRET)), cwd=tmp_path)
    assert done.returncode == 7
    assert_untold(tmp_path, done)


def test_a_server_that_dies_does_not_tell_its_key(tmp_path: Path) -> None:
    words = serve_words("--api-key", SECRET, fraction="0.5")
    done = autotune(*optimize_words(serve=words), cwd=tmp_path)
    assert done.returncode == 4
    unknown = autotune(
        *optimize_words(study="t", serve=serve_words("--api-key", SECRET, "--nope", "3")),
        cwd=tmp_path,
    )
    assert unknown.returncode == 4
    assert_untold(tmp_path, done, unknown)


def test_tokens_in_the_environment_of_the_command_are_masked(tmp_path: Path) -> None:
    words = ["env", f"HF_TOKEN={TOKEN}", *serve_words()]
    done = autotune(*optimize_words(trials=1, serve=words), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = autotune(*optimize_words(trials=1, serve=words), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert_untold(tmp_path, done, again)


def test_a_password_in_the_storage_url_is_not_told(tmp_path: Path) -> None:
    url = f"postgresql://tuner:{SECRET}@127.0.0.1:1/x"
    done = autotune(*optimize_words("--storage", url), cwd=tmp_path)
    assert done.returncode == 7
    assert "postgresql://tuner:REDACTED@127.0.0.1:1/x" in done.stderr
    printed = autotune(*optimize_words("--storage", url, "--print-config"), cwd=tmp_path)
    assert_untold(tmp_path, done, printed)


def test_measure_takes_its_key_from_the_environment(tmp_path: Path) -> None:
    from autotune.engine.ports import free_port

    from .commands import wait_until

    port = free_port()
    log = tmp_path / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*serve_words("--api-key", SECRET), "--port", str(port)],
            stdout=output, stderr=output, env=dict(os.environ),
        )  # fmt: skip
    try:
        assert wait_until(lambda: b"fired up" in log.read_bytes())
        words = ("measure", "--url", f"http://127.0.0.1:{port}", "--concurrency", "1")
        refused = autotune(*words, cwd=tmp_path)
        assert refused.returncode == 4 and "AUTOTUNE_API_KEY" in refused.stderr
        env = environment(AUTOTUNE_API_KEY=SECRET)
        done = autotune(*words, "--json", cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
    finally:
        server.terminate()
        server.wait(20)
    log.unlink()
    assert_untold(tmp_path, refused, done)
