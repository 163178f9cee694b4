from __future__ import annotations

import pytest

from autotune.core.trial import FlagValue
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.limits import notes, server_rules, space_on
from autotune.errors import SpaceError, UsageError
from autotune.space import SearchSpace, Switch, load_space
from autotune.space.rules import DRAFT, STEPS, TOPK

SERVE = "sglang serve --model-path M --speculative-algorithm EAGLE "
TREE: dict[str, FlagValue] = {STEPS: 3, TOPK: 4, DRAFT: 8}


def command(words: str, release: str) -> LaunchCommand:
    return LaunchCommand.parse((SERVE + words).split()).for_version(release)


def rule(words: str, release: str, environment: dict[str, str] | None = None) -> str | None:
    """The rule that refuses a tree on this server."""
    rules = server_rules(command(words, release), environment or {})
    refusal = rules.refusal(TREE)
    return refusal and refusal.rule


PAGED = "--page-size 16 --attention-backend {}"


@pytest.mark.parametrize(
    ("backend", "refused"),
    [
        ("flashinfer", "0.4.6.post5 0.4.7 0.4.8"),
        ("fa3", "0.4.6.post5 0.4.7 0.4.8 0.5.2 0.5.3 0.5.5"),
        ("triton", "0.4.6.post5 0.4.7 0.4.8 0.5.2 0.5.3 0.5.5 0.5.6 0.5.10 0.5.12"),
        ("aiter", "0.4.6.post5 0.4.7 0.4.8 0.5.2 0.5.3 0.5.5 0.5.6 0.5.10 0.5.12 0.5.13 0.5.23"),
    ],
)
def test_trees_over_pages_by_release_and_backend(backend: str, refused: str) -> None:
    releases = (
        "0.4.6.post5", "0.4.7", "0.4.8", "0.4.9", "0.4.10", "0.5.1", "0.5.2", "0.5.3", "0.5.5",
        "0.5.6", "0.5.10", "0.5.12", "0.5.13", "0.5.23",
    )  # fmt: skip
    words = PAGED.format(backend)
    found = [release for release in releases if rule(words, release) == "page-tree"]
    assert found == refused.split()


@pytest.mark.parametrize(
    "release", ["0.4.6.post5", "0.5.3", "0.5.10", "0.5.14", "0.5.20", "0.5.23"]
)
@pytest.mark.parametrize("backend", ["flashmla", "trtllm_mla", "trtllm_mha"])
def test_a_backend_of_chains_refuses_trees_in_every_release(release: str, backend: str) -> None:
    assert rule(f"--attention-backend {backend}", release) == "chain-backend"


def test_the_overlap_scheduler_refuses_trees_where_it_is_asked_for() -> None:
    asked = {"SGLANG_ENABLE_SPEC_V2": "1"}
    found = [r for r in ("0.5.6", "0.5.7", "0.5.10", "0.5.11", "0.5.13") if rule("", r, asked)]
    assert found == ["0.5.7", "0.5.10"]
    assert rule("", "0.5.10", {"SGLANG_ENABLE_SPEC_V2": "0"}) is None
    own = LaunchCommand.parse(("env", "SGLANG_ENABLE_SPEC_V2=true", *SERVE.split()))
    refusal = server_rules(own.for_version("0.5.10"), {}).refusal(TREE)
    assert refusal and refusal.rule == "overlap-tree"


def test_what_the_release_means_is_noted() -> None:
    space = load_space("speculative")

    def topics(words: str, release: str) -> list[str]:
        return [note.partition(" ")[0] for note in notes(space, command(words, release))]

    assert topics("", "0.5.12") == ["with", "no", "mem_fraction_static"]
    assert topics("", "0.5.13") == ["no", "mem_fraction_static"]
    assert topics("", "0.5.14") == ["no"]
    assert topics("--max-running-requests 64", "0.5.23") == []


@pytest.mark.parametrize(
    ("release", "refused"),
    [
        ("0.5.12", []), ("0.5.13", [0, 2, 4, 5]), ("0.5.14", [2, 4, 5]), ("0.5.19", [2, 4, 5]),
        ("0.5.20", [2, 4]), ("0.5.23", [2, 4]),
    ],
)  # fmt: skip
def test_adaptive_speculation_starts_from_the_candidates_of_its_release(
    release: str, refused: list[int]
) -> None:
    """Without a file of its own; see ``speculative/adaptive_spec_params.py`` of each release."""
    rules = server_rules(command("", release), {})
    every = {n: {STEPS: n, TOPK: 1, DRAFT: n + 1, "speculative_adaptive": True} for n in range(6)}
    found = {n: rules.refusal(flags) for n, flags in every.items()}
    assert [n for n, why in found.items() if why and why.rule == "adaptive-steps"] == refused


def test_a_flag_of_the_space_that_the_release_lacks_is_refused() -> None:
    space = SearchSpace("s", "", {"speculative_adaptive": Switch()}, {STEPS: 3, TOPK: 1})
    with pytest.raises(UsageError, match=r"came with SGLang 0\.5\.11"):
        space_on(space, command("", "0.5.3"))
    assert space_on(space, command("", "0.5.11")).size == 2
    fixed_off = SearchSpace("s", "", {"page_size": Switch()}, {"speculative_adaptive": False})
    assert space_on(fixed_off, command("", "0.5.3")).size == 2


def test_a_space_of_trees_alone_on_a_server_of_chains() -> None:
    fixed: dict[str, FlagValue] = {STEPS: 3, TOPK: 4, DRAFT: 8}
    space = SearchSpace("s", "", {"disable_radix_cache": Switch()}, fixed)
    with pytest.raises(SpaceError, match="runs none of its configurations with this command"):
        space_on(space, command("--attention-backend flashmla", "0.5.23"))


def test_a_value_that_a_script_decides_is_not_guessed() -> None:
    words = ("bash", "-c", f'{SERVE} --page-size "$PAGE" --attention-backend triton')
    rules = server_rules(LaunchCommand.parse(words).for_version("0.5.3"), {})
    assert rules.refusal(TREE) is None
