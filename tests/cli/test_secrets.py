"""A key in the launch command is used, and reaches no file and no screen."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ..engine.places import docker
from .commands import (
    autotune,
    complaint,
    environment,
    no_server_left,
    optimize_words,
    records,
    serve_words,
    serving,
)

# The list of processes is one for all: tests of two workers must not see each other's secrets.
_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
SECRET = f"SECRET123-do-not-tell-{_WORKER}"
TOKEN = f"hf_{_WORKER}GhIjKlMnOpQrStUvWx"
PASSWORD = f"pa55word-of-the-database-{_WORKER}"
LOGIN = f"l0gin-of-the-proxy-{_WORKER}"
ALL = (SECRET, TOKEN, PASSWORD, LOGIN)
READERS = (
    ("show",), ("show", "--json"), ("show", "--csv"), ("explain",), ("pareto", "--json"),
    ("export",), ("export", "--format", "json"), ("export", "--format", "flags"), ("report",),
)  # fmt: skip


def assert_untold(directory: Path, *runs: subprocess.CompletedProcess[str]) -> None:
    for run in runs:
        assert not any(secret in run.stdout + run.stderr for secret in ALL), run.args
    for path in directory.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not any(secret.encode() in data for secret in ALL), path


@contextmanager
def watched() -> Iterator[set[str]]:
    """Every command line in the list of processes that tells a secret, while the block runs."""
    seen: set[str] = set()
    known = [secret.encode() for secret in ALL]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):  # it has just ended
                    line = file.read_bytes()
                    if any(secret in line for secret in known):
                        seen.add(line.decode().rstrip("\0"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def test_nothing_that_a_study_leaves_or_shows_tells_a_secret(tmp_path: Path) -> None:
    """In the words of the command: they are passed on as they are, and go nowhere else."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    serve = [
        *("env", f"HF_TOKEN={TOKEN}", f"db_password={PASSWORD}"),
        *(f"HTTPS_PROXY=http://me:{LOGIN}@proxy:8080", *serve_words("--api-key", SECRET)),
    ]
    told = ("--storage", "sqlite:///s.db", "--events", "events.jsonl")
    words = optimize_words(*told, trials=2, serve=serve)
    env = environment(TMPDIR=str(scratch))
    with watched() as seen:
        done = autotune(*words, cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert seen and all("autotune.engine.simulated" in line for line in seen)
    others = {line for line in seen if "optimize" not in line.split("\0")}
    started = {line for line in others if "--simulation-seed" in line.split("\0")}
    assert others == started, "only the server itself, or env on its way to it"
    launched = tmp_path / "studies" / "s" / "trials" / "0000"
    assert "api_key" in (launched / "server.log").read_text()
    script = (launched / "launch.sh").read_text()
    for masked in ("HF_TOKEN=REDACTED", "db_password=REDACTED", "//me:REDACTED@proxy:8080"):
        assert masked in script
    dry = [autotune(words[0], *more, *words[1:], cwd=tmp_path) for more in DRY]
    looks = [autotune(*reader, cwd=tmp_path) for reader in READERS]
    doctor = autotune("doctor", "--", *serve, cwd=tmp_path)
    assert {run.returncode for run in (*dry, *looks, doctor)} == {0}
    assert_untold(tmp_path, done, *dry, *looks, doctor)
    assert (tmp_path / "s.db").stat().st_size > 0 and not list(scratch.iterdir())
    warning = "--api-key, HF_TOKEN, db_password, the password of an address can be read in the list"
    assert warning in doctor.stdout


DRY = (("--dry-run",), ("--dry-run", "--json"), ("--print-config",))


def test_secrets_of_the_environment_and_of_a_config_file_are_in_no_process_list(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What ``doctor`` advises: then nobody who lists processes sees them."""
    file = tmp_path_factory.mktemp("own") / "server.yaml"
    file.write_text(f"api-key: {SECRET}\nspeculative-num-steps: 3\n")
    serve = serve_words("--config", str(file))
    env = environment(HF_TOKEN=TOKEN, HTTPS_PROXY=f"http://me:{LOGIN}@127.0.0.1:1")
    with watched() as seen:
        done = autotune(*optimize_words(trials=2, serve=serve), cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert seen == set()
    doctor = autotune("doctor", "--", *serve, cwd=tmp_path, env=env)
    assert "✓ secrets" in doctor.stdout
    assert_untold(tmp_path, done, doctor)


ADAPTER = """
import os, sys
at = sys.argv.index("serve") + 1
words = [sys.executable, "-m", "autotune.engine.simulated", *sys.argv[at:]]
os.execv(sys.executable, words)
"""


@pytest.mark.parametrize(
    "option", [("-e", f"HF_TOKEN={TOKEN}"), (f"-e=HF_TOKEN={TOKEN}",)], ids=["apart", "joined"]
)
def test_the_token_of_a_container_stays_in_its_command(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, option: tuple[str, ...]
) -> None:
    tools = tmp_path_factory.mktemp("docker")
    docker(tools, tools)
    (tools / "adapter.py").write_text(ADAPTER)
    serve = [
        *("docker", "run", "--rm", *option, "--network", "host", "lmsysorg/sglang:v0.5.20"),
        *(sys.executable, str(tools / "adapter.py"), "sglang", "serve"),
        *serve_words(speed=20)[3:],
    ]
    env = environment(PATH=f"{tools}:/usr/bin:/bin")
    done = autotune(*optimize_words(trials=1, serve=serve), cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    assert no_server_left(tmp_path)
    exported = autotune("export", cwd=tmp_path)
    assert "HF_TOKEN=REDACTED" in exported.stdout
    doctor = autotune("doctor", "--", *serve, cwd=tmp_path, env=env)
    assert "HF_TOKEN can be read in the list of processes" in doctor.stdout
    assert_untold(tmp_path, done, exported, doctor)


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
