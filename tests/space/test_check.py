from __future__ import annotations

from collections.abc import Mapping

import pytest

from autotune.core.trial import FlagValue
from autotune.errors import SpaceError
from autotune.space import Choice, DecimalRange, IntegerRange, Parameter, SearchSpace, Switch
from autotune.space.check import Problem, find_problem
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK

STEPS_1_TO_8 = IntegerRange(1, 8)
CHAIN_OR_TREE = Choice((1, 4))


@pytest.mark.parametrize(
    ("parameters", "fixed", "flag", "words"),
    [
        ({}, {}, "", "no flag is searched"),
        ({"page_size": Choice((1, 64))}, {"page_size": 1}, "page_size", "both searched and fixed"),
        ({"page-size": Choice((1, 64))}, {}, "page-size", "with underscores: page_size"),
        ({"--page-size": Choice((1,))}, {}, "--page-size", "with underscores: page_size"),
        ({"Page size": Choice((1,))}, {}, "Page size", "is not a flag name"),
        ({"mem_fraction_statc": Choice((1,))}, {}, "mem_fraction_statc", f"you mean '{MEMORY}'?"),
        ({MEMORY: IntegerRange(60, 95)}, {}, MEMORY, "goes from 0.01 to 0.99, and 60 is outside"),
        ({MEMORY: Choice(("high",))}, {}, MEMORY, "takes numbers, not 'high'"),
        ({STEPS: IntegerRange(0, 4)}, {TOPK: 1}, STEPS, "goes from 1 to 64, and 0 is outside"),
        ({STEPS: DecimalRange(1, 2, 0.5)}, {TOPK: 1}, STEPS, "takes whole numbers, not 1.0"),
        ({MEMORY: Choice((0.8, 0.9))}, {STEPS: True, TOPK: 1}, STEPS, "whole numbers, not True"),
        ({"x": Choice((1, 2))}, {"y": float("nan")}, "y", "is not a finite number"),
        ({STEPS: STEPS_1_TO_8}, {}, STEPS, f"needs {TOPK} beside it"),
        ({TOPK: CHAIN_OR_TREE}, {DRAFT: 4}, TOPK, f"needs {STEPS} beside it"),
        ({STEPS: STEPS_1_TO_8, TOPK: CHAIN_OR_TREE}, {}, TOPK, f"above 1 needs {DRAFT} beside it"),
        ({STEPS: STEPS_1_TO_8, DRAFT: Choice((4, 8))}, {TOPK: 4}, DRAFT, "low and high without"),
        ({STEPS: STEPS_1_TO_8, DRAFT: IntegerRange(2, 8, 2)}, {TOPK: 4}, DRAFT, "low and high wit"),
        (
            {STEPS: STEPS_1_TO_8, TOPK: CHAIN_OR_TREE, DRAFT: IntegerRange(16, 64)}, {}, DRAFT,
            f"no configuration is legal with {TOPK} 1: it takes 2 to 9 draft tokens, "
            f"and {DRAFT} allows 16 to 64",
        ),
        ({"x": Switch()}, {STEPS: 1, TOPK: 4, DRAFT: 64}, DRAFT, "it takes 2 to 5 draft tokens"),
        (
            {STEPS: Choice((1, 3, 5)), DRAFT: IntegerRange(8, 16)}, {TOPK: 4}, STEPS,
            f"{STEPS} 1 has no legal {DRAFT} with {TOPK} 4: give {STEPS} as low and high",
        ),
    ],
)  # fmt: skip
def test_names_the_flag_to_change(
    parameters: Mapping[str, Parameter], fixed: Mapping[str, FlagValue], flag: str, words: str
) -> None:
    problem = find_problem(parameters, fixed)
    assert problem is not None
    assert problem.flag == flag
    assert words in problem.reason
    with pytest.raises(SpaceError) as raised:
        SearchSpace("mine", "", parameters, fixed)
    assert raised.value.message == f"space 'mine': {problem.reason}"


@pytest.mark.parametrize(
    ("parameters", "fixed"),
    [
        ({"speculative_draft_window_size": Choice((512, 1024))}, {}),
        ({DRAFT: IntegerRange(4, 16)}, {"speculative_ngram_max_bfs_breadth": 10}),
        ({STEPS: Choice((1, 3, 5)), TOPK: CHAIN_OR_TREE, DRAFT: IntegerRange(2, 64)}, {}),
        ({STEPS: STEPS_1_TO_8, TOPK: CHAIN_OR_TREE}, {DRAFT: 4}),
        ({TOPK: IntegerRange(1, 8), DRAFT: IntegerRange(2, 64)}, {STEPS: 3}),
        ({MEMORY: DecimalRange(0.5, 0.9, 0.05)}, {STEPS: 3, TOPK: 1}),
    ],
)
def test_lets_a_searchable_space_pass(
    parameters: Mapping[str, Parameter], fixed: Mapping[str, FlagValue]
) -> None:
    problem: Problem | None = find_problem(parameters, fixed)
    assert problem is None
