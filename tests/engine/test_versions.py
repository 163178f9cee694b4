from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version as PipVersion

from autotune.core.objective import PRESETS
from autotune.core.trial import FlagValue, Interval, TrialRecord
from autotune.engine.local import LocalEngine
from autotune.engine.sglang import versions
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.versions import SPELLINGS, Version, in_force, version, why_missing
from autotune.errors import UsageError
from autotune.export import choose, recipe_for, render
from autotune.study.config import RunConfig
from autotune.study.reading import StudyView

RELEASES = ("0.4.6.post5", "0.5.3", "0.5.10", "0.5.14", "0.5.20", "0.5.23")
BASE = ("python", "-m", "sglang.launch_server", "--model-path", "M")
TREE: dict[str, FlagValue] = {
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 4,
    "speculative_num_draft_tokens": 16,
}
TREE_WORDS = [
    "--speculative-num-steps", "3", "--speculative-eagle-topk", "4",
    "--speculative-num-draft-tokens", "16",
]  # fmt: skip

pip_versions = st.from_regex(
    r"0\.[45]\.(0|[1-9][0-9]?)((a|b|rc)[0-9])?(\.post[0-9])?(\.dev[0-9]{1,3})?(\+[a-z]{2,8})?",
    fullmatch=True,
)


@given(pip_versions, pip_versions)
def test_versions_are_ordered_as_pip_orders_them(one: str, other: str) -> None:
    a, b = (PipVersion(text.partition("+")[0]) for text in (one, other))
    assert (version(one) < version(other)) == (a < b)
    assert (version(one) == version(other)) == (a == b)


def test_versions_seen_in_the_wild_are_in_order() -> None:
    texts = [
        "0.4.6", "0.4.6.post5", "0.4.10.post2", "0.5.0rc2", "0.5.3.dev7+g1a2b3c4", "0.5.3rc1",
        "0.5.3", "0.5.10", "0.5.10.post1", "v0.5.14", "0.5.23+simulated",
    ]  # fmt: skip
    parsed = [version(text) for text in texts]
    assert parsed == sorted(parsed)
    assert [str(each) for each in parsed] == [text.removeprefix("v") for text in texts]


@pytest.mark.parametrize(
    "text", ["", "latest", "dev", "0.0.0", "0.0.0.dev1+g12", "nightly-dev", "x"]
)
def test_what_names_no_release_is_no_version(text: str) -> None:
    assert Version.parse(text) is None


def test_a_build_that_leads_to_a_release_counts_as_it() -> None:
    assert version("0.5.14rc1").reached("0.5.14")
    assert version("0.5.14.dev3+gabc").reached("0.5.14")
    assert version("0.4.6").reached("0.4.6.post5")
    assert not version("0.5.9.post2").reached("0.5.14")


# ---- the names of flags ---------------------------------------------------------------------


def launched(flags: dict[str, FlagValue], release: str) -> list[str]:
    """The words that a trial adds to the base command."""
    engine = LocalEngine(LaunchCommand.parse(BASE).for_version(release))
    return list(engine.command_for(flags).argv[len(BASE) :])


def exported(flags: dict[str, FlagValue], release: str) -> dict[str, list[str]]:
    """The same from each export format, of a study measured on that release."""
    value = Interval(1.0, 0.9, 1.1)
    record = TrialRecord(
        number=0,
        status="complete",
        role="baseline",
        flags=flags,
        objectives={"latency_s": value, "throughput_tok_s": value},
        versions={"sglang": release},
    )
    view = StudyView(
        name="s",
        directory=Path("studies/s"),
        config=RunConfig(engine="sglang", command=BASE),
        objective=PRESETS["agentic"],
        command=LaunchCommand.parse(BASE),
        records=(record,),
    )
    recipe = recipe_for(view, choose(view, trial=0))
    script = "\n".join(
        line for line in render(recipe, "shell").splitlines() if not line.startswith("#")
    )
    words = shlex.split(script.replace("\\\n", " "))
    assert tuple(words[: len(BASE)]) == BASE
    assert f'"--speculative-num-steps",\n  "{flags["speculative_num_steps"]}"' in render(
        recipe, "json"
    ).replace("    ", "  ")
    return {"shell": words[len(BASE) :], "flags": shlex.split(render(recipe, "flags"))}


GRAPH = {
    "0.4.6.post5": "--cuda-graph-max-bs",
    "0.5.3": "--cuda-graph-max-bs",
    "0.5.10": "--cuda-graph-max-bs",
    "0.5.14": "--cuda-graph-max-bs-decode",
    "0.5.20": "--cuda-graph-max-bs-decode",
    "0.5.23": "--cuda-graph-max-bs-decode",
}
STREAMING = {
    "0.4.6.post5": "--stream-output",
    "0.5.3": "--stream-output",
    "0.5.10": "--incremental-streaming-output",
    "0.5.14": "--incremental-streaming-output",
    "0.5.20": "--incremental-streaming-output",
    "0.5.23": "--incremental-streaming-output",
}


@pytest.mark.parametrize("release", RELEASES)
def test_launched_and_exported_flags_differ_exactly_where_the_releases_do(release: str) -> None:
    """Written down by hand from the wheels, not computed from the table under test."""
    flags = TREE | {
        "mem_fraction_static": 0.8,
        "cuda_graph_max_bs": 32,
        "page_size": 1,
        "incremental_streaming_output": True,
        "disable_overlap_schedule": True,
    }
    expected = [
        *TREE_WORDS, "--mem-fraction-static", "0.8", GRAPH[release], "32", "--page-size", "1",
        STREAMING[release], "--disable-overlap-schedule",
    ]  # fmt: skip
    assert launched(flags, release) == expected
    assert exported(flags, release) == {"shell": expected, "flags": expected}


MAMBA = {
    "0.4.6.post5": "--mamba-radix-cache-strategy came with SGLang 0.5.7 "
    "(as --mamba-scheduler-strategy), and this is 0.4.6.post5",
    "0.5.3": "--mamba-radix-cache-strategy came with SGLang 0.5.7 "
    "(as --mamba-scheduler-strategy), and this is 0.5.3",
    "0.5.10": "--mamba-scheduler-strategy",
    "0.5.14": "--mamba-radix-cache-strategy",
    "0.5.20": "--mamba-radix-cache-strategy",
    "0.5.23": "--mamba-radix-cache-strategy",
}


@pytest.mark.parametrize("release", RELEASES)
def test_a_flag_that_a_release_lacks_is_refused_with_the_release_it_came_in(release: str) -> None:
    wanted: dict[str, FlagValue] = {"mamba_radix_cache_strategy": "auto"}
    if " " not in MAMBA[release]:
        assert launched(wanted, release) == [MAMBA[release], "auto"]
        return
    with pytest.raises(UsageError) as caught:
        launched(wanted, release)
    assert caught.value.message == MAMBA[release]


@pytest.mark.parametrize(
    ("name", "release", "reason"),
    [
        ("speculative_adaptive", "0.5.10", "came with SGLang 0.5.11"),
        ("speculative_adaptive", "0.5.11rc1", None),
        ("speculative_use_rejection_sampling", "0.5.13", "came with SGLang 0.5.14"),
        (
            "enable_linear_replayssm_spec",
            "0.5.10.post1",
            "came with SGLang 0.5.16 (as --enable-gdn-replayssm-spec)",
        ),
        ("enable_beta_spec", "0.5.6", "is gone after SGLang 0.5.4"),
        ("enable_beta_spec", "0.5.4", None),
        ("mem_fraction_static", "0.4.5", None),
        ("nsa_prefill_backend", "0.5.20", None),
        ("fp8_gemm_backend", "0.5.23", None),
        ("model", "0.4.6", "--model came with SGLang 0.4.9"),
        ("model_path", "0.4.6", None),
        ("moe_runner_backend", "0.4.10", "came with SGLang 0.5.1"),
        ("moe_runner_backend", "0.5.0rc2", None),  # not read: it may well have it
        ("radix_eviction_policy", "0.5.0rc2", "came with SGLang 0.5.3"),
        ("a_flag_of_the_future", "0.4.5", None),
        ("speculative_adaptive", None, None),
        ("enable_ep_moe", None, "is gone after SGLang 0.5.2, and this is 0.5.23"),
    ],
)
def test_what_each_release_has(name: str, release: str | None, reason: str | None) -> None:
    told = why_missing(name, version(release) if release else None)
    assert (reason in told) if reason and told else told is reason


def test_a_switch_that_a_release_lacks_may_be_left_out() -> None:
    assert launched({"page_size": 1, "speculative_adaptive": False}, "0.5.3") == [
        "--page-size",
        "1",
    ]


def test_an_old_spelling_in_the_command_is_renewed_only_where_the_release_lost_it() -> None:
    command = LaunchCommand.parse([*BASE, "--cuda-graph-max-bs=32"])
    wanted: dict[str, FlagValue] = {"cuda_graph_max_bs": 16}
    words = {
        release: command.for_version(release).with_flags(wanted).argv[-1]
        for release in ("0.5.10", "0.5.14", "0.5.19", "0.5.20", "?")
    }
    assert words == {
        "0.5.10": "--cuda-graph-max-bs=16",
        "0.5.14": "--cuda-graph-max-bs=16",
        "0.5.19": "--cuda-graph-max-bs=16",
        "0.5.20": "--cuda-graph-max-bs-decode=16",
        "?": "--cuda-graph-max-bs=16",  # what the user wrote is the best hint at the release
    }


def test_a_short_name_that_a_release_lacks_is_written_out() -> None:
    command = LaunchCommand.parse(["sglang", "serve", "--model", "M", "--ep", "2"])
    wanted: dict[str, FlagValue] = {"model_path": "N", "ep_size": 4}
    words = {release: command.for_version(release).with_flags(wanted) for release in RELEASES}
    assert words["0.4.6.post5"].argv[2:] == ("--model-path", "N", "--ep-size", "4")
    assert words["0.5.23"].argv[2:] == ("--model", "N", "--ep", "4")


def test_every_flag_of_the_table_has_one_spelling_for_a_release_or_a_reason() -> None:
    for name, spellings in SPELLINGS.items():
        for release in RELEASES:
            at = version(release)
            is_there = any(spelling.is_in(at) for spelling in spellings)
            assert is_there == (why_missing(name, at) is None)
        bounds = [s.since for s in spellings if s.since] + [s.until for s in spellings if s.until]
        assert all(Version.parse(bound) for bound in bounds)
    every = [spelling.text for spellings in SPELLINGS.values() for spelling in spellings]
    assert len(every) == len(set(every))


# ---- the facts ------------------------------------------------------------------------------

PAGED = ("flashinfer", "fa3", "triton")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("PAGE_TREES", [(), PAGED[:1], PAGED[:2], PAGED, PAGED, PAGED]),
        ("RUNNING_LIMIT", [48] * 6),
        ("DRAFT_IN_POOL", [False, False, False, True, True, True]),
        ("HEALTH_GENERATES", [False, True, True, True, True, True]),
        ("OVERLAP", ["never", "never", "asked, chain", "always", "always", "always"]),
        ("INFO_PATHS", [("/get_server_info",)] * 2 + [("/server_info", "/get_server_info")] * 4),
    ],
)  # fmt: skip
def test_facts_change_with_the_release_that_changed_them(row: str, expected: list[object]) -> None:
    facts = getattr(versions, row)
    assert [in_force(facts, version(release)).value for release in RELEASES] == expected
    assert in_force(facts, None).value == expected[-1]
    assert all(fact.source for fact in facts)


def test_algorithms_grow_until_any_word_is_taken() -> None:
    assert "NGRAM" not in in_force(versions.ALGORITHMS, version("0.5.2")).value
    assert "NGRAM" in in_force(versions.ALGORITHMS, version("0.5.3")).value
    assert "DFLASH" in in_force(versions.ALGORITHMS, version("0.5.11")).value
    assert in_force(versions.ALGORITHMS, version("0.5.12")).value == ()


def test_a_release_before_all_counts_as_the_first_one_read() -> None:
    assert in_force(versions.AUTO_TREES, version("0.4.0")).value == {"": (5, 4, 8)}
