"""Where the servers of a study run, from the configuration to the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.engine.places.docker import DockerPlace
from autotune.engine.places.here import LocalPlace
from autotune.engine.places.ssh import SshPlace
from autotune.errors import AutotuneError, ConfigError, StudyError, UsageError
from autotune.study.campaign import Campaign, engine_for
from autotune.study.config import RunConfig, check_same, from_yaml, resolve, to_yaml

SERVER = (
    "python3", "-m", "sglang.launch_server", "--model-path", "m", "--speculative-algorithm",
    "EAGLE", "--speculative-draft-model-path", "d",
)  # fmt: skip
DOCKER = ("docker", "run", "--network", "host", "lmsysorg/sglang:v0.5.9")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a machine ``gpu`` that refuses every connection at once."""
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "ssh_config"
    config.write_text("Host gpu\n  HostName 127.0.0.1\n  Port 1\n")
    monkeypatch.setenv("AUTOTUNE_SSH_CONFIG", str(config))


def prepared(*words: str, runs_on: str | None = None) -> Campaign:
    return Campaign.prepare(resolve({"command": words, "runs_on": runs_on}, None).config)


def test_the_place_follows_from_the_command_and_the_address() -> None:
    assert isinstance(prepared(*SERVER).engine.place, LocalPlace)
    assert isinstance(prepared(*DOCKER, *SERVER).engine.place, DockerPlace)
    assert isinstance(prepared(*SERVER, runs_on="ssh://gpu").engine.place, SshPlace)
    there = prepared(*DOCKER, *SERVER, runs_on="ssh://gpu")
    assert there.engine_title == "SGLang on gpu over ssh"
    assert str(there.installed.version) == "0.5.9"
    assert prepared(*DOCKER, *SERVER).engine_title == "SGLang in a container (docker)"


def test_a_machine_out_of_reach_is_told_by_the_first_launch() -> None:
    found = prepared(*SERVER, runs_on="ssh://gpu").installed
    assert found.version is None and "gpu cannot be reached over ssh" in found.origin


@pytest.mark.parametrize(
    ("words", "runs_on", "error", "text"),
    [
        (SERVER, "gpu", ConfigError, "no address of a machine"),
        (("docker", "exec", "c", *SERVER), None, UsageError, "docker exec"),
        (("docker", "exec", "c", *SERVER), "ssh://gpu", UsageError, "docker exec"),
        ((), "ssh://gpu", ConfigError, "leave --on out"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    words: tuple[str, ...], runs_on: str | None, error: type[AutotuneError], text: str
) -> None:
    with pytest.raises(error, match=text):
        prepared(*words, runs_on=runs_on)


def test_the_simulated_server_is_measured_on_this_machine_only() -> None:
    with pytest.raises(ConfigError, match="leave --on out"):
        engine_for(("python", "-m", "autotune.engine.simulated"), 0, "ssh://gpu")


def test_a_study_stays_on_its_machine(tmp_path: Path) -> None:
    config = RunConfig(engine="sglang", command=SERVER, runs_on="ssh://gpu")
    path = tmp_path / "study.yaml"
    path.write_text(to_yaml(config))
    assert from_yaml(path) == config
    with pytest.raises(StudyError, match="runs_on"):
        check_same(RunConfig(engine="sglang", command=SERVER), config, "s")


def test_the_address_can_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_RUNS_ON", "ssh://gpu")
    assert resolve({"command": SERVER}, None).config.runs_on == "ssh://gpu"
