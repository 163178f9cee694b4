"""Which steps a study suggests for each batch size, and why it may suggest none."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from autotune.core.adaptive import Tier
from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.trial import FlagValue, TrialRecord
from autotune.errors import NoFeasibleConfiguration
from autotune.study.adaptation import AdaptiveLaunch, AdaptivePlan
from autotune.study.adaptive_verdict import compared
from autotune.study.suggestion import Suggestion, suggest

from ..core.samples import chain, exactly, phase
from ..report.studies import dead, view_of


def launch(
    number: int, steps: int, turn_s: float, *tok_s: float, limit: int = 48, **flags: FlagValue
) -> TrialRecord:
    """A chain at C=1, 16 and 32; steps 0 is speculation off."""
    serving = [phase("serving", c, tok_s=value) for c, value in zip((16, 32), tok_s, strict=False)]
    return TrialRecord(
        number=number,
        status="complete",
        flags={**(chain(steps) if steps else {"mem_fraction_static": 0.85}), **flags},
        effective={"max_running_requests": limit},
        phases=[phase("latency", 1, turn_s=turn_s, tok_s=216 / turn_s), *serving],
        objectives={LATENCY: exactly(turn_s, 0.01), THROUGHPUT: exactly(tok_s[0], 0.01)},
        versions={"sglang": "0.5.23"},
        role="reference" if not steps else "search" if number else "baseline",
    )


def suggested(*records: TrialRecord, release: str = "0.5.23") -> Suggestion:
    view = view_of(records)
    return suggest(view, view.command.for_version(release))


DEEP = launch(0, 4, 0.9, 1000.0, 1100.0)
SHALLOW = launch(1, 2, 1.3, 1300.0, 1800.0)


def test_each_load_gets_its_own_steps() -> None:
    found = suggested(DEEP, SHALLOW)
    assert [tier.steps for tier in found.tiers] == [4, 2] and found.tiers[0].batch == 1
    assert [(wish.concurrency, wish.steps) for wish in found.wishes] == [(1, 4), (16, 2), (32, 2)]
    assert not found.cautions and not any(wish.estimated for wish in found.wishes)


def test_of_several_memory_fractions_the_best_value_counts() -> None:
    poor = launch(2, 2, 2.0, 400.0, 500.0, mem_fraction_static=0.8)
    assert suggested(DEEP, SHALLOW, poor).tiers == suggested(DEEP, SHALLOW).tiers


def test_configurations_that_differ_elsewhere_are_not_mixed() -> None:
    """The steps would get the credit of the other flag."""
    other = structs.replace(SHALLOW, flags={**SHALLOW.flags, "chunked_prefill_size": 512})
    found = suggested(DEEP, other)
    assert not found.tiers and "differ in nothing else" in found.why_static


def test_trees_are_left_out_and_may_be_what_it_stands_against() -> None:
    wide = {"speculative_eagle_topk": 4, "speculative_num_draft_tokens": 8}
    tree = launch(2, 3, 0.85, 900.0, 1000.0)
    tree = structs.replace(tree, flags={**tree.flags, **wide})
    found = suggested(DEEP, SHALLOW, tree)
    assert found.static.trial == 2 and [tier.steps for tier in found.tiers] == [4, 2]
    assert found.flags("/a.json")["speculative_eagle_topk"] == 1
    assert not suggested(tree).tiers


def test_off_is_a_tier_from_0_5_14_on() -> None:
    off = launch(2, 0, 2.5, 1200.0, 2600.0)
    assert [tier.steps for tier in suggested(DEEP, SHALLOW, off).tiers] == [4, 2, 0]
    assert any("0 steps" in text for text in suggested(DEEP, SHALLOW, off).cautions)
    older = suggested(DEEP, SHALLOW, off, release="0.5.13")
    assert [tier.steps for tier in older.tiers] == [4, 2]


def test_steps_are_compared_at_the_batch_that_the_deepest_leave_room_for() -> None:
    """Three steps win at 16 requests, but with memory set aside for four only 10 run at once."""
    deep = launch(0, 4, 0.90, 1300.0, 1300.0, limit=10)
    shallow = launch(1, 3, 1.00, 1380.0, 1600.0, limit=24)
    found = suggested(deep, shallow)
    assert not found.tiers
    assert "4 steps are best" in found.why_static and "10 requests run at most" in found.why_static
    brought_down = found.wishes[1]
    assert brought_down.batch == 10 and brought_down.estimated == {3}
    assert 216 < brought_down.values[3].value < 1300
    roomy = structs.replace(deep, effective={"max_running_requests": 24})
    assert [tier.steps for tier in suggested(roomy, shallow).tiers] == [4, 3]


def test_a_table_that_would_lose_by_what_was_measured_is_not_suggested() -> None:
    """Deep steps for one user would leave seven slots for thirty-two of them."""
    deep = launch(2, 7, 0.85, 450.0, 450.0, limit=7)
    middle = launch(0, 3, 0.95, 1400.0, 1500.0, limit=40)
    found = suggested(middle, launch(1, 2, 1.2, 1380.0, 1450.0, limit=40), deep)
    assert not found.tiers and "3 steps are best" in found.why_static


def test_what_the_memory_of_the_deepest_costs_is_said() -> None:
    deep = launch(0, 4, 0.9, 600.0, 600.0, limit=12)
    found = suggested(deep, launch(1, 2, 1.3, 1300.0, 1500.0, limit=26))
    assert found.tiers
    assert "12 requests run at once, where fixed 2 steps run 26" in found.cautions[0]


def test_a_study_with_nothing_measured_suggests_nothing() -> None:
    with pytest.raises(NoFeasibleConfiguration):
        suggested(dead(0))


# ---- what launches show -----------------------------------------------------------------------


def test_the_comparison_is_with_the_fixed_flags_of_the_plan() -> None:
    plan = AdaptivePlan(0, (Tier(1, 4), Tier(5, 2)))
    adaptive = structs.replace(launch(2, 2, 0.9, 1300.0, 1800.0), role="adaptive")
    lost = structs.replace(dead(3), role="adaptive")
    view = replace(
        view_of([DEEP, SHALLOW]),
        adaptive_launches=(AdaptiveLaunch(plan, lost), AdaptiveLaunch(plan, adaptive)),
    )
    found = compared(view)
    assert found is not None and found.static.trial == 0 and found.verdict == "better"
    assert [(row.load, row.verdict) for row in found.rows] == [
        ("C=1", "tie"), ("C=16", "better"), ("C=32", "better"),
    ]  # fmt: skip
    assert found.rows[1].change_frac.value == pytest.approx(0.3)
    failed = compared(replace(view, adaptive_launches=(AdaptiveLaunch(plan, lost),)))
    assert failed is not None and failed.gain is None and "CUDA out of memory" in failed.text
    assert compared(replace(view, adaptive_launches=())) is None
