from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trial import Bound, Failure, FailureKind, Flags, FlagValue, TrialRecord
from autotune.search import MemoryWalls


def tree(fraction: float, draft: int = 4, steps: int = 3, topk: int = 1) -> dict[str, FlagValue]:
    return {
        "speculative_num_steps": steps,
        "speculative_eagle_topk": topk,
        "speculative_num_draft_tokens": draft,
        "mem_fraction_static": fraction,
    }


def failed(kind: FailureKind, flags: Flags, bound: Bound | None = None) -> TrialRecord:
    failure = Failure(kind, "capture", "evidence", "remedy", bound)
    return TrialRecord(number=0, status="failed", flags=dict(flags), failure=failure)


def walls(*records: TrialRecord) -> MemoryWalls:
    return MemoryWalls.learn(records)


@pytest.mark.parametrize("kind", [FailureKind.GRAPH_CAPTURE_OOM, FailureKind.RUNTIME_OOM])
def test_out_of_memory_rules_out_more_memory_and_larger_trees(kind: FailureKind) -> None:
    known = walls(failed(kind, tree(0.90, 8)))
    for fraction, draft in ((0.90, 8), (0.95, 8), (0.90, 16)):
        reason = known.why_not(tree(fraction, draft))
        assert reason is not None and "0.9" in reason and "8 draft tokens" in reason
    for fraction, draft in ((0.89, 8), (0.95, 7), (0.60, 64)):
        assert known.why_not(tree(fraction, draft)) is None


def test_no_room_for_the_cache_rules_out_less_memory_and_larger_trees() -> None:
    known = walls(failed(FailureKind.KV_DOES_NOT_FIT, tree(0.65, 8)))
    for fraction, draft in ((0.65, 8), (0.60, 8), (0.65, 16)):
        assert "KV cache" in (known.why_not(tree(fraction, draft)) or "")
    for fraction, draft in ((0.66, 8), (0.60, 7), (0.95, 64)):
        assert known.why_not(tree(fraction, draft)) is None


def test_a_bound_that_the_server_told_is_the_wall() -> None:
    told = Bound("mem_fraction_static", "at_least", 0.8)
    known = walls(failed(FailureKind.KV_DOES_NOT_FIT, tree(0.65), told))
    assert known.why_not(tree(0.79)) is not None
    assert known.why_not(tree(0.80)) is None


def test_a_pool_that_ran_dry_at_run_time_wants_more_memory() -> None:
    dry = Bound("mem_fraction_static", "at_least", 0.8)
    known = walls(failed(FailureKind.RUNTIME_OOM, tree(0.8), dry))
    assert known.why_not(tree(0.8)) is not None
    assert known.why_not(tree(0.9)) is None


def test_a_refused_tree_is_refused_whatever_the_memory() -> None:
    known = walls(failed(FailureKind.REJECTED_COMBINATION, tree(0.85, 60, 3, 4)))
    assert known.why_not(tree(0.60, 60, 3, 4)) is not None
    assert known.why_not(tree(0.85, 59, 3, 4)) is None


def test_a_refusal_of_flags_that_are_no_tree_says_nothing_about_trees() -> None:
    known = walls(failed(FailureKind.REJECTED_COMBINATION, {"chunked_prefill_size": 1}))
    assert known.why_not({"chunked_prefill_size": 2}) is None


@pytest.mark.parametrize(
    "kind",
    [
        FailureKind.INTERRUPTED, FailureKind.GPU_BUSY, FailureKind.PORT_IN_USE,
        FailureKind.CRASHED, FailureKind.HANG, FailureKind.READY_TIMEOUT,
    ],
)  # fmt: skip
def test_accidents_teach_nothing(kind: FailureKind) -> None:
    known = walls(failed(kind, tree(0.85)))
    assert (known.above, known.below, known.rejected) == ([], [], set())


def test_a_failed_baseline_teaches_nothing_because_its_command_may_be_mended() -> None:
    failure = Failure(FailureKind.KV_DOES_NOT_FIT, "pool", "evidence", "remedy")
    record = TrialRecord(
        number=0, status="failed", flags=tree(0.9), failure=failure, role="baseline"
    )
    assert walls(record).why_not(tree(0.85)) is None


def test_what_completed_is_behind_no_wall() -> None:
    record = TrialRecord(number=0, status="complete", flags=tree(0.95, 64))
    assert walls(record).why_not(tree(0.95, 64)) is None


def test_without_a_memory_fraction_there_is_no_memory_wall() -> None:
    bare: dict[str, FlagValue] = {"speculative_num_steps": 3}
    known = walls(failed(FailureKind.RUNTIME_OOM, bare))
    assert known.why_not(bare) is None
    assert known.why_not(tree(0.95)) is None


KINDS = st.sampled_from(FailureKind)
VALUES = st.one_of(
    st.integers(-5, 100), st.floats(0, 2), st.booleans(), st.text(max_size=4), st.just("auto")
)
ANY_FLAGS = st.dictionaries(st.sampled_from(list(tree(0.5))), VALUES)


@given(st.lists(st.tuples(KINDS, ANY_FLAGS), max_size=5), ANY_FLAGS)
def test_foreign_flags_never_break_the_walls(
    seen: list[tuple[FailureKind, dict[str, FlagValue]]], asked: dict[str, FlagValue]
) -> None:
    reason = walls(*(failed(kind, flags) for kind, flags in seen)).why_not(asked)
    assert reason is None or reason


@given(
    st.sampled_from([FailureKind.RUNTIME_OOM, FailureKind.KV_DOES_NOT_FIT]),
    st.floats(0.6, 0.95), st.integers(2, 64), st.floats(0.6, 0.95), st.integers(2, 64),
    st.floats(0, 0.3), st.integers(0, 10),
)  # fmt: skip
def test_walls_are_monotone(
    kind: FailureKind,
    fraction: float,
    draft: int,
    at: float,
    at_draft: int,
    more: float,
    wider: int,
) -> None:
    known = walls(failed(kind, tree(fraction, draft)))
    if known.why_not(tree(at, at_draft)) is not None:
        sign = 1 if kind is FailureKind.RUNTIME_OOM else -1
        assert known.why_not(tree(at + sign * more, at_draft + wider)) is not None
