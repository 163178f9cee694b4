"""Steps by batch size, from curves of several step counts at several loads."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.adaptive import OFF, Load, Tier, best_steps, tiers
from autotune.core.compare import is_tie
from autotune.core.trial import Interval

from .samples import exactly

values = st.floats(10, 5000).flatmap(
    lambda value: st.floats(0, 0.2).map(lambda half: exactly(value, half))
)
curves = st.dictionaries(st.integers(1, 10), values, min_size=1)
curves_with_off = st.tuples(curves, st.none() | values).map(
    lambda pair: pair[0] if pair[1] is None else {OFF: pair[1], **pair[0]}
)


def curve(**values: float) -> dict[int, Interval]:
    """``curve(s1=100, s4=120)``, each known to 0.5 %."""
    return {int(name[1:]): exactly(value, 0.005) for name, value in values.items()}


def load(concurrency: int, batch: int | None = None, **values: float) -> Load:
    return Load(concurrency, batch or concurrency, curve(**values))


# ---- the tie rule -----------------------------------------------------------------------------


@given(curves)
def test_the_smallest_of_those_that_nothing_beats_is_best(curve: Mapping[int, Interval]) -> None:
    best = best_steps(curve)
    top = max(curve.values(), key=lambda value: value.value)
    assert is_tie(curve[best], top)
    assert not any(is_tie(value, top) for steps, value in curve.items() if steps < best)


@given(curves_with_off)
def test_off_is_chosen_only_where_it_beats_every_draft(curve: Mapping[int, Interval]) -> None:
    drafts = [value for steps, value in curve.items() if steps != OFF]
    top, off = max(drafts, key=lambda value: value.value), curve.get(OFF)
    wins = off is not None and off.value > top.value and not is_tie(off, top)
    assert (best_steps(curve) == OFF) == wins
    assert best_steps(curve, with_off=False) != OFF


@given(curves_with_off, st.floats(0.01, 100))
def test_units_do_not_matter(curve: Mapping[int, Interval], factor: float) -> None:
    scaled = {s: Interval(v.value * factor, v.low * factor, v.high * factor)
              for s, v in curve.items()}  # fmt: skip
    assert best_steps(scaled) == best_steps(curve)


def test_a_flat_curve_wants_the_fewest_steps() -> None:
    assert best_steps(curve(s2=1000, s3=1003, s4=1004)) == 2
    assert best_steps(curve(s2=1000, s3=1030, s4=1034)) == 3


# ---- the table --------------------------------------------------------------------------------


def test_deep_drafts_for_one_and_shallow_ones_under_load() -> None:
    """The published shape: 4 steps at batch 1, 2 at batch 64 (SGLang pull request 22246)."""
    found = tiers([
        load(1, s1=162, s2=188, s3=195, s4=203), load(16, s1=1268, s2=1451, s3=1531, s4=1500),
        load(64, s1=3353, s2=3693, s3=3555, s4=3400),
    ])  # fmt: skip
    assert [tier.steps for tier in found] == [4, 3, 2]
    assert found[0].batch == 1 and 1 < found[1].batch <= 12
    assert 16 < found[2].batch <= 48


def test_the_change_lies_where_the_curves_cross() -> None:
    early = tiers([load(1, s2=90, s4=92), load(64, s2=1000, s4=700)])
    late = tiers([load(1, s2=60, s4=92), load(64, s2=1000, s4=960)])
    assert 1 < early[1].batch < late[1].batch <= 48


def test_one_best_for_all_loads_is_one_tier() -> None:
    assert tiers([load(1, s3=100, s4=90), load(16, s3=900, s4=800)]) == (Tier(1, 3),)


def test_off_only_where_the_server_can_do_without() -> None:
    loads = [load(1, s0=80, s3=100), load(64, s0=1000, s1=900, s3=700)]
    assert [tier.steps for tier in tiers(loads)] == [3, 0]
    assert [tier.steps for tier in tiers(loads, with_off=False)] == [3, 1]


def test_loads_that_the_server_cannot_tell_apart_share_a_tier() -> None:
    """Thirteen slots: 16 and 32 requests in flight both are a batch of 13."""
    found = tiers([
        load(1, s2=80, s4=100), load(16, 13, s2=1000, s4=990), load(32, 13, s2=1000, s4=700),
    ])  # fmt: skip
    assert [tier.steps for tier in found] == [4, 2]
    assert found[1].batch <= 13


several = st.lists(
    st.tuples(st.integers(1, 128), curves_with_off),
    min_size=1,
    max_size=5,
    unique_by=lambda pair: pair[0],
)
loads = several.map(lambda pairs: [Load(c, c, curve) for c, curve in sorted(pairs, key=_first)])


def _first(pair: tuple[int, object]) -> int:
    return pair[0]


def steps_at(table: Iterable[Tier], batch: int) -> int:
    """Steps of the tier that a batch falls into."""
    found = sorted(table)
    return [tier for tier in found if tier.batch <= max(batch, found[0].batch)][-1].steps


@given(loads)
def test_every_load_gets_the_steps_that_are_best_for_it(loads: list[Load]) -> None:
    found = tiers(loads)
    assert found[0].batch == 1
    assert all(a.batch < b.batch and a.steps != b.steps for a, b in itertools.pairwise(found))
    for one in loads:
        neighbours = [other.batch for other in loads if other.batch != one.batch]
        if all(other > 2 * one.batch or other < one.batch / 2 for other in neighbours):
            assert steps_at(found, one.batch) == best_steps(one.curve)


@pytest.mark.parametrize(("batch", "steps"), [(1, 4), (8, 4), (9, 2), (500, 2)])
def test_a_batch_goes_to_the_tier_below(batch: int, steps: int) -> None:
    assert steps_at((Tier(9, 2), Tier(1, 4)), batch) == steps
