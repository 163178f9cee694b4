"""Every format, read by what reads it, gives back exactly the words that were measured."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.versions import version
from autotune.errors import UsageError
from autotune.export import Recipe, render
from autotune.export.words import options_of
from tests.export.oracles import exec_argv, expanded, interpolated, merged, unit_words, values
from tests.export.test_export import recipe

PROGRAM = ("python3", "-m", "sglang.launch_server")
HOSTILE = (
    "", " ", "a b", "'", '"', "it's", 'say "hi"', "$HOME", "$", "$$", "${X}", "$(id)", "`id`", "%",
    "%n", "%%h", "100%", "a\nb", "\n", "a\tb", "#", "# no", "a #b", "ünïcode", "名前", "😀",
    "\u2028", "\x85", "\ufeff", "\x01", "\x7f", "yes", "No", "on", "off", "true", "False", "null",
    "Null", "~", "1", "1.0", "0x10", "0o17", "017", "1e3", "1_000", ".5", "12:30:00", "2024-01-01",
    "=", "a=b", "[1, 2]", "{a: 1}", '{"a": [1, "$x"]}', "*", "?", "&x", "!tag", "|", ">", "@a",
    "\\", "\\n", "a\\", "a;b", ";", "&&", "a|b", "(", "<x", "!", "!!", "-", "- a", "key: value",
    ": ", "nan", ".inf", "y", "n",
)  # fmt: skip
TEXT = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
)
TEXT = TEXT.filter(lambda text: "{flags}" not in text and "{port}" not in text)  # marks of autotune
SMALL = settings(max_examples=120)


def is_value(text: str) -> bool:
    """Whether argparse takes it for the value of the flag before it."""
    return not text.startswith("-")


FLAGS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["--chat-template", "--served-model-name", "--x-y"]),
                  TEXT.filter(is_value)),
        st.tuples(st.just("--json-model-override-args"), TEXT).map(lambda p: (f"{p[0]}={p[1]}",)),
        st.just(("--disable-radix-cache",)),
        st.just(("--cuda-graph-bs-decode", "1", "2", "8")),
    ),
    max_size=5,
)  # fmt: skip
WORDS = FLAGS.map(lambda flags: tuple(word for flag in flags for word in flag))
VARIABLES = st.dictionaries(st.sampled_from(["A", "SGLANG_X", "B2"]), TEXT, max_size=2)


def made(words: Sequence[str], environment: dict[str, str] | None = None) -> Recipe:
    prefix = ("env", *(f"{k}={v}" for k, v in environment.items())) if environment else ()
    argv = (*prefix, *PROGRAM, "--model-path", "a/model", "--host", "0.0.0.0", *words)
    command = LaunchCommand(argv, version("0.5.23"))
    base = LaunchCommand((*argv, "--speculative-num-steps", "9"), version("0.5.23"))
    return replace(recipe(), command=command, baseline=base)


def inner(made: Recipe) -> list[str]:
    """What runs, without the ``env`` before it."""
    return list(made.command.argv[made.command.argv.index(PROGRAM[0]) :])


def run_by(shell: str, script: str) -> list[str]:
    """The words a shell makes of a command: a function takes the place of its program."""
    told = subprocess.run(
        [shell, "-c", script], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    return [word.decode() for word in told.stdout.split(b"\0")[:-1]]


def shown(script: str) -> str:
    """The script with its command printed instead of run, a zero byte behind each word."""
    comments = [line for line in script.split("\n") if line.startswith("#")]
    body = script[sum(len(line) + 1 for line in comments) :]
    return f"printf '%s\\0' {body}"


@SMALL
@given(WORDS)
def test_the_shell_script_by_shlex(words: tuple[str, ...]) -> None:
    each = made(words)
    lines = render(each, "shell").split("\n")
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    text = "\n".join(lines[first:]).replace(" \\\n  ", " ")
    assert shlex.split(text) == list(each.command.argv)


@pytest.mark.parametrize("shell", ["bash", "sh"])
@pytest.mark.parametrize("format_name", ["shell", "docker"])
def test_the_scripts_by_a_shell(shell: str, format_name: str) -> None:
    words = [w for text in HOSTILE if is_value(text) for w in ("--x-y", text)]
    each = made(words, {"A": "a $b\n'c'"})
    script = render(each, format_name)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    told = run_by(shell, shown(script))
    if format_name == "shell":
        assert told == list(each.command.argv)
    else:
        image = told.index("lmsysorg/sglang:v0.5.23")
        assert told[image + 1 :] == inner(each)
        assert "A=a $b\n'c'" in told[:image]


@SMALL
@given(WORDS, VARIABLES)
def test_compose(words: tuple[str, ...], variables: dict[str, str]) -> None:
    each = made(words, variables)
    service = interpolated(yaml.safe_load(render(each, "compose")))["services"]["sglang"]
    assert service["command"] == inner(each)
    assert service.get("environment", {}) == variables


@SMALL
@given(WORDS, VARIABLES)
def test_kubernetes(words: tuple[str, ...], variables: dict[str, str]) -> None:
    each = made(words, variables)
    deployment, service = yaml.safe_load_all(render(each, "k8s"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    part = yaml.safe_load(render(each, "k8s-args"))
    for holder in (container, part):
        assert [expanded(word) for word in holder["args"]] == inner(each)
        told = {each["name"]: expanded(each["value"]) for each in holder.get("env", [])}
        assert told == variables
    assert service["kind"] == "Service"


@SMALL
@given(WORDS, VARIABLES)
def test_systemd(words: tuple[str, ...], variables: dict[str, str]) -> None:
    each = made(words, variables)
    try:
        unit = render(each, "systemd")
    except UsageError as error:
        assert "control characters" in error.message
        return
    assert exec_argv(unit) == inner(each)
    told = dict(unit_words(line)[0].split("=", 1) for line in values(unit, "Environment"))
    assert told == variables


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_itself_takes_the_unit(tmp_path: Path) -> None:
    words = [w for text in HOSTILE if is_value(text) for w in ("--x-y", text)]
    command = LaunchCommand(("/bin/true", *words))
    unit = tmp_path / "made.service"
    unit.write_text(render(replace(recipe(), command=command), "systemd"), encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert "made.service" not in done.stderr + done.stdout, done.stderr


@SMALL
@given(WORDS)
def test_sglangs_own_file(words: tuple[str, ...]) -> None:
    each = made(words)
    try:
        text = render(each, "yaml")
    except UsageError as error:
        assert "taken for a flag" in error.message
        assert any("=-" in word for word in words)
        return
    last: dict[str, list[str]] = {}
    for option in options_of(inner(each)[len(PROGRAM) :]):
        last.pop(option.head, None)
        last[option.head] = [option.head, *option.values]
    assert merged(text, {"disable-radix-cache"}) == [
        word for each in last.values() for word in each
    ]


@settings(max_examples=60)
@given(WORDS)
def test_the_difference_holds_both_commands(words: tuple[str, ...]) -> None:
    check_difference(made(words))


def test_the_difference_of_every_hostile_word() -> None:
    check_difference(made([w for text in HOSTILE if is_value(text) for w in ("--x-y", text)]))


def check_difference(each: Recipe) -> None:
    lines = render(each, "diff").split("+++ chosen\n")[1].split("\n")[:-1]
    assert each.baseline is not None
    for sign, command in (("+", each.command), ("-", each.baseline)):
        kept = " ".join(line[2:] for line in lines if line[0] in (" ", sign))
        assert run_by("bash", f"printf '%s\\0' {kept}") == list(command.argv)


@SMALL
@given(WORDS, VARIABLES)
def test_an_env_file_is_right_or_refused(words: tuple[str, ...], variables: dict[str, str]) -> None:
    each = made(words, variables)
    try:
        text = render(each, "env")
    except UsageError as error:
        assert "cannot hold" in error.message
        return
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    told = {line.split("=", 1)[0]: line.split("=", 1)[1] for line in lines}
    assert all(value[0] == value[-1] == "'" for value in told.values())
    plain = {name: value[1:-1] for name, value in told.items()}
    assert plain.pop("SGLANG_ARGS").split() == inner(each)[len(PROGRAM) :]
    assert plain == variables


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_an_env_file_by_a_shell(shell: str, tmp_path: Path) -> None:
    words = ("--x-y", "$HOME", "--chat-template", "{a:1}#%~é", "--x-y=!!;&|<>()")
    each = made(words)
    file = tmp_path / "made.env"
    file.write_text(render(each, "env"), encoding="utf-8")
    told = run_by(shell, f". {file}; printf '%s\\0' $SGLANG_ARGS")
    assert told == inner(each)[len(PROGRAM) :]


@pytest.mark.parametrize("word", ["a b", "", "it's", "a\nb", "*"])
def test_an_env_file_refuses_what_would_be_split(word: str) -> None:
    with pytest.raises(UsageError, match="split at blanks cannot hold the word"):
        render(made(("--x-y", word)), "env")


@SMALL
@given(WORDS)
def test_json(words: tuple[str, ...]) -> None:
    each = made(words)
    assert json.loads(render(each, "json"))["command"] == list(each.command.argv)


@pytest.mark.parametrize(
    ("word", "refused"), [("--lora-paths", "does not take"), ("--no-dllm-fdfo", "does not take")]
)
def test_the_file_of_sglang_refuses_what_its_merger_does(word: str, refused: str) -> None:
    with pytest.raises(UsageError, match=refused):
        render(made((word,)), "yaml")


def test_a_release_without_config_files_gets_none() -> None:
    each = made(())
    old = replace(each, command=each.command.for_version("0.5.2"))
    with pytest.raises(UsageError, match=r"--config came with SGLang 0\.5\.3"):
        render(old, "yaml")


def test_no_comment_can_hold_a_line_end() -> None:
    each = replace(made(()), provenance=("one\ntwo: $x \\", "three\u2028"))
    for name in ("shell", "yaml", "compose", "k8s", "systemd", "env", "docker", "diff"):
        first = render(each, name).split("\n")
        assert "# one two: $x" in first
        assert "# three" in first
