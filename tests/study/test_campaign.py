from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import ConfigError, LaunchError, StudyError, UsageError
from autotune.space.rules import TOPK
from autotune.study.campaign import Campaign
from autotune.study.config import RunConfig, to_yaml
from autotune.study.forecast import planned
from autotune.study.store import StudyStore

from .fakes import chain, record_of
from .test_store import sampler

SGLANG = (
    "python", "-m", "sglang.launch_server", "--model-path", "org/Some-Model",
    "--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3",
    "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "9",
)  # fmt: skip

EAGLE = ("--speculative-algorithm", "EAGLE")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config(**changes: object) -> RunConfig:
    values = {"engine": "sglang", "command": SGLANG, "space": "steps-only"} | changes
    return RunConfig(**values)  # type: ignore[arg-type]


def test_a_study_is_named_after_its_objective_and_model() -> None:
    assert Campaign.prepare(config()).store.name == "agentic-some-model"
    bundled = Campaign.prepare(RunConfig(engine="simulated", scenario="dense-8b-chat"))
    assert bundled.store.name == "agentic-dense-8b-chat" and bundled.is_bundled


def test_the_baseline_is_the_commands_own_flags_in_canonical_form() -> None:
    assert Campaign.prepare(config()).baseline == chain(3)
    bare = Campaign.prepare(config(command=SGLANG[:7]))
    assert bare.baseline == {}, "what the command leaves out is read back from the server"


@pytest.mark.parametrize("command", [SGLANG[:5], ("sglang", "serve", "--model-path", "M")])
def test_a_search_that_could_change_nothing_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="no --speculative-algorithm"):
        Campaign.prepare(config(command=command))


IN_A_CONTAINER = (
    "docker",
    "run",
    "lmsysorg/sglang:latest",
    "sglang",
    "serve",
    "--config",
    "a.yaml",
)


@pytest.mark.parametrize("command", [("./serve.sh",), ("./serve.sh", "{flags}"), IN_A_CONTAINER])
def test_a_command_that_hides_its_flags_is_given_the_benefit_of_the_doubt(
    command: tuple[str, ...],
) -> None:
    assert Campaign.prepare(config(command=command)).baseline == {}


def test_the_file_of_sglangs_own_config_is_part_of_the_baseline(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    command = ("sglang", "serve", "--config", str(file))
    with pytest.raises(UsageError, match="cannot be read"):
        Campaign.prepare(config(command=command))
    file.write_text("model-path: M\nspeculative-algorithm: EAGLE\nspeculative-num-steps: 3\n")
    with pytest.raises(UsageError, match="speculative_num_steps without speculative_eagle_topk"):
        Campaign.prepare(config(command=command))
    file.write_text(
        "model-path: M\nspeculative-algorithm: EAGLE\nspeculative-num-steps: 3\n"
        "speculative-eagle-topk: 1\nspeculative-num-draft-tokens: 4\n"
    )
    assert Campaign.prepare(config(command=command)).baseline == chain(3)


def test_the_release_of_the_command_decides_what_is_searched_and_how_it_is_written() -> None:
    image = "lmsysorg/sglang:v{}"
    tail = ("sglang", "serve", "--model-path", "M", "--speculative-algorithm", "EAGLE",
            "--attention-backend", "triton", "--page-size", "64")  # fmt: skip

    def prepared(release: str) -> Campaign:
        command = ("docker", "run", "--network=host", image.format(release), *tail)
        return Campaign.prepare(config(command=command, space="speculative"))

    old, new = prepared("0.5.10-cu126"), prepared("0.5.23")
    assert str(old.installed.version) == "0.5.10"
    assert {flags[TOPK] for flags in old.space.configurations()} == {1}
    assert {flags[TOPK] for flags in new.space.configurations()} == {1, 2, 4, 8}
    assert [removal.rule for removal in old.space.removals] == [
        "chain", "tree-capacity", "page-tree",
    ]  # fmt: skip
    note = next(note for note in old.notes if "page-tree" in note)
    assert note.endswith(
        "removed 33,876 configurations: speculative_eagle_topk 2 with page_size 64 runs on "
        "flashinfer, fa3 only, not on triton (server_args.py:1753 @0.5.6, :3084 @0.5.10)"
    )
    for campaign in (old, new):
        assert all(
            campaign.space.contains(plan.flags)
            for plan in planned(campaign)
            if plan.role == "search"
        )


def test_a_flag_that_the_release_lacks_ends_the_study_before_it_begins(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text("parameters: {speculative_adaptive: {switch: true}}")
    command = ("docker", "run", "lmsysorg/sglang:v0.5.10", *SGLANG)
    with pytest.raises(UsageError, match=r"came with SGLang 0\.5\.11, and this is 0\.5\.10"):
        Campaign.prepare(config(command=command, space=str(space)))


def test_a_server_that_fakes_its_acceptance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    prefixed = ("env", "SGLANG_SIMULATE_ACC_LEN=2.5", *SGLANG)
    with pytest.raises(ConfigError, match="fake its accept length"):
        Campaign.prepare(config(command=prefixed))
    in_a_script = ("bash", "-c", f"export SGLANG_SIMULATE_ACC_LEN='2.5'; {' '.join(SGLANG)}")
    with pytest.raises(ConfigError, match="fake its accept length"):
        Campaign.prepare(config(command=in_a_script))
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3")
    with pytest.raises(ConfigError, match="SGLANG_SIMULATE_ACC_LEN=3"):
        Campaign.prepare(config())
    assert Campaign.prepare(config(allow_simulated_acceptance=True)).baseline == chain(3)
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "-1")
    assert Campaign.prepare(config()).baseline == chain(3)


def test_preparing_leaves_nothing_behind(tmp_path: Path) -> None:
    Campaign.prepare(config())
    assert list(tmp_path.iterdir()) == []


def test_a_rehearsal_replaces_the_program_and_keeps_the_flags() -> None:
    campaign = Campaign.prepare(config(engine="simulated", scenario="dense-8b-chat"))
    words = campaign.engine.command.argv
    assert "autotune.engine.simulated" in words and "sglang.launch_server" not in words
    assert words[-10:] == SGLANG[-10:]
    assert campaign.scenario == "dense-8b-chat" and not campaign.is_bundled


def test_a_command_of_the_simulated_server_is_recognised() -> None:
    words = ("python", "-m", "autotune.engine.simulated", "--model-path", "M", *EAGLE)
    campaign = Campaign.prepare(config(command=words))
    assert campaign.config.engine == "simulated"


@pytest.mark.parametrize("form", [("--scenario", "dense-8b-chat"), ("--scenario=dense-8b-chat",)])
def test_the_scenario_of_a_command_names_its_study(form: tuple[str, ...]) -> None:
    words = ("python", "-m", "autotune.engine.simulated", *form, "--model-path", "M", *EAGLE)
    assert Campaign.prepare(config(command=words)).store.name == "agentic-dense-8b-chat"


def test_the_stored_configuration_holds_no_secret() -> None:
    campaign = Campaign.prepare(
        config(command=(*SGLANG, "--api-key", "k3y-k3y"), storage="postgresql://a:k3y-k3y@h/x")
    )
    assert "k3y-k3y" not in to_yaml(campaign.config)
    assert campaign.engine.command.api_key == "k3y-k3y"
    assert campaign.store.location == "postgresql://a:k3y-k3y@h/x"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"space": "none"}, ConfigError),
        ({"workload": "none"}, ConfigError),
        ({"study": "../x"}, UsageError),
        ({"study": ""}, UsageError),
        ({"engine": "simulated", "scenario": "none", "command": ()}, ConfigError),
        ({"engine": "simulated", "scenario": "none"}, ConfigError),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_launch(
    changes: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Campaign.prepare(config(**changes))


def stored(directory: Path, *, measured: bool) -> None:
    campaign = Campaign.prepare(config(study="s"))
    store = StudyStore("s")
    study = store.create(sampler())
    outcome = (1.0, 100.0) if measured else None
    if outcome is not None:
        store.tell(study, study.ask(), record_of(0, chain(3), outcome, "baseline"))
    (store.directory / "study.yaml").write_text(to_yaml(campaign.config))


def test_a_study_with_values_takes_no_other_command(tmp_path: Path) -> None:
    stored(tmp_path, measured=True)
    assert Campaign.prepare(config(study="s")).n_done == 1
    with pytest.raises(StudyError, match="another command"):
        Campaign.prepare(config(study="s", command=(*SGLANG, "--tp", "4")))


def test_a_study_without_values_may_be_mended(tmp_path: Path) -> None:
    stored(tmp_path, measured=False)
    Campaign.prepare(config(study="s", command=(*SGLANG, "--tp", "4")))
    with pytest.raises(StudyError, match="another storage"):
        Campaign.prepare(config(study="s", storage="elsewhere.log"))


def test_a_program_that_is_not_there_is_told_before_a_study_is_made(tmp_path: Path) -> None:
    campaign = Campaign.prepare(config(command=("no-such-program", *SGLANG[1:])))
    with pytest.raises(LaunchError, match="'no-such-program' does not exist"):
        campaign.run()
    assert list(tmp_path.iterdir()) == []
