"""The file of ``--speculative-adaptive-config`` against what each release of SGLang takes.

The rules here are written from speculative/adaptive_spec_params.py of the release in the name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from autotune.core.adaptive import Tier
from autotune.engine.sglang.adaptive import (
    candidates_of,
    file_for,
    file_text,
    flags_for,
    takes_off,
    why_not,
)
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.versions import Version, version

Taken = Callable[[Any], bool]
LOADED = (Tier(1, 4), Tier(9, 2))
WITH_OFF = (Tier(1, 4), Tier(9, 2), Tier(40, 0))


def is_taken_by_0_5_11(document: Any) -> bool:  # noqa: ANN401
    """And 0.5.12: an object, at least two different steps in one list."""
    return isinstance(document, dict) and len(set(document.get("candidate_steps", (1, 3, 7)))) >= 2


def is_taken_by_0_5_13(document: Any) -> bool:  # noqa: ANN401
    """Keys of digits, each with a list of positive integers; other keys are settings."""
    return _is_table(document, least=1)


def is_taken_by_0_5_14(document: Any) -> bool:  # noqa: ANN401
    """And up to 0.5.23: 0 is a step count, too."""
    return _is_table(document, least=0)


def _is_table(document: Any, least: int) -> bool:  # noqa: ANN401
    entries = [entry for key, entry in document.items() if key.isdigit()]
    return bool(entries) and all(
        isinstance(entry.get("candidate_steps"), list)
        and entry["candidate_steps"]
        and all(isinstance(s, int) and s >= least for s in entry["candidate_steps"])
        for entry in entries
    )


@pytest.mark.parametrize(
    ("release", "taken", "takes_zero"),
    [
        ("0.5.11", is_taken_by_0_5_11, False),
        ("0.5.12", is_taken_by_0_5_11, False),
        ("0.5.12.post1", is_taken_by_0_5_11, False),
        ("0.5.13", is_taken_by_0_5_13, False),
        ("0.5.14", is_taken_by_0_5_14, True),
        ("0.5.20", is_taken_by_0_5_14, True),
        ("0.5.23", is_taken_by_0_5_14, True),
        (None, is_taken_by_0_5_14, True),
    ],
)
def test_each_release_gets_a_file_that_it_takes(
    release: str | None,
    taken: Taken,
    takes_zero: bool,
) -> None:
    at = None if release is None else version(release)
    assert taken(json.loads(file_text(LOADED, at)))
    assert takes_off(at) == takes_zero
    if takes_zero:
        assert taken(json.loads(file_text(WITH_OFF, at)))
    else:
        with pytest.raises(ValueError, match="takes no 0"):
            file_for(WITH_OFF, at)


def test_before_tables_all_steps_are_one_list() -> None:
    assert file_for(LOADED, version("0.5.12")) == {"candidate_steps": [2, 4]}


def test_a_table_has_one_step_count_for_each_batch_size() -> None:
    assert file_for(WITH_OFF, version("0.5.23")) == {
        "1": {"candidate_steps": [4]},
        "9": {"candidate_steps": [2]},
        "40": {"candidate_steps": [0]},
    }
    assert file_text(LOADED, None).count("\n") == 4, "a tier a line"
    assert list(candidates_of(file_for(WITH_OFF, None))) == [1, 9, 40]


def test_the_server_starts_with_the_fewest_steps_that_speculate() -> None:
    """Its draft tokens follow the steps, and topk is 1: SGLang adapts nothing else."""
    assert flags_for(WITH_OFF, "/a.json") == {
        "speculative_num_steps": 2,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 3,
        "speculative_adaptive": True,
        "speculative_adaptive_config": "/a.json",
    }


@pytest.mark.parametrize(
    ("words", "release", "why"),
    [
        ("--speculative-algorithm EAGLE", "0.5.23", None),
        ("--speculative-algorithm nextn", "0.5.13", None),
        ("--speculative-algorithm EAGLE", None, None),
        ("--speculative-algorithm EAGLE", "0.5.10", "came with SGLang 0.5.11"),
        ("--speculative-algorithm EAGLE", "0.5.11", "--disable-overlap-schedule"),
        ("--speculative-algorithm EAGLE --disable-overlap-schedule", "0.5.11", None),
        ("--speculative-algorithm NGRAM", "0.5.23", "EAGLE and EAGLE3 only, not of NGRAM"),
        ("--speculative-algorithm EAGLE3 --enable-dp-attention", "0.5.23", "data parallelism"),
        ("--speculative-algorithm EAGLE3 --enable-pdmux", "0.5.23", "PD multiplexing"),
    ],
)
def test_a_server_that_cannot_adapt_is_named(
    words: str, release: str | None, why: str | None
) -> None:
    argv = ("python", "-m", "sglang.launch_server", "--model-path", "M", *words.split())
    found = why_not(LaunchCommand.parse(argv).for_version(release and Version.parse(release)))
    assert found == why if why is None else found is not None and why in found
