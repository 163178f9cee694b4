"""A key in the launch command is used, and reaches no file and no screen."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .commands import (
    autotune,
    complaint,
    environment,
    optimize_words,
    records,
    serve_words,
    serving,
)

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


@pytest.mark.parametrize("where", ["environment", "file"])
def test_measure_takes_its_key_from_elsewhere_than_the_command_line(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, where: str
) -> None:
    key_file = tmp_path_factory.mktemp("key") / "key"
    key_file.write_text(f"{SECRET}\n")
    given = ("--api-key-file", str(key_file)) if where == "file" else ()
    env = environment() if where == "file" else environment(AUTOTUNE_API_KEY=SECRET)
    with serving(tmp_path, *serve_words("--api-key", SECRET)) as url:
        words = ("measure", "--url", url, "--concurrency", "1", "--seconds", "20")
        refused = autotune(*words, cwd=tmp_path)
        assert refused.returncode == 4 and "AUTOTUNE_API_KEY" in refused.stderr
        table = autotune(*words, *given, "-o", "record.json", cwd=tmp_path, env=env)
        assert table.returncode == 0, table.stderr
        document = autotune(*words, *given, "--json", cwd=tmp_path, env=env)
        assert document.returncode == 0, document.stderr
    assert_untold(tmp_path, refused, table, document)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two words\n", b"\xff\xfe", "schlüssel\n".encode()]
)
def test_a_key_file_without_a_key_is_refused_and_not_quoted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    done = autotune("measure", "--url", "http://127.0.0.1:9", "--api-key-file", "key", cwd=tmp_path)
    assert done.returncode == 3
    told = complaint(done)
    assert "key" in told and "two words" not in told and "schl" not in told
