from __future__ import annotations

import argparse
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trial import FlagValue
from autotune.engine.sglang.command import MASK, LaunchCommand
from autotune.engine.sglang.flags import known_flags, secret_flags, spec_of
from autotune.errors import UsageError

BASE = ("python", "-m", "sglang.launch_server", "--model-path", "M", "--tp", "4")

_SEARCHED: dict[str, st.SearchStrategy[FlagValue]] = {
    "speculative_num_steps": st.integers(1, 10),
    "speculative_eagle_topk": st.sampled_from([1, 2, 4, 8]),
    "speculative_num_draft_tokens": st.integers(2, 64),
    "mem_fraction_static": st.floats(0.3, 0.98).map(lambda value: round(value, 3)),
    "max_running_requests": st.integers(1, 512),
    "chunked_prefill_size": st.sampled_from([-1, 2048, 8192]),
    "attention_backend": st.sampled_from(["fa3", "triton"]),
    "disable_overlap_schedule": st.just(True),
    "some_new_flag": st.one_of(st.integers(), st.sampled_from(["x", "1_0", "a b"]), st.just(True)),
}
_ALL_SPELLINGS = {
    "speculative_num_steps": ("--speculative-num-steps", "--speculative-num-s"),
    "mem_fraction_static": ("--mem-fraction-static", "--mem-frac", "--mem"),
    "max_running_requests": ("--max-running-requests", "--max-run"),
    "tp_size": ("--tp-size", "--tp", "--tensor-parallel-size", "--tp-s"),
    "speculative_draft_model_path": (
        "--speculative-draft-model-path",
        "--speculative-draft-model",
        "--speculative-draft-model-p",
    ),
    "speculative_algorithm": ("--speculative-algorithm", "--speculative-algo"),
    "port": ("--port", "--po"),
    "host": ("--host", "--ho"),
}
_OTHER_WORDS = st.lists(
    st.sampled_from(
        ["--trust-remote-code", "--dtype auto", "--kv-events-config {}", "--dtype=half"]
    ),
    max_size=4,
).map(lambda groups: [word for group in groups for word in group.split(" ")])

flags = st.dictionaries(st.sampled_from(sorted(_SEARCHED)), st.none(), max_size=6).flatmap(
    lambda names: st.fixed_dictionaries({name: _SEARCHED[name] for name in names})
)


@st.composite
def commands(draw: st.DrawFn) -> LaunchCommand:
    """Words of other flags, and some searched flags in any of their forms, even repeated."""
    words = [*BASE[:3], *draw(_OTHER_WORDS)]
    for name in draw(st.lists(st.sampled_from(["speculative_num_steps", "mem_fraction_static"]))):
        spelling = draw(st.sampled_from(_ALL_SPELLINGS[name]))
        value = str(draw(_SEARCHED[name]))
        words += draw(st.sampled_from([[spelling, value], [f"{spelling}={value}"]]))
        words += draw(_OTHER_WORDS)
    return LaunchCommand.parse(words)


@given(commands(), flags)
def test_flags_given_to_a_command_are_read_back_from_it(
    command: LaunchCommand, wanted: dict[str, FlagValue]
) -> None:
    changed = command.with_flags(wanted)
    assert changed.flags(wanted) == wanted
    assert changed.with_flags(wanted) == changed


@given(commands(), flags)
def test_every_other_word_keeps_its_place_and_form(
    command: LaunchCommand, wanted: dict[str, FlagValue]
) -> None:
    managed = ["speculative_num_steps", "mem_fraction_static", *wanted]
    others = command.without(managed).argv
    assert command.with_flags(wanted).without(managed).argv == others
    remaining = iter(command.argv)
    assert all(word in remaining for word in others)


@given(commands(), flags)
def test_the_shell_form_gives_the_same_words_back(
    command: LaunchCommand, wanted: dict[str, FlagValue]
) -> None:
    changed = command.with_flags(wanted)
    assert tuple(shlex.split(changed.shell(multiline=False))) == changed.argv
    assert tuple(shlex.split(changed.shell().replace("\\\n", " "))) == changed.argv


@given(commands())
def test_it_reads_what_argparse_reads(command: LaunchCommand) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--speculative-num-steps", type=int)
    parser.add_argument("--mem-fraction-static", type=float)
    read, _ = parser.parse_known_args(command.argv[3:])
    expected = {name: value for name, value in vars(read).items() if value is not None}
    assert command.flags(["speculative_num_steps", "mem_fraction_static"]) == expected


@pytest.mark.parametrize(
    ("name", "spelling"), [(name, each) for name, all_ in _ALL_SPELLINGS.items() for each in all_]
)
@pytest.mark.parametrize("form", ["{} 7", "{}=7"])
def test_every_spelling_is_understood_and_kept(name: str, spelling: str, form: str) -> None:
    command = LaunchCommand.parse([*BASE[:3], *form.format(spelling).split(" ")])
    value = spec_of(name).value_of("7")
    assert command.flags() == {name: value}
    new = spec_of(name).value_of("9")
    assert " ".join(command.with_flags({name: new}).argv[3:]) == form.format(spelling).replace(
        "7", str(new)
    )


def test_the_last_of_repeated_flags_counts_and_all_are_replaced() -> None:
    command = LaunchCommand.parse([*BASE, "--page-size", "1", "--dtype", "auto", "--page-size=64"])
    assert command.flags(["page_size"]) == {"page_size": 64}
    changed = command.with_flags({"page_size": 16})
    assert changed.argv == (*BASE, "--page-size", "16", "--dtype", "auto", "--page-size=16")


def test_a_longer_flag_with_the_same_beginning_is_another_flag() -> None:
    words = (*BASE, "--speculative-adaptive-config", "a.json", "--log-level-http", "error")
    command = LaunchCommand.parse(words)
    assert "speculative_adaptive" not in command.flags()
    assert "log_level" not in command.flags()
    assert command.without(["speculative_adaptive", "log_level"]).argv == words


def test_switches_come_and_go_without_a_value() -> None:
    command = LaunchCommand.parse([*BASE, "--disable-radix-cache"])
    assert command.flags(["disable_radix_cache"]) == {"disable_radix_cache": True}
    assert command.with_flags({"disable_radix_cache": True}) == command
    assert command.with_flags({"disable_radix_cache": False}).argv == BASE
    assert command.with_flags({"enable_mixed_chunk": True}).argv[-1] == "--enable-mixed-chunk"


def test_both_names_of_the_graph_limit_are_one_flag() -> None:
    command = LaunchCommand.parse([*BASE, "--cuda-graph-max-bs-decode", "32"])
    assert command.flags(["cuda_graph_max_bs"]) == {"cuda_graph_max_bs": 32}
    assert command.with_flags({"cuda_graph_max_bs": 16}).argv[-2:] == (
        "--cuda-graph-max-bs-decode",
        "16",
    )
    appended = LaunchCommand(BASE).with_flags({"cuda_graph_max_bs_decode": 16})
    assert appended.argv[-2:] == ("--cuda-graph-max-bs-decode", "16")


def test_a_negative_number_is_a_value_and_a_dashed_word_needs_an_equals_sign() -> None:
    command = LaunchCommand(BASE).with_flags(
        {"chunked_prefill_size": -1, "served_model_name": "-x"}
    )
    assert command.argv[-3:] == ("--chunked-prefill-size", "-1", "--served-model-name=-x")


def test_the_port_is_set_and_an_address_given_by_the_user_stays() -> None:
    assert LaunchCommand(BASE).with_port(31000).argv[len(BASE) :] == (
        "--port", "31000", "--host", "127.0.0.1",
    )  # fmt: skip
    given = LaunchCommand.parse([*BASE, "--host=0.0.0.0", "--port", "30000"]).with_port(31000)
    assert given.argv[len(BASE) :] == ("--host=0.0.0.0", "--port", "31000")


def test_words_of_a_wrapper_are_not_taken_for_flags_of_the_server() -> None:
    wrapper = ("numa", "--port", "1", "python", "-m", "sglang.launch_server")
    command = LaunchCommand.parse([*wrapper, "--port", "30000"])
    assert command.with_port(31000).argv[:6] == wrapper
    assert command.flags(["port"]) == {"port": 30000}


def test_one_quoted_word_is_split_as_a_shell_would() -> None:
    command = LaunchCommand.parse(["python -m sglang.launch_server --model-path 'my model'"])
    assert command.argv[-1] == "my model"


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "is empty"),
        ([""], "is empty"),
        (["bash", "-c", "./serve.sh --tp 4"], "names no SGLang server"),
        (["/bin/sh", "-c", "x"], "names no SGLang server"),
        (["bash", "-c", "sglang serve 'x"], "' is not closed"),
        (["./serve.sh", "--args={flags}"], "a word of its own"),
        (["sglang serve 'x"], "not valid shell"),
    ],
)
def test_a_command_that_cannot_be_changed_is_refused(argv: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LaunchCommand.parse(argv)


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        (("--mem-fraction-static", "high"), "needs a number, not 'high'"),
        (("--speculative-num-steps", "3.5"), "needs a whole number, not '3.5'"),
        (("--speculative-num-steps",), "has no value"),
        (("--speculative-num-steps", "--tp"), "has no value"),
    ],
)
def test_a_flag_with_an_impossible_value_is_named(flag: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        LaunchCommand(("sglang", "serve", *flag)).flags()


def test_the_shell_form_puts_one_flag_on_a_line() -> None:
    assert LaunchCommand((*BASE, "--chat-template", "a b", "--enable-metrics")).shell() == (
        "python -m sglang.launch_server \\\n  --model-path M \\\n  --tp 4 \\\n"
        "  --chat-template 'a b' \\\n  --enable-metrics"
    )


def test_secrets_are_masked_in_every_form() -> None:
    secrets = ("k-one", "k-two", "k-three", "tok-four", "hf_abcdefghijklmnopqrst")
    command = LaunchCommand.parse(
        ["env", "HF_TOKEN=tok-four", "python", "-m", "sglang.launch_server", "--api-key", "k-one",
         "--admin-api-key=k-two", "--api", "k-three", "--revision", "hf_abcdefghijklmnopqrst",
         "--speculative-token-map", "map.pt", "--max-total-tokens=5000"]
    )  # fmt: skip
    shown = command.redacted().shell()
    assert not any(secret in shown for secret in secrets)
    assert shown.count(MASK) == 5
    assert "map.pt" in shown and "5000" in shown
    assert set(command.secrets()) == set(secrets)
    assert command.redacted().secrets() == ()
    assert "api_key" not in command.flags()
    assert command.api_key == "k-three"


def test_spellings_of_the_table_are_not_ambiguous() -> None:
    every = [spelling for spec in known_flags() for spelling in spec.spellings]
    assert len(every) == len(set(every))
    assert set(secret_flags()) <= set(known_flags())
    for spec in known_flags():
        assert spec.spellings[0].startswith(spec.shortest)
        readers = [other.name for other in known_flags() if other.is_spelled(spec.spellings[0])]
        assert readers == [spec.name]
