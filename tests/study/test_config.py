from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import ConfigError, StudyError
from autotune.study.config import (
    RunConfig,
    check_same,
    from_yaml,
    load_objective,
    parse_concurrencies,
    parse_duration,
    parse_weight,
    resolve,
    to_yaml,
)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.chdir(tmp_path)
    for name in list(os.environ):
        if name.startswith("AUTOTUNE_"):
            monkeypatch.delenv(name)


# ---- precedence -----------------------------------------------------------------------------


def test_defaults_hold_where_nothing_is_given() -> None:
    found = resolve({"trials": None, "command": ()}, None)
    assert found.config.trials == RunConfig().trials
    assert found.origins["trials"] == "default"
    assert found.config.engine == "simulated"
    assert found.origins["engine"] == "no launch command"


def test_a_launch_command_makes_the_engine_sglang() -> None:
    found = resolve({"command": ("python", "-m", "sglang.launch_server")}, None)
    assert found.config.engine == "sglang"


def test_command_line_beats_environment_beats_file_beats_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "autotune.yaml"
    path.write_text("trials: 7\nseed: 7\nspace: steps-only\n")
    monkeypatch.setenv("AUTOTUNE_TRIALS", "8")
    monkeypatch.setenv("AUTOTUNE_SEED", "8")
    found = resolve({"trials": 9}, None)
    assert (found.config.trials, found.config.seed, found.config.space) == (9, 8, "steps-only")
    assert found.origins["trials"] == "command line"
    assert found.origins["seed"] == "AUTOTUNE_SEED"
    assert found.origins["space"] == "autotune.yaml, line 3"
    assert found.origins["workload"] == "default"


def test_a_named_file_replaces_the_usual_one(tmp_path: Path) -> None:
    (tmp_path / "autotune.yaml").write_text("trials: 7\n")
    (tmp_path / "mine.yaml").write_text("seed: 3\n")
    config = resolve({}, tmp_path / "mine.yaml").config
    assert (config.trials, config.seed) == (RunConfig().trials, 3)


def test_an_empty_variable_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_TRIALS", "")
    assert resolve({}, None).config.trials == RunConfig().trials


def test_every_form_of_a_file_value_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "time_s: 1h30m\nserving_concurrency: [32, 16]\nslo: ['ttft_s<=1', 'tpot_s<=0.1']\n"
        "command: python -m 'a b' --tp 4\ngpu_hours: 2.5\nseed:\n"
    )
    config = resolve({}, path).config
    assert config.time_s == 5400
    assert config.serving_concurrency == (16, 32)
    assert config.slo == ("ttft_s<=1", "tpot_s<=0.1")
    assert config.command == ("python", "-m", "a b", "--tp", "4")
    assert config.gpu_hours == 2.5
    assert config.seed == 0
    path.write_text("command: [python, -m, x, --tp, 4]\nserving_concurrency: 24\n")
    config = resolve({}, path).config
    assert config.command == ("python", "-m", "x", "--tp", "4")
    assert config.serving_concurrency == (24,)


@pytest.mark.parametrize(
    "text", ["trials: {a: 1}", "trials: [1]", "seed: x", "serving_concurrency: []", "slo: {a: 1}"]
)
def test_a_file_value_of_the_wrong_kind_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"# a comment\n{text}\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml, line 2"):
        resolve({}, path)


# ---- study.yaml -----------------------------------------------------------------------------

WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\x85\u2028\u2029\ufeff"),
    min_size=1, max_size=12,
)  # fmt: skip
CONFIGS = st.builds(
    RunConfig,
    study=st.sampled_from(["a", "1", "yes", "null", "0x1f", "1e3", "~"]),
    engine=st.just("sglang"),
    trials=st.integers(1, 999),
    time_s=st.one_of(st.none(), st.integers(1, 10**6).map(float)),
    gpu_hours=st.one_of(st.none(), st.floats(0.01, 1e4)),
    serving_concurrency=st.sets(st.integers(2, 512), min_size=1).map(lambda s: tuple(sorted(s))),
    slo=st.sampled_from([(), ("ttft_s<=1",), ("ttft_p95_s<=0.5", "decode_tok_s@1>=50")]),
    seed=st.integers(0, 10**9),
    command=st.lists(WORDS, min_size=1, max_size=5).map(tuple),
)


@given(CONFIGS)
def test_a_configuration_survives_its_file(config: RunConfig) -> None:
    path = Path("study.yaml")
    path.write_text(to_yaml(config), encoding="utf-8")
    assert from_yaml(path) == config


def test_a_damaged_study_file_is_a_study_error() -> None:
    Path("study.yaml").write_text("trials: 3\n")
    with pytest.raises(StudyError, match=r"study\.yaml is damaged"):
        from_yaml(Path("study.yaml"))


def test_what_may_change_between_runs_is_not_compared() -> None:
    old = RunConfig(command=("a",))
    new = RunConfig(command=("a",), trials=99, time_s=1.0, gpu_hours=1.0, objective="balanced")
    check_same(new, old, "s")


@pytest.mark.parametrize(
    ("new", "named"),
    [
        (RunConfig(command=("b", "c d")), "command: 'a' then, \"b 'c d'\" now"),
        (RunConfig(command=("a",), seed=1), "seed: '0' then, '1' now"),
        (RunConfig(command=("a",), space="x"), "another space"),
        (RunConfig(command=("a",), storage="x"), "another storage"),
    ],
)
def test_what_must_not_change_is_named(new: RunConfig, named: str) -> None:
    with pytest.raises(StudyError) as caught:
        check_same(new, RunConfig(command=("a",)), "s")
    assert named in caught.value.message.replace("\\'", "'")


# ---- single values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1h30m", 5400), (" 1.5H ", 5400)],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@given(st.text(max_size=8))
def test_any_text_is_a_duration_above_zero_or_refused(text: str) -> None:
    try:
        assert parse_duration(text, "--time") > 0
    except ConfigError as error:
        assert error.message.startswith("--time: ")


@given(st.lists(st.integers(1, 999), min_size=1))
def test_concurrencies_are_sorted_and_distinct(levels: list[int]) -> None:
    parsed = parse_concurrencies(",".join(map(str, levels)), "here")
    assert parsed == tuple(sorted(set(levels)))


@pytest.mark.parametrize("text", ["", ",", "x", "1;2", "1.5"])
def test_what_is_no_concurrency_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="here"):
        parse_concurrencies(text, "here")


@given(st.floats(0, 1))
def test_a_weight_is_read_back(weight: float) -> None:
    text = f"{weight:.4f}"
    assert parse_weight(f"latency={text}").latency_weight == float(text)
    assert parse_weight(f"throughput={text}").latency_weight == pytest.approx(1 - float(text))


@given(st.text(max_size=12))
def test_any_other_text_is_no_weight(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_weight(text)
    with pytest.raises(ConfigError):
        parse_weight(f"latency={text}x")


def test_an_objective_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("latency_weight: 0.9\n")
    assert (load_objective(str(path)).name, load_objective(str(path)).latency_weight) == (
        "mine", 0.9,
    )  # fmt: skip
    path.write_text("name: fast\n")
    with pytest.raises(ConfigError, match="latency_weight"):
        load_objective(str(path))
    path.write_text("latency_weight: .nan\n")
    with pytest.raises(ConfigError, match="latency_weight"):
        load_objective(str(path))
