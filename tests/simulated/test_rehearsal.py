"""A launch command of any form, rehearsed on the simulated server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.simulated.arguments import parse_options
from autotune.engine.simulated.engine import simulated_command
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO
from autotune.errors import ConfigError
from autotune.study.campaign import Campaign
from autotune.study.config import RunConfig

FLAGS = (
    "--model-path org/model --tp 4 --speculative-algorithm EAGLE --speculative-num-steps 4 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 5 --mem-fraction-static 0.83"
)
SERVER = "python -m sglang.launch_server"
IMAGE = "docker run --rm --gpus all --ipc=host -p 30000:30000 lmsysorg/sglang:v0.5.20"
PREFIX = (sys.executable, "-m", "autotune.engine.simulated", "--scenario", DEFAULT_SCENARIO)


def rehearsed(*words: str) -> LaunchCommand:
    return simulated_command(LaunchCommand.parse(words), DEFAULT_SCENARIO)


@pytest.mark.parametrize(
    "words",
    [
        f"{SERVER} {FLAGS}".split(),
        f"env HF_HOME=/x numactl --cpunodebind=0 {SERVER} {FLAGS}".split(),
        f"uv run --python 3.11 sglang serve {FLAGS}".split(),
        f"{IMAGE} {SERVER} {FLAGS}".split(),
        ["bash", "-lc", f"cd /srv && source v/bin/activate && exec {SERVER} {FLAGS} 2>&1 | tee l"],
        [*IMAGE.split(), "bash", "-c", f"pip list; {SERVER} {FLAGS}"],
    ],
    ids=["plain", "wrapped", "uv", "docker", "bash", "bash in docker"],
)
def test_the_flags_are_kept_wherever_they_stand(words: list[str]) -> None:
    command = rehearsed(*words)
    assert command.argv == (*PREFIX, *FLAGS.split())
    options, _ = parse_options(list(command.argv[3:]))
    assert options.resolved["speculative_num_steps"] == 4
    assert options.resolved["mem_fraction_static"] == 0.83


def test_the_flags_of_a_config_file_come_before_those_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("model-path: org/model\nmem-fraction-static: 0.7\ntrust-remote-code: true\n")
    command = rehearsed(*SERVER.split(), "--config", str(path), "--mem-fraction-static", "0.8")
    assert command.argv == (
        *PREFIX, "--model-path", "org/model", "--mem-fraction-static", "0.7",
        "--trust-remote-code", "--mem-fraction-static", "0.8",
    )  # fmt: skip
    assert command.flags(("mem_fraction_static",)) == {"mem_fraction_static": 0.8}


def test_what_a_script_hides_is_taken_from_the_scenario() -> None:
    command = rehearsed("./serve.sh", "production", "{flags}", "--port", "{port}")
    given = command.flags()
    assert given["speculative_algorithm"] == "EAGLE" and given["model_path"]
    ready = command.with_port(31000)
    assert ready.flags(("port",)) == {"port": 31000}
    parse_options(list(ready.argv[3:]))


def test_a_rehearsed_study_has_the_baseline_of_the_command(tmp_path: Path) -> None:
    words = ("bash", "-c", f"cd {tmp_path}; {SERVER} {FLAGS}")
    campaign = Campaign.prepare(RunConfig(engine="simulated", command=words))
    assert campaign.baseline["speculative_num_steps"] == 4
    assert campaign.baseline["mem_fraction_static"] == 0.83


def test_a_rehearsal_refuses_a_faked_accept_length_as_the_study_would() -> None:
    words = ("bash", "-c", f"SGLANG_SIMULATE_ACC_LEN=3 {SERVER} {FLAGS}")
    with pytest.raises(ConfigError, match="fake its accept length"):
        Campaign.prepare(RunConfig(engine="simulated", command=words))
