from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Mapping

import optuna
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.core.trial import FlagValue
from autotune.errors import SpaceError
from autotune.space import (
    Choice,
    DecimalRange,
    IntegerRange,
    Parameter,
    SearchSpace,
    Switch,
    load_space,
    space_names,
)
from autotune.space.check import find_problem
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK, why_rejected

SPECULATIVE = load_space("speculative")
STEPS_ONLY = load_space("steps-only")
FREE = SearchSpace(
    "free",
    "no draft tree at all",
    {
        "chunked_prefill_size": Choice((2048, 4096, 8192)),
        "schedule_conservativeness": DecimalRange(0.3, 1.3, 0.1),
        "attention_backend": Choice(("fa3", "flashinfer")),
        "disable_overlap_schedule": Switch(),
    },
    {"page_size": 1},
)
SPACES = [SPECULATIVE, STEPS_ONLY, FREE]
every_space = pytest.mark.parametrize("space", SPACES, ids=lambda space: space.name)

OTHERS: Mapping[str, Parameter] = {
    MEMORY: DecimalRange(0.6, 0.64, 0.01),
    "attention_backend": Choice(("fa3", "triton")),
    "disable_overlap_schedule": Switch(),
}
STEP_KINDS: list[Parameter] = [
    IntegerRange(1, 4), IntegerRange(2, 6, 2), IntegerRange(5, 5), Choice((1, 3, 5)),
]  # fmt: skip
TOPK_KINDS: list[Parameter] = [Choice((1, 2, 4)), Choice((8, 1)), IntegerRange(1, 3), Choice((4,))]


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    """Small spaces of every shape: flags searched, fixed or left out, in any order."""
    parameters = {STEPS: draw(st.sampled_from(STEP_KINDS)), TOPK: draw(st.sampled_from(TOPK_KINDS))}
    low = draw(st.integers(2, 12))
    parameters[DRAFT] = IntegerRange(low, low + draw(st.integers(0, 20)))
    names = draw(st.sets(st.sampled_from(sorted(OTHERS))))
    parameters |= {name: OTHERS[name] for name in names}
    fixed: dict[str, FlagValue] = {"page_size": 1}
    for flag, values in ((STEPS, (1, 3)), (TOPK, (1, 4)), (DRAFT, (4, 5))):
        if draw(st.booleans()):
            del parameters[flag]
            fixed[flag] = draw(st.sampled_from(values))
    if draw(st.booleans()):
        parameters.pop(DRAFT, None)
        fixed.pop(DRAFT, None)
    order = draw(st.permutations(sorted(parameters)))
    ordered = {flag: parameters[flag] for flag in order}
    assume(find_problem(ordered, fixed) is None)
    return SearchSpace("drawn", "", ordered, fixed)


def rectangle(space: SearchSpace) -> st.SearchStrategy[dict[str, FlagValue]]:
    return st.fixed_dictionaries(
        {flag: st.sampled_from(list(p.values())) for flag, p in space.parameters.items()}
    )


def assert_legal(space: SearchSpace, flags: Mapping[str, FlagValue]) -> None:
    assert space.why_illegal(flags) is None
    assert space.contains(flags)
    assert tuple(flags) == space.names
    assert space.canonical(flags) == flags
    for flag, parameter in space.parameters.items():
        assert flags[flag] in parameter.values()
        assert type(flags[flag]) in {type(value) for value in parameter.values()}
    if space.tree is not None:
        assert why_rejected(*(int(flags[flag]) for flag in (STEPS, TOPK, DRAFT))) is None


@pytest.mark.parametrize("space", SPACES, ids=lambda s: s.name)
def test_every_configuration_is_legal_canonical_and_there_once(space: SearchSpace) -> None:
    keys = set()
    for flags in space.configurations():
        assert space.canonical(flags) == flags
        assert tuple(flags) == space.names
        keys.add(space.key(flags))
    assert len(keys) == space.size == sum(1 for _ in space.configurations())
    assert space.size <= space.raw_size


@given(spaces())
def test_any_space_holds_exactly_the_legal_points_of_its_rectangle(space: SearchSpace) -> None:
    configurations = list(space.configurations())
    for flags in configurations:
        assert_legal(space, flags)
    assert len({space.key(flags) for flags in configurations}) == len(configurations)
    assert space.size == len(configurations) > 0


def test_shipped_spaces_have_the_size_that_is_announced() -> None:
    assert (SPECULATIVE.size, SPECULATIVE.raw_size) == (949 * 36, 8 * 4 * 63 * 36)
    assert (STEPS_ONLY.size, STEPS_ONLY.raw_size) == (5, 5)
    assert (FREE.size, FREE.raw_size) == (132, 132)


@given(st.data())
def test_canonical_form_is_idempotent(data: st.DataObject) -> None:
    space = data.draw(st.sampled_from(SPACES))
    flags = data.draw(rectangle(space))
    once = space.canonical(flags)
    assert list(space.canonical(once).items()) == list(once.items())
    spelled = dict(reversed([(flag, str(value)) for flag, value in flags.items()]))
    assert list(space.canonical(spelled).items()) == list(once.items())
    assert space.key(spelled) == space.key(flags)


@given(st.data())
def test_nearest_legal_configuration_is_always_legal(data: st.DataObject) -> None:
    space = data.draw(st.one_of(st.sampled_from(SPACES), spaces()))
    flags = data.draw(rectangle(space))
    legal = space.nearest_legal(flags)
    assert_legal(space, legal)
    assert space.nearest_legal(legal) == legal
    if space.contains(flags):
        assert legal == space.canonical(flags)


@settings(max_examples=60)
@given(spaces(), st.integers(0, 1000))
def test_suggests_only_legal_configurations_of_any_space(space: SearchSpace, seed: int) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    for _ in range(3):
        trial = study.ask()
        flags = space.suggest(trial)
        assert_legal(space, flags)
        assert set(trial.params) == set(space.parameters)
        study.tell(trial, 1.0)


@every_space
@pytest.mark.parametrize(
    "sampler",
    [
        optuna.samplers.RandomSampler(seed=1),
        optuna.samplers.TPESampler(seed=1, n_startup_trials=5),
        optuna.samplers.TPESampler(seed=1, n_startup_trials=5, multivariate=True, group=True),
    ],
    ids=["random", "tpe", "tpe-multivariate"],
)
def test_suggests_legal_configurations_whatever_the_sampler(
    space: SearchSpace, sampler: optuna.samplers.BaseSampler
) -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)
    for _ in range(30):
        trial = study.ask()
        flags = space.suggest(trial)
        assert_legal(space, flags)
        assert set(trial.params) == set(space.parameters)
        assert {flag: trial.params[flag] for flag in space.parameters} == pytest.approx(
            {flag: flags[flag] for flag in space.parameters}
        )
        load = sum(value for value in flags.values() if not isinstance(value, str))
        study.tell(trial, [load, 1 / (1 + load)])


class FixedPoints(optuna.samplers.RandomSampler):
    """Draws points of the rectangle, legal or not, as a sampler with a model would."""

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, optuna.distributions.BaseDistribution]:
        return SPECULATIVE.distributions()

    def sample_relative(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        search_space: dict[str, optuna.distributions.BaseDistribution],
    ) -> dict[str, object]:
        return {STEPS: 3, TOPK: 1 if trial.number % 2 else 2, DRAFT: 40, MEMORY: 0.88}


def test_a_model_may_propose_any_point_of_the_fixed_distributions() -> None:
    study = optuna.create_study(sampler=FixedPoints(seed=0))
    for _ in range(6):
        trial = study.ask()
        flags = SPECULATIVE.suggest(trial)
        assert_legal(SPECULATIVE, flags)
        assert (flags[STEPS], flags[MEMORY]) == (3, 0.88)
        study.tell(trial, 0.0)


def test_distributions_span_every_legal_configuration() -> None:
    distributions = SPECULATIVE.distributions()
    assert list(distributions) == list(SPECULATIVE.parameters)
    for flags in SPECULATIVE.configurations():
        for flag, distribution in distributions.items():
            assert distribution._contains(distribution.to_internal_repr(flags[flag]))


def test_an_enqueued_baseline_outside_the_space_is_taken_as_it_is() -> None:
    study = optuna.create_study()
    baseline = {STEPS: 12, TOPK: 1, DRAFT: 13, MEMORY: 0.853}
    study.enqueue_trial(baseline)
    with pytest.warns(UserWarning, match="out of range"):
        flags = SPECULATIVE.suggest(study.ask())
    assert flags == baseline
    assert SPECULATIVE.why_illegal(flags) == f"{STEPS} is 12, and the space has 1 to 8"


def test_steps_are_kept_to_those_that_leave_legal_draft_tokens() -> None:
    space = SearchSpace(
        "narrow", "", {STEPS: IntegerRange(1, 8), TOPK: Choice((1, 4)), DRAFT: IntegerRange(6, 7)}
    )
    triples = {(c[TOPK], c[STEPS], c[DRAFT]) for c in space.configurations()}
    assert {t for t in triples if t[0] == 1} == {(1, 5, 6), (1, 6, 7)}
    assert {steps for topk, steps, _ in triples if topk == 4} == set(range(2, 9))
    assert space.nearest_legal({STEPS: 1, TOPK: 1, DRAFT: 7}) == {STEPS: 5, TOPK: 1, DRAFT: 6}


def test_a_chain_has_steps_plus_one_draft_tokens_whatever_is_asked() -> None:
    flags = {STEPS: 3, TOPK: 1, DRAFT: 64, MEMORY: 0.9199999}
    assert SPECULATIVE.canonical(flags) == {STEPS: 3, TOPK: 1, DRAFT: 4, MEMORY: 0.92}
    assert SPECULATIVE.key(flags) == SPECULATIVE.key(flags | {DRAFT: 5})
    assert not SPECULATIVE.contains(flags)


def test_a_chain_space_completes_all_three_flags() -> None:
    assert STEPS_ONLY.canonical({STEPS: 4}) == {STEPS: 4, TOPK: 1, DRAFT: 5}
    assert STEPS_ONLY.contains({STEPS: 4})
    assert STEPS_ONLY.contains({STEPS: 4, TOPK: 1, DRAFT: 5})
    trial = optuna.create_study().ask()
    assert list(STEPS_ONLY.suggest(trial)) == [STEPS, TOPK, DRAFT]
    assert list(trial.params) == [STEPS]


def test_canonical_form_keeps_values_that_are_off_the_grid_and_flags_that_are_missing() -> None:
    assert SPECULATIVE.canonical({MEMORY: 0.853}) == {MEMORY: 0.853}
    assert list(FREE.canonical({"attention_backend": "triton"})) == [
        "attention_backend", "page_size",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("space", "flags", "reason"),
    [
        (SPECULATIVE, {STEPS: 3, TOPK: 1, DRAFT: 4}, f"{MEMORY} is missing"),
        (
            SPECULATIVE, {STEPS: 3, TOPK: 1, DRAFT: 4, MEMORY: 0.853},
            f"{MEMORY} is 0.853, and the space has 0.6 to 0.95 in steps of 0.01",
        ),
        (
            SPECULATIVE, {STEPS: 3, TOPK: 3, DRAFT: 4, MEMORY: 0.85},
            f"{TOPK} is 3, and the space has 1, 2, 4 or 8",
        ),
        (
            SPECULATIVE, {STEPS: 1, TOPK: 2, DRAFT: 8, MEMORY: 0.85},
            f"{DRAFT} 8 is more than the draft tree can hold: 3 with {STEPS} 1 and {TOPK} 2, "
            "and SGLang crashes in graph capture",
        ),
        (
            SPECULATIVE, {STEPS: 3, TOPK: 1, DRAFT: 8, MEMORY: 0.85},
            f"with {TOPK} 1 and {STEPS} 3 SGLang sets {DRAFT} to 4 (steps + 1), not 8",
        ),
        (STEPS_ONLY, {STEPS: 3, TOPK: 4}, f"{TOPK} is 4, and the space fixes it at 1"),
        (STEPS_ONLY, {STEPS: "deep"}, f"{STEPS} is deep, and the space has 1 to 5"),
        (
            STEPS_ONLY, {STEPS: 3, DRAFT: "some"},
            f"{DRAFT} is 'some', which is not a whole number",
        ),
        (
            STEPS_ONLY, {"speculative_num_step": 3},
            f"space 'steps-only' has no flag 'speculative_num_step': did you mean '{STEPS}'?",
        ),
    ],
)  # fmt: skip
def test_says_why_a_configuration_is_illegal(
    space: SearchSpace, flags: dict[str, FlagValue], reason: str
) -> None:
    assert space.why_illegal(flags) == reason
    assert not space.contains(flags)


def test_unknown_flags_are_refused_with_the_nearest_name() -> None:
    for method in (SPECULATIVE.canonical, SPECULATIVE.key, SPECULATIVE.nearest_legal):
        with pytest.raises(SpaceError, match="did you mean 'mem_fraction_static'"):
            method({"mem_fraction": 0.9})


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({STEPS: 3, TOPK: 2, MEMORY: 0.9}, f"{DRAFT} is missing"),
        ({STEPS: 3, TOPK: 1}, f"{MEMORY} is missing"),
        ({STEPS: "deep", TOPK: 1, DRAFT: 4, MEMORY: 0.9}, f"{STEPS}: 'deep' is not a number"),
    ],
)
def test_nothing_legal_is_near_an_unfinished_point(flags: dict[str, FlagValue], words: str) -> None:
    with pytest.raises(SpaceError) as raised:
        SPECULATIVE.nearest_legal(flags)
    assert raised.value.message == words


def test_far_points_move_to_the_edge() -> None:
    far = {STEPS: 99, TOPK: 99, DRAFT: 999, MEMORY: 2}
    assert SPECULATIVE.nearest_legal(far) == {STEPS: 8, TOPK: 8, DRAFT: 64, MEMORY: 0.95}
    assert STEPS_ONLY.nearest_legal({STEPS: 9, TOPK: 4, DRAFT: 30}) == {
        STEPS: 5, TOPK: 1, DRAFT: 6,
    }  # fmt: skip


def test_is_a_value_that_can_be_copied_pickled_and_hashed() -> None:
    for space in SPACES:
        assert pickle.loads(pickle.dumps(space)) == copy.deepcopy(space) == space
        assert hash(space) == hash(copy.copy(space))


def test_does_not_see_later_changes_of_the_mappings_it_was_made_from() -> None:
    parameters: dict[str, Parameter] = {"page_size": Choice((1, 64))}
    space = SearchSpace("mine", "", parameters)
    parameters.clear()
    assert space.size == 2


def test_names_of_shipped_spaces() -> None:
    assert space_names() == ("speculative", "steps-only")


def test_needs_no_optuna_until_it_is_asked_for_optuna_objects() -> None:
    code = (
        "import sys; from autotune.space import load_space; "
        "space = load_space('speculative'); next(space.configurations()); space.size; "
        "sys.exit('optuna' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
