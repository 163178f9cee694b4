"""What is asked of another machine before the first launch, with a real ``sshd``."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import psutil
import pytest

from autotune.engine.places.survey import survey
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.versions import version
from autotune.errors import LaunchError, UsageError
from autotune.study.campaign import Campaign, engine_for
from autotune.study.checkup import check_up
from autotune.study.config import RunConfig

from . import places
from .places import SUT, Harness
from .sshd import Sshd
from .test_installed import having

SERVE = ("-m", "sglang.launch_server", "--model-path", "M")
FILE = """
speculative-algorithm: EAGLE
speculative-num-steps: 4
speculative-eagle-topk: 1
speculative-num-draft-tokens: 5
api-key: k3y-in-the-file
"""


@pytest.fixture
def remote(tmp_path: Path, sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Harness:
    monkeypatch.setenv("AUTOTUNE_SSH_CONFIG", str(sshd.config))
    monkeypatch.chdir(tmp_path)
    return places.ssh(tmp_path)


def command(*words: str) -> LaunchCommand:
    return LaunchCommand.parse(words)


def test_the_python_of_the_other_machine_is_asked(remote: Harness, tmp_path: Path) -> None:
    python = having(tmp_path, "0.5.14")
    _, found = survey(command("env", "A=b c", python, *SERVE), SUT)
    assert found.version == version("0.5.14")
    assert found.origin == f"installed for {python} on sut"
    _, found = survey(command("A=b", python, *SERVE), SUT)
    assert found.version == version("0.5.14")
    script = tmp_path / "sglang"
    script.write_text(f"#!{python}\n")
    script.chmod(0o755)
    _, found = survey(command(str(script), "serve", "--model-path", "M"), SUT)
    assert found.version == version("0.5.14")
    assert not remote.left()


def test_the_python_of_this_machine_says_nothing_about_another_one(
    remote: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    having(tmp_path, "0.5.14")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")  # of here: sshd has one of its own
    assert Path(str(shutil.which("python3"))).parent == tmp_path
    _, found = survey(command("python3", *SERVE), SUT)
    assert found.version is None and found.origin.endswith(" on sut")
    _, found = survey(command("/absent/python", *SERVE), SUT)
    assert found.origin == "/absent/python cannot be run: No such file or directory on sut"


def test_the_config_file_of_the_other_machine_counts(remote: Harness, tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text(FILE)
    known, _ = survey(command("python3", *SERVE, "--config", str(path)), SUT)
    path.unlink()  # it is not this machine's, which is not asked
    assert known.flags(("speculative_num_steps",)) == {"speculative_num_steps": 4}
    assert known.api_key == "k3y-in-the-file" and "k3y-in-the-file" in known.secrets()
    assert "k3y-in-the-file" not in repr(known)
    changed = known.with_flags({"speculative_num_steps": 2})
    assert changed.flags(("speculative_num_steps",)) == {"speculative_num_steps": 2}
    with pytest.raises(UsageError, match=r"cannot be read on sut: No such file or directory"):
        survey(command("python3", *SERVE, "--config", str(path)), SUT)


def test_a_study_and_a_measurement_there_know_both(remote: Harness, tmp_path: Path) -> None:
    python, path = having(tmp_path, "0.5.10"), tmp_path / "server.yaml"
    path.write_text(FILE)
    words = (python, *SERVE, "--config", str(path))
    campaign = Campaign.prepare(
        RunConfig(engine="sglang", command=words, runs_on=SUT, space="steps-only")
    )
    path.unlink()
    assert campaign.installed.version == version("0.5.10")
    assert campaign.baseline["speculative_num_steps"] == 4
    path.write_text(FILE)
    engine = engine_for(words, 0, SUT)
    assert engine.command.version == version("0.5.10")
    assert engine.command.file_text == FILE
    assert not remote.left()


def test_a_question_shows_no_key_in_a_process_list(remote: Harness, tmp_path: Path) -> None:
    python, over = having(tmp_path, "0.5.14"), threading.Event()
    seen: list[str] = []

    def watch() -> None:
        while not over.wait(0.002):
            for process in psutil.process_iter(["cmdline"]):
                seen.extend(w for w in process.info["cmdline"] or [] if "hf_AbCdEf" in w)

    watcher = threading.Thread(target=watch)
    watcher.start()
    words = ("env", "HF_TOKEN=hf_AbCdEfGhIjKlMnOpQrSt", python, *SERVE, "--api-key", "hf_AbCdEf0")
    try:
        _, found = survey(command(*words), SUT)
    finally:
        over.set()
        watcher.join()
    assert found.version == version("0.5.14") and seen == []


def test_a_machine_out_of_reach_is_left_to_the_first_launch(remote: Harness) -> None:
    _, found = survey(command("python3", *SERVE), "ssh://stranger")
    assert found.version is None and "stranger cannot be reached over ssh" in found.origin
    with pytest.raises(LaunchError, match="cannot be reached"):
        survey(command("python3", *SERVE, "--config", "/x.yaml"), "ssh://stranger")


def test_doctor_looks_at_that_machine(remote: Harness, tmp_path: Path) -> None:
    python = having(tmp_path, "0.5.3")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}")
    words = (
        *(python, "-m", "sglang.launch_server", "--model-path", str(model), "--stream-output"),
        *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/absent/draft"),
        *("--speculative-adaptive", "--host", "10.255.255.1"),
    )
    config = RunConfig(engine="sglang", command=words, runs_on=SUT, space="steps-only")
    found = {finding.name: finding for finding in check_up(config)}
    assert found["machine"].text == "the server would run on sut over ssh"
    assert found["version"].text.startswith("SGLang 0.5.3 (installed for")
    assert "came with SGLang 0.5.11" in found["flags"].text
    assert found["model"].state == "ok" and found["ports"].state == "ok"
    assert (found["draft model"].state, found["draft model"].text) == (
        "problem", "/absent/draft does not exist",
    )  # fmt: skip
    assert not remote.left()


def test_doctor_names_a_machine_out_of_reach(remote: Harness) -> None:
    words = ("python3", *SERVE, "--speculative-algorithm", "EAGLE")
    config = RunConfig(engine="sglang", command=words, runs_on="ssh://stranger", space="steps-only")
    found = {finding.name: finding for finding in check_up(config)}
    assert found["machine"].state == "problem" and "cannot be reached" in found["machine"].text
