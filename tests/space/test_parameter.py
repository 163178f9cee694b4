from __future__ import annotations

from decimal import Decimal

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution
from optuna.trial import FixedTrial

from autotune.core.trial import FlagValue
from autotune.errors import SpaceError
from autotune.space import Choice, DecimalRange, IntegerRange, Parameter, Switch
from autotune.space.parameter import MAX_VALUES

FRACTION = DecimalRange(0.60, 0.95, 0.01)
KINDS: list[Parameter] = [
    IntegerRange(1, 8),
    IntegerRange(2048, 8192, 2048),
    FRACTION,
    DecimalRange(0.3, 1.3, 0.1),
    DecimalRange(0, 1, 0.125),
    Choice((1, 2, 4, 8)),
    Choice(("fa3", "flashinfer")),
    Choice((0.5, 1, "auto")),
    Switch(),
]
any_kind = pytest.mark.parametrize("parameter", KINDS, ids=lambda p: p.describe())


@any_kind
def test_lists_distinct_values_that_it_contains(parameter: Parameter) -> None:
    values = parameter.values()
    assert len(set(values)) == len(values) == parameter.n_values
    assert all(parameter.contains(value) for value in values)


@any_kind
def test_leaves_its_own_values_as_they_are(parameter: Parameter) -> None:
    for value in parameter.values():
        for same in (parameter.coerce(value), parameter.nearest(value)):
            assert same == value
            assert type(same) is type(value)


@any_kind
def test_reads_values_that_are_spelled_as_text(parameter: Parameter) -> None:
    assert [parameter.coerce(str(value)) for value in parameter.values()] == list(
        parameter.values()
    )


@any_kind
def test_samples_from_its_own_distribution(parameter: Parameter) -> None:
    distribution: BaseDistribution = parameter.distribution()
    for value in parameter.values():
        assert distribution._contains(distribution.to_internal_repr(value))
        trial = FixedTrial({"flag": value})
        assert parameter.suggest(trial, "flag") == value
        assert trial.distributions["flag"] == distribution


@any_kind
@pytest.mark.parametrize("value", ["", "triton", "1.2.3", "nan", "inf"])
def test_keeps_words_that_mean_nothing_to_it(parameter: Parameter, value: str) -> None:
    assert parameter.coerce(value) == value
    assert not parameter.contains(value)


@pytest.mark.parametrize("value", [0.92, 0.9199999, 0.920000001, 0.91999999999999993, "0.92"])
def test_decimals_are_exact_in_spite_of_rounding_noise(value: FlagValue) -> None:
    assert repr(FRACTION.coerce(value)) == "0.92"
    assert FRACTION.contains(value)


def test_decimal_grid_reads_as_a_person_writes_it() -> None:
    assert [repr(v) for v in DecimalRange(0.1, 0.5, 0.1).values()] == [
        "0.1", "0.2", "0.3", "0.4", "0.5",
    ]  # fmt: skip
    assert all(len(repr(v)) <= 4 for v in FRACTION.values())


@given(st.integers(-50, 50), st.integers(0, 40), st.sampled_from(["0.1", "0.01", "0.25", "0.003"]))
def test_decimal_grid_is_exact_for_any_range(first: int, n: int, step: str) -> None:
    exact = [Decimal(step) * i for i in range(first, first + n + 1)]
    parameter = DecimalRange(float(exact[0]), float(exact[-1]), float(step))
    assert parameter.values() == tuple(float(value) for value in exact)


def test_numbers_off_the_grid_are_kept_and_not_contained() -> None:
    assert FRACTION.coerce(0.853) == 0.853
    assert FRACTION.coerce(2) == 2.0
    assert not FRACTION.contains(0.853)
    assert not FRACTION.contains(0.96)
    assert IntegerRange(1, 8).coerce(9.0) == 9
    assert not IntegerRange(1, 8).contains(2.5)
    assert not IntegerRange(2, 8, 2).contains(3)


def test_true_is_no_number() -> None:
    for parameter in (IntegerRange(0, 2), DecimalRange(0.0, 2.0, 0.5), Choice((0, 1))):
        assert parameter.coerce(True) is True
        assert not parameter.contains(True)
    assert not Switch().contains(1)


def test_takes_numpy_numbers_which_samplers_hand_over() -> None:
    numpy = pytest.importorskip("numpy")
    assert type(IntegerRange(1, 8).coerce(numpy.int64(3))) is int
    assert repr(FRACTION.coerce(numpy.float64(0.9199999))) == "0.92"
    assert Choice((1, 2)).coerce(numpy.int64(2)) == 2


@pytest.mark.parametrize(
    ("parameter", "value", "expected"),
    [
        (IntegerRange(1, 8), 99, 8),
        (IntegerRange(1, 8), -3.5, 1),
        (IntegerRange(2, 8, 2), 5, 4),
        (FRACTION, 0.853, 0.85),
        (FRACTION, "0.2", 0.6),
        (Choice((1, 2, 4, 8)), 5, 4),
        (Choice((1, 4, "auto")), 100, 4),
        (Choice(("fa3", "triton")), "triton", "triton"),
        (Switch(), "True", True),
    ],
)
def test_nearest_value(parameter: Parameter, value: FlagValue, expected: FlagValue) -> None:
    assert parameter.nearest(value) == expected


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        (IntegerRange(1, 8), "many", "'many' is not a number"),
        (FRACTION, True, "True is not a number"),
        (Choice(("fa3", "triton", "flashinfer")), 3, "3 is not fa3, triton or flashinfer"),
        (Switch(), "maybe", "'maybe' is not true or false"),
    ],
)
def test_nothing_is_nearest_to_nonsense(parameter: Parameter, value: FlagValue, words: str) -> None:
    with pytest.raises(SpaceError) as raised:
        parameter.nearest(value)
    assert raised.value.message == words


@pytest.mark.parametrize(
    ("low", "high", "step", "words"),
    [
        (8, 1, 1, "low 8 is above high 1"),
        (1, 8, 0, "step 0 must be above 0"),
        (1, 8, -1, "step -1 must be above 0"),
        (1, 8, 3, "steps of 3 from low 1 do not meet high 8: the last one is 7"),
        (1, 1_000_000, 1, f"1 to 1000000 holds more than {MAX_VALUES:,} values: give a step"),
    ],
)
def test_refuses_an_impossible_range(low: int, high: int, step: int, words: str) -> None:
    for kind in (IntegerRange, DecimalRange):
        with pytest.raises(SpaceError) as raised:
            kind(low, high, step)
        assert raised.value.message == words


def test_refuses_a_range_without_end() -> None:
    with pytest.raises(SpaceError, match="finite"):
        DecimalRange(0.0, float("inf"), 0.1)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ((), "choices is empty"),
        ((True, False), "true and false are not choices"),
        ((1, 2, 1.0), "1.0 is given twice in choices"),
        ((8, "8"), "8 is given twice in choices"),
        ((float("nan"),), "nan is not a finite number"),
    ],
)
def test_refuses_impossible_choices(choices: tuple[int | float | str, ...], words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        Choice(choices)


def test_describes_itself_in_words() -> None:
    assert [kind.describe() for kind in KINDS] == [
        "1 to 8",
        "2048 to 8192 in steps of 2048",
        "0.6 to 0.95 in steps of 0.01",
        "0.3 to 1.3 in steps of 0.1",
        "0 to 1 in steps of 0.125",
        "1, 2, 4 or 8",
        "fa3 or flashinfer",
        "0.5, 1 or auto",
        "true or false",
    ]
    assert Choice((4,)).describe() == "4"


def test_suggests_from_a_live_optuna_trial() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(20):
        trial = study.ask()
        for i, parameter in enumerate(KINDS):
            assert parameter.suggest(trial, f"flag_{i}") in parameter.values()
