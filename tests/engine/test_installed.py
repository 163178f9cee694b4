from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.installed import Installed, installed
from autotune.engine.sglang.versions import version

SERVE = ("-m", "sglang.launch_server", "--model-path", "M")


def having(directory: Path, release: str) -> str:
    """A Python that has an SGLang of this release: its metadata only, nothing to import."""
    site = directory / "site"
    info = site / f"sglang-{release}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {release}\n")
    python = directory / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{site}" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return str(python)


def found(*words: str) -> Installed:
    return installed(LaunchCommand.parse(words))


@pytest.mark.parametrize("release", ["0.4.6.post5", "0.5.23", "0.5.24.dev7+g1a2b3c4"])
def test_the_python_of_the_command_is_asked(tmp_path: Path, release: str) -> None:
    python = having(tmp_path, release)
    for wrapper in ((), ("env", "A=b"), ("nice", "-n", "1"), ("B=c",)):
        told = found(*wrapper, python, *SERVE)
        assert told == Installed(version(release), f"installed for {python}")
        assert str(told.version) == release


def test_the_python_of_a_script_is_asked_where_it_is_certain(tmp_path: Path) -> None:
    python = having(tmp_path, "0.5.10")
    serve = " ".join(SERVE)
    assert found("bash", "-c", f"exec {python} {serve}").version == version("0.5.10")
    assert found("bash", "-c", f"cd / && {python} {serve}").version == version("0.5.10")
    assert (
        found("bash", "-c", f"source v && python {serve}").origin == "a script chooses the Python"
    )
    assert "variable" in found("bash", "-c", f"$PYTHON {serve}").origin


def test_a_console_script_names_its_python(tmp_path: Path) -> None:
    python = having(tmp_path, "0.5.14")
    script = tmp_path / "sglang"
    script.write_text(f"#!{python}\nraise SystemExit\n")
    script.chmod(0o755)
    assert found(str(script), "serve", "--model-path", "M").version == version("0.5.14")
    script.write_text("#!/bin/sh\n")
    assert "is no script of a Python" in found(str(script), "serve").origin
    assert found("sglang-absent/sglang", "serve").origin.endswith("cannot be found")


@pytest.mark.parametrize(
    ("image", "release"),
    [
        ("lmsysorg/sglang:v0.5.10-cu126", "0.5.10"),
        ("docker.io/lmsysorg/sglang:v0.5.10.post1-cu130-amd64@sha256:0a1b", "0.5.10.post1"),
        ("registry:5000/sglang:0.4.6.post5", "0.4.6.post5"),
        ("lmsysorg/sglang:v0.5.3rc0-cu126", "0.5.3rc0"),
        ("lmsysorg/sglang:latest", None),
        ("lmsysorg/sglang:dev-cu13", None),
        ("lmsysorg/sglang", None),
        ("registry:5000/own:v0.5.10", None),
    ],
)
def test_the_tag_of_an_image_tells(image: str, release: str | None) -> None:
    told = found("docker", "run", "--rm", "--gpus", "all", image, "python3", *SERVE)
    assert told.version == (version(release) if release else None)
    assert image in told.origin


@pytest.mark.parametrize(
    ("words", "origin"),
    [
        (("./serve.sh", "{flags}"), "names no Python"),
        (("ssh", "box", "python", *SERVE), "behind ssh nothing can be asked"),
        (("srun", "python", *SERVE), "behind srun nothing can be asked"),
        (("/absent/python", *SERVE), "cannot be run: No such file"),
        ((sys.executable, "-m", "sglang.launch_server"), "has no package sglang"),
    ],
)
def test_what_cannot_be_asked_is_unknown_and_said(words: tuple[str, ...], origin: str) -> None:
    told = found(*words)
    assert told.version is None
    assert origin in told.origin
    assert told.describe().endswith("0.5.23, the newest one known, are used")


def test_a_python_that_does_not_answer_is_not_waited_for(tmp_path: Path) -> None:
    slow = tmp_path / "python3"
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    told = installed(LaunchCommand.parse([str(slow), *SERVE]), timeout_s=0.1)
    assert told.origin == f"{slow} gave no answer in 0.1 s"


def test_uv_is_asked_without_installing_anything(tmp_path: Path) -> None:
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho 0.5.7\n')
    uv.chmod(0o755)
    env = f"PATH={tmp_path}:/usr/bin:/bin"
    for words in (("uv", "run", "python", *SERVE), ("uv", "run", "sglang", "serve")):
        assert found("env", env, *words).version == version("0.5.7")
        assert (tmp_path / "asked").read_text().startswith("run --no-sync python -c import")


def test_a_release_newer_than_all_known_ones_is_told() -> None:
    told = Installed(version("0.6.1"), "image x")
    assert told.describe() == "SGLang 0.6.1 (image x, newer than every release known here)"
    old = Installed(version("0.4.3.post2"), "image x").describe()
    assert old == "SGLang 0.4.3.post2 (image x, older than every release known here)"
    assert "newer" not in Installed(version("0.5.23+simulated"), "simulated").describe()
    assert Installed(version("0.5.10"), "image x").describe() == "SGLang 0.5.10 (image x)"
