from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

import autotune.space.load
from autotune.errors import SpaceError
from autotune.space import (
    Choice,
    DecimalRange,
    IntegerRange,
    SearchSpace,
    Switch,
    load_space,
    space_names,
)

FORMS = "{low: 1, high: 8}, {choices: [1, 2, 4]} or {switch: true}"

EVERY_KIND = """\
# a space of the user
name: mine
title: Everything
parameters:
  chunked_prefill_size: {choices: [2048, 4096, 8192]}
  schedule_conservativeness: {low: 0.3, high: 1.3, step: 0.1}
  attention_backend: {choices: [fa3, flashinfer]}
  max_running_requests:
    low: 16
    high: 64
    step: 16
  disable_overlap_schedule: {switch: true}
  mem_fraction_static: {low: 0.60, high: 0.95, step: 0.01}
fixed:
  page_size: 1
  disable_radix_cache: true
  kv_cache_dtype: fp8_e4m3
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``x.yaml`` in the current directory, to be written by the test."""
    monkeypatch.chdir(tmp_path)
    return Path("x.yaml")


def test_reads_every_kind_of_parameter(write: Path) -> None:
    write.write_text(EVERY_KIND)
    assert load_space("x.yaml") == SearchSpace(
        "mine",
        "Everything",
        {
            "chunked_prefill_size": Choice((2048, 4096, 8192)),
            "schedule_conservativeness": DecimalRange(0.3, 1.3, 0.1),
            "attention_backend": Choice(("fa3", "flashinfer")),
            "max_running_requests": IntegerRange(16, 64, 16),
            "disable_overlap_schedule": Switch(),
            "mem_fraction_static": DecimalRange(0.6, 0.95, 0.01),
        },
        {"page_size": 1, "disable_radix_cache": True, "kv_cache_dtype": "fp8_e4m3"},
    )


def test_literals_tell_whole_numbers_from_decimals(write: Path) -> None:
    write.write_text("parameters:\n  a: {low: 0, high: 2}\n  b: {low: 0, high: 2, step: 0.5}\n")
    assert load_space(write).parameters == {"a": IntegerRange(0, 2), "b": DecimalRange(0, 2, 0.5)}


def test_name_title_and_fixed_may_be_left_out(write: Path) -> None:
    for fixed in ("", "fixed:\n", "fixed: {}\n"):
        write.write_text("parameters: {page_size: {choices: [1, 64]}}\n" + fixed)
        space = load_space(write)
        assert (space.name, space.title, space.fixed) == ("x", "", {})


@pytest.mark.parametrize("name", space_names())
def test_shipped_spaces_are_found_by_name_and_explain_themselves(name: str) -> None:
    space = load_space(name)
    path = Path(__file__).parents[2] / "search_spaces" / f"{name}.yaml"
    assert space == load_space(path) == load_space(str(path))
    assert space.name == name
    assert space.title
    assert path.read_text().startswith("# ")


def test_shipped_spaces_are_found_inside_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Path(__file__).parents[2] / "search_spaces"
    copytree(source, tmp_path / "autotune" / "search_spaces")
    (tmp_path / "autotune" / "search_spaces" / "extra.yaml").write_text(EVERY_KIND)
    installed = tmp_path / "autotune" / "space" / "load.py"
    monkeypatch.setattr(autotune.space.load, "__file__", str(installed))
    assert space_names() == ("extra", "speculative", "steps-only")
    assert load_space("extra").name == "mine"


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SpaceError) as raised:
        load_space("speculatve")
    assert raised.value.message == (
        "there is no search space named 'speculatve': did you mean 'speculative'?"
    )
    assert raised.value.hint == "a file works too: a path that ends in .yaml"
    with pytest.raises(SpaceError, match="known: speculative, steps-only"):
        load_space("")


@pytest.mark.parametrize("path", ["none.yaml", "./none", "dir/none.yml"])
def test_a_path_is_read_as_a_path(path: str) -> None:
    with pytest.raises(SpaceError, match="there is no such file"):
        load_space(path)


def test_files_that_are_no_yaml_are_refused(write: Path, tmp_path: Path) -> None:
    for text, message in (
        ("", "x.yaml is empty: a search space needs 'parameters'"),
        ("# nothing\n", "x.yaml is empty: a search space needs 'parameters'"),
        ("- a\n", "x.yaml, line 1: a search space must be a mapping (key: value), not a list"),
        ("just words", "x.yaml, line 1: a search space must be a mapping (key: value), "
                       "not 'just words'"),
        ("name: [\n", "x.yaml, line 2: not valid YAML: expected the node content, "
                      "but found '<stream end>'"),
    ):  # fmt: skip
        write.write_text(text)
        with pytest.raises(SpaceError) as raised:
            load_space(write)
        assert raised.value.message == message
    with pytest.raises(SpaceError, match="is a directory"):
        load_space(tmp_path)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name: x\n", 1, "a search space needs 'parameters'"),
        ("name: x\nparametres: {}\n", 2,
         "a search space has no key 'parametres': did you mean 'parameters'?"),
        ("name: 3\nparameters: {a: {low: 1, high: 2}}\n", 1, "name must be a text, not 3"),
        ("name: x\ntitle: ''\nparameters: {a: {low: 1, high: 2}}\n", 2,
         "title must be a text, not ''"),
        ("parameters: [a, b]\n", 1, "parameters must be a mapping (key: value), not a list"),
        ("name: x\nparameters:\n", 2, "parameters must be a mapping (key: value), not nothing"),
        ("name: x\nparameters: {}\n", 2,
         "no flag is searched: give at least one under 'parameters'"),
        ("parameters:\n  a: {low: 1, high: 2}\nfixed: 3\n", 3,
         "fixed must be a mapping (key: value), not 3"),
        ("parameters:\n  a: {low: 1, high: 2}\nfixed:\n  b: [1]\n", 4,
         "b must be fixed at one value, not a list"),
        ("parameters:\n  a: {low: 1, high: 2}\nfixed:\n  b:\n", 4,
         "b must be fixed at one value, not nothing"),
        ("parameters:\n  a: {low: 1, high: 2}\nfixed:\n  a: 1\n", 4,
         "a is both searched and fixed: keep one"),
        ("parameters:\n  a: {low: 1, high: 2}\n  a: {low: 1, high: 3}\n", 3,
         "'a' is given twice, first on line 2"),
        ("parameters:\n  a:\n    low: 1\n    high: 2\n    low: 0\n", 5,
         "'low' is given twice, first on line 3"),
    ],
)  # fmt: skip
def test_says_what_is_wrong_with_the_file(write: Path, text: str, line: int, message: str) -> None:
    write.write_text(text)
    with pytest.raises(SpaceError) as raised:
        load_space(write)
    assert raised.value.message == f"x.yaml, line {line}: {message}"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("a: 3", f"a must be {FORMS}, not 3"),
        ("a: [1, 2]", f"a must be {FORMS}, not a list"),
        ("a:", f"a must be {FORMS}, not nothing"),
        ("a: {}", f"a must be one of {FORMS}"),
        ("a: {low: 1, choices: [1]}", f"a must be one of {FORMS}"),
        ("a: {choices: [1], switch: true}", f"a must be one of {FORMS}"),
        ("a: {low: 1, hgih: 2}", "a has no key 'hgih': did you mean 'high'?"),
        ("a: {choice: [1]}", "a has no key 'choice': did you mean 'choices'?"),
        ("a: {low: 1}", "a has no 'high'"),
        ("a: {high: 1, step: 1}", "a has no 'low'"),
        ("a: {low: 8, high: 1}", "a: low 8 is above high 1"),
        ("a: {low: 0.9, high: 0.6, step: 0.1}", "a: low 0.9 is above high 0.6"),
        ("a: {low: 0.6, high: 0.9}", "a has decimals, so it needs a step, such as 'step: 0.01'"),
        ("a: {low: 0.6, high: 0.9, step: 0}", "a: step 0.0 must be above 0"),
        ("a: {low: 0.6, high: .inf, step: 0.1}", "a: low, high and step must be finite numbers"),
        ("a: {low: 1, high: 8, step: 3}",
         "a: steps of 3 from low 1 do not meet high 8: the last one is 7"),
        ("a: {low: one, high: 8}", "a: low must be a number, not 'one'"),
        ("a: {low: true, high: 8}", "a: low must be a number, not true"),
        ("a: {low: 1e-3, high: 0.1, step: 0.001}", "a: low must be a number, not '1e-3'"),
        ("a: {choices: []}", "a: choices is empty"),
        ("a: {choices: 3}", "a: choices must be a list [a, b, ...], not 3"),
        ("a: {choices: [1, 1]}", "a: 1 is given twice in choices"),
        ("a: {choices: [on, off]}",
         "a: true and false are not choices: write 'switch: true'"),
        ("a: {choices: [1, ~]}", "a: a choice must be a number or a text, not nothing"),
        ("a: {switch: false}", "a: switch must be true; to pin a flag use 'fixed'"),
        ("a: {switch: 1}", "a: switch must be true; to pin a flag use 'fixed'"),
        ("page-size: {choices: [1, 64]}", "write 'page-size' with underscores: page_size"),
        ("--page-size: {choices: [1]}", "write '--page-size' with underscores: page_size"),
        ("Page: {choices: [1, 64]}",
         "'Page' is not a flag name: lower-case letters, digits and underscores"),
        ("mem_fraction_statik: {low: 0.6, high: 0.9, step: 0.1}",
         "there is no flag 'mem_fraction_statik': did you mean 'mem_fraction_static'?"),
        ("mem_fraction_static: {low: 60, high: 95}",
         "mem_fraction_static goes from 0.01 to 0.99, and 60 is outside"),
        ("speculative_num_steps: {low: 1, high: 5}",
         "speculative_num_steps needs speculative_eagle_topk beside it, searched or fixed: "
         "SGLang takes all or none"),
    ],
)  # fmt: skip
def test_says_what_is_wrong_with_a_parameter(write: Path, entry: str, message: str) -> None:
    write.write_text(f"name: x\n\nparameters:\n  page_size_2: {{choices: [1, 64]}}\n  {entry}\n")
    with pytest.raises(SpaceError) as raised:
        load_space(write)
    assert raised.value.message == f"x.yaml, line 5: {message}"


def test_a_space_without_a_legal_configuration_is_refused_at_the_flag_to_change(
    write: Path,
) -> None:
    write.write_text(
        "parameters:\n"
        "  speculative_num_steps: {low: 1, high: 3}\n"
        "  speculative_num_draft_tokens: {low: 16, high: 32}\n"
        "fixed:\n"
        "  speculative_eagle_topk: 1\n"
    )
    with pytest.raises(SpaceError) as raised:
        load_space(write)
    assert raised.value.message == (
        "x.yaml, line 3: no configuration is legal with speculative_eagle_topk 1: it takes 2 to 4 "
        "draft tokens, and speculative_num_draft_tokens allows 16 to 32"
    )
