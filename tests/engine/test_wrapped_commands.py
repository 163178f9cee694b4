"""Launch commands as people really have them: wrappers, containers, scripts, SGLang's --config."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.trial import FlagValue
from autotune.engine.sglang.command import MASK, LaunchCommand
from autotune.engine.sglang.placement import Placement
from autotune.engine.sglang.shell import simple_commands
from autotune.errors import UsageError

TREE: dict[str, FlagValue] = {
    "speculative_num_steps": 5,
    "speculative_eagle_topk": 4,
    "speculative_num_draft_tokens": 8,
}
TREE_WORDS = (
    "--speculative-num-steps", "5", "--speculative-eagle-topk", "4",
    "--speculative-num-draft-tokens", "8",
)  # fmt: skip

SERVER = st.sampled_from(
    [
        ("python", "-m", "sglang.launch_server"),
        ("/opt/venv/bin/python3.11", "-u", "-m", "sglang.launch_server"),
        ("sglang", "serve"),
        ("/usr/local/bin/sglang", "serve"),
    ]
)
WRAPPER = st.sampled_from(
    [
        (),
        ("env", "CUDA_VISIBLE_DEVICES=0,1", "NCCL_DEBUG=WARN"),
        ("numactl", "--cpunodebind=0", "--membind", "0"),
        ("uv", "run", "--python", "3.11"),
        ("conda", "run", "-n", "sglang", "--no-capture-output"),
        ("docker", "run", "--rm", "--gpus", "all", "--shm-size", "32g", "--ipc=host",
         "--network", "host", "-v", "/data:/data", "lmsysorg/sglang:v0.5.10-cu126"),
        ("podman", "run", "-it", "-p", "8080:30000", "docker.io/lmsysorg/sglang:latest"),
    ]
)  # fmt: skip
FLAGS = st.lists(
    st.sampled_from(
        [
            ("--model-path", "org/model"),
            ("--model-path", "my model"),
            ("--tp=4",),
            ("--trust-remote-code",),
            ("--json-model-override-args", '{"a": "it\'s $5"}'),
            ("--speculative-num-steps", "3"),
            ("--speculative-num-steps=2",),
            ("--speculative-eagle-topk", "1"),
            ("--speculative-num-draft-tokens=4",),
            ("--speculative-draft-model", "draft"),
            ("--mem-frac", "0.8"),
        ]
    ),
    max_size=8,
)
BEFORE = st.sampled_from(["", "cd /srv && ", "source v/bin/activate; ", "set -e\nexport A='b c'\n"])
AFTER = st.sampled_from(["", " 2>&1 | tee log.txt", " > out.log 2>&1 &", "  # done"])
PREFIX = st.sampled_from(["", "exec ", "HF_HOME=/x exec ", 'A="$B" '])


@st.composite
def commands(draw: st.DrawFn) -> LaunchCommand:
    """A server under a wrapper: its words, or a shell string around them, even twice."""
    wrapper = draw(WRAPPER)
    words = [*draw(SERVER), *(word for flag in draw(FLAGS) for word in flag)]
    shells = draw(st.integers(0, 2))
    for _ in range(shells):
        script = draw(BEFORE) + draw(PREFIX) + shlex.join(words) + draw(AFTER)
        words = [draw(st.sampled_from(["bash", "/bin/sh"])), draw(st.sampled_from(["-c", "-lc"]))]
        words.append(script)
    return LaunchCommand.parse([*wrapper, *words])


wanted_flags = st.fixed_dictionaries(
    {name: st.integers(1, 9) for name in TREE},
    optional={
        "mem_fraction_static": st.sampled_from([0.8, 0.85]),
        "disable_radix_cache": st.just(True),
        "attention_backend": st.sampled_from(["fa3", "a b", "it's"]),
    },
)


@given(commands(), wanted_flags)
def test_flags_are_merged_under_any_wrapper(
    command: LaunchCommand, wanted: dict[str, FlagValue]
) -> None:
    changed = command.with_flags(wanted)
    assert changed.flags(wanted) == wanted
    assert changed.with_flags(wanted) == changed
    again = LaunchCommand.parse(shlex.split(changed.shell(multiline=False)))
    assert again == changed
    assert again.flags(wanted) == wanted


@given(commands(), wanted_flags)
def test_everything_else_keeps_its_order(
    command: LaunchCommand, wanted: dict[str, FlagValue]
) -> None:
    changed = command.with_flags(wanted)
    assert changed.without(wanted) == command.without(wanted)
    assert (
        len(changed.argv) == len(command.argv) or Placement.of(command.argv).words == command.argv
    )
    rest = iter(Placement.of(changed.argv).words)
    assert all(word in rest for word in Placement.of(command.without(wanted).argv).words)


@given(commands())
def test_no_change_changes_no_byte(command: LaunchCommand) -> None:
    assert command.with_flags({}) == command
    assert command.with_words(()).argv == command.argv
    assert command.with_flags(command.flags(TREE)).flags() == command.flags()


quoted = st.text("ab \t\"'\\$`;&|<>()*?#~!{}=-\n", min_size=1, max_size=8)


@settings(max_examples=25)
@given(st.lists(quoted, min_size=1, max_size=5), st.sampled_from(["shlex", "double"]))
def test_words_are_read_as_bash_reads_them(words: list[str], style: str) -> None:
    def double(word: str) -> str:
        return '"' + "".join(f"\\{c}" if c in '"\\$`' else c for c in word) + '"'

    text = " ".join(double(word) if style == "double" else shlex.quote(word) for word in words)
    script = f"cd / && printf '%s\\0' {text} 2> /dev/null # {words[0].splitlines()[0]}"
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said.split("\0")[:-1] == words
    assert [word.text for word in simple_commands(script)[1]] == ["printf", r"%s\0", *words]


def test_a_changed_script_still_does_what_it_did(tmp_path: Path) -> None:
    stub = tmp_path / "sglang"
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    script = 'cd / && M="a b" && export M; sglang serve --model-path "$M" --speculative-num-steps 1'
    command = LaunchCommand.parse(["bash", "-c", f"{script} 2>&1 | tr a-z A-Z"])
    changed = command.with_flags(TREE | {"served_model_name": "it's"})
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    said = subprocess.run(changed.argv, capture_output=True, text=True, check=True, env=env).stdout
    expected = ("serve", "--model-path", "a b", *TREE_WORDS, "--served-model-name", "it's")
    assert said.splitlines() == [word.upper() for word in expected]


def test_the_words_of_a_real_docker_command() -> None:
    script = "pip install x && python3 -m sglang.launch_server --model-path M --port 30000"
    words = ["docker", "run", "--gpus", "all", "-p", "30000:30000", "--env", "HF_TOKEN=tok-four",
             "lmsysorg/sglang:v0.5.10", "bash", "-c", script]  # fmt: skip
    command = LaunchCommand.parse(words)
    changed = command.with_flags(TREE).with_port(31000)
    assert changed.argv[:10] == (*words[:5], "31000:31000", *words[6:10])
    assert changed.argv[-1] == (
        "pip install x && python3 -m sglang.launch_server --model-path M --port 31000 "
        f"{' '.join(TREE_WORDS)} --host 0.0.0.0"
    )
    assert command.secrets() == ("tok-four",)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("-p 8080:30000", "-p 31000:31000"),
        ("-p=127.0.0.1:8080:30000", "-p=127.0.0.1:31000:31000"),
        ("--publish 8080:30000/tcp", "--publish 31000:31000"),
        ("-p 9090:9090 --rm", "-p 127.0.0.1:31000:31000 -p 9090:9090 --rm"),
        ("--rm", "-p 127.0.0.1:31000:31000 --rm"),
        ("--net=host", "--net=host"),
        ("--network host", "--network host"),
    ],
)
def test_a_container_publishes_the_port_of_the_trial(options: str, expected: str) -> None:
    words = f"docker run {options} my/sglang:x sglang serve --model-path M".split()
    argv = LaunchCommand.parse(words).with_port(31000).argv
    assert " ".join(argv[: argv.index("my/sglang:x")]) == f"docker run {expected}"
    host = "127.0.0.1" if "host" in options else "0.0.0.0"
    assert argv[-4:] == ("--port", "31000", "--host", host)


def test_words_of_docker_are_not_taken_for_words_of_the_server() -> None:
    words = "docker run --host-x 1 --memory 3g -e A=b own/image --model-path M --tp 2".split()
    command = LaunchCommand.parse(words)
    assert command.flags() == {"model_path": "M", "tp_size": 2}
    assert not command.shows_flags


def test_an_entrypoint_that_is_a_shell() -> None:
    words = ["docker", "run", "--entrypoint", "bash", "lmsysorg/sglang:latest", "-lc"]
    command = LaunchCommand.parse([*words, "exec sglang serve --speculative-num-steps 1"])
    assert command.flags(TREE) == {"speculative_num_steps": 1}
    assert command.with_flags(TREE).argv[-1] == f"exec sglang serve {' '.join(TREE_WORDS)}"


@given(wanted_flags)
def test_a_script_that_hands_on_the_words_behind_it(wanted: dict[str, FlagValue]) -> None:
    script = 'source env.sh; exec sglang serve --model-path M "$@"'
    tail = ("--speculative-num-steps=1", "--tp", "2")
    command = LaunchCommand.parse(["bash", "-c", script, "serve", *tail])
    assert command.flags() == {"speculative_num_steps": 1, "tp_size": 2}
    changed = command.with_flags(wanted)
    assert changed.argv[:4] == command.argv[:4]
    assert changed.flags(wanted) == wanted
    assert changed.with_flags(wanted) == changed
    assert changed.without(wanted) == command.without(wanted)


def test_variables_before_the_program_need_no_shell() -> None:
    command = LaunchCommand.parse(["CUDA_VISIBLE_DEVICES=1 sglang serve --model-path M"])
    assert command.argv[:3] == ("env", "CUDA_VISIBLE_DEVICES=1", "sglang")


# ---- placeholders ---------------------------------------------------------------------------


def test_a_wrapper_script_gets_flags_and_port_where_it_wants_them() -> None:
    command = LaunchCommand.parse(["./serve.sh --quiet {flags} --port={port} -- tail"])
    launched = command.with_flags(TREE).with_port(31000).with_words(["--x"]).filled()
    assert launched.argv == (
        "./serve.sh", "--quiet", *TREE_WORDS, "--x", "--port=31000", "--", "tail",
    )  # fmt: skip
    assert command.filled().argv == ("./serve.sh", "--quiet", "--port=30000", "--", "tail")
    assert not command.shows_flags
    assert command.flags() == {}


def test_placeholders_inside_a_script() -> None:
    command = LaunchCommand.parse(["bash", "-c", "PORT={port} ./serve.sh {flags} > log; sync"])
    launched = command.with_flags(TREE).with_flags(TREE).with_port(31000).filled()
    assert launched.argv[-1] == f"PORT=31000 ./serve.sh {' '.join(TREE_WORDS)} > log; sync"


@given(wanted_flags)
def test_merging_into_placeholders_is_idempotent(wanted: dict[str, FlagValue]) -> None:
    command = LaunchCommand.parse(["./serve.sh", "{flags}", "{port}"])
    changed = command.with_flags(wanted)
    assert changed.with_flags(wanted) == changed
    assert changed.flags(wanted) == wanted
    assert changed.without(wanted) == command


# ---- SGLang's own --config ------------------------------------------------------------------

CONFIG = """\
model-path: org/model
speculative-num-steps: 3
speculative-eagle-topk: 1
speculative-num-draft-tokens: 4
mem-fraction-static: 0.8
enable-metrics: true
disable-radix-cache: false
api-key: s3cr3t-k3y
cuda-graph-bs: [1, 2]
"""


def config(tmp_path: Path, text: str = CONFIG) -> Path:
    path = tmp_path / "server.yaml"
    path.write_text(text)
    return path


def test_the_file_is_the_baseline_and_the_command_line_wins(tmp_path: Path) -> None:
    base = ["sglang", "serve", "--config", str(config(tmp_path)), "--mem-fraction-static", "0.9"]
    command = LaunchCommand.parse(base)
    assert command.flags() == {
        "model_path": "org/model",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
        "mem_fraction_static": 0.9,
        "enable_metrics": True,
    }
    changed = command.with_flags(TREE)
    assert changed.argv == (*base, *TREE_WORDS)
    assert changed.flags(TREE) == TREE
    assert command.api_key == "s3cr3t-k3y"
    assert command.secrets() == ("s3cr3t-k3y",)


def test_a_joined_config_word_is_not_merged_as_sglang_does_not(tmp_path: Path) -> None:
    command = LaunchCommand.parse(["sglang", "serve", f"--config={config(tmp_path)}"])
    assert command.flags() == {}


def test_a_switch_of_the_file_cannot_be_taken_back(tmp_path: Path) -> None:
    command = LaunchCommand.parse(["sglang", "serve", "--config", str(config(tmp_path))])
    assert command.with_flags({"disable_radix_cache": False}) == command
    with pytest.raises(UsageError, match="sets --enable-metrics"):
        command.with_flags({"enable_metrics": False})


@pytest.mark.parametrize(
    ("text", "words"),
    [("- a\n", "must hold a mapping"), ("a: [", "is not valid YAML"), (None, "cannot be read")],
)
def test_a_file_that_sglang_would_refuse_is_refused(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = config(tmp_path, text) if text else tmp_path / "absent.yaml"
    command = LaunchCommand.parse(["sglang", "serve", "--config", str(path)])
    with pytest.raises(UsageError, match=words):
        command.flags()
    assert command.secrets() == ()  # a log is still scrubbed of what is known


def test_a_file_that_a_script_names_is_read_where_it_is_certain(tmp_path: Path) -> None:
    path = config(tmp_path)

    def flags(script: str) -> dict[str, FlagValue]:
        return LaunchCommand.parse(["bash", "-c", script]).flags(["mem_fraction_static"])

    assert flags(f"cd / && sglang serve --config {path}") == {"mem_fraction_static": 0.8}
    assert flags("cd / && sglang serve --config server.yaml") == {}
    assert flags('sglang serve --config "$FILE"') == {}


def test_a_file_inside_a_container_is_not_looked_for_here() -> None:
    words = "docker run lmsysorg/sglang:latest sglang serve --config /in/there.yaml".split()
    assert LaunchCommand.parse(words).flags() == {}


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    command = LaunchCommand.parse(["sglang", "serve", "--config", str(config(tmp_path, "# \n"))])
    assert command.flags() == {}


# ---- secrets --------------------------------------------------------------------------------


def test_secrets_inside_a_script_are_masked() -> None:
    script = "HF_TOKEN='tok-four' OPENAI_API_KEY=k-five; sglang serve --api-key k-one --tp 2"
    command = LaunchCommand.parse(["bash", "-c", script])
    assert set(command.secrets()) == {"tok-four", "k-five", "k-one"}
    assert command.redacted().argv[-1] == (
        f"HF_TOKEN={MASK} OPENAI_API_KEY={MASK}; sglang serve --api-key {MASK} --tp 2"
    )
    assert command.redacted().secrets() == ()
