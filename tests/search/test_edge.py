"""A best value at the end of its range: what is said, and when the search goes on beyond."""

from __future__ import annotations

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.objective import objective_named
from autotune.core.ranking import flag_key
from autotune.core.trial import Flags, FlagValue
from autotune.engine.sglang.command import LaunchCommand
from autotune.engine.sglang.limits import space_on
from autotune.search import recommend, sampler_named
from autotune.search.edge import Edge, edges, keep_ranges, kept_ranges, widening
from autotune.space import SearchSpace
from autotune.space.parameter import Choice, DecimalRange, IntegerRange
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from tests.search.histories import measured_record, new_study

AGENTIC = objective_named("agentic")
SPACE = SearchSpace(
    "short", "", {STEPS: IntegerRange(1, 4), TOPK: Choice((1, 2)), DRAFT: IntegerRange(2, 16),
                  MEMORY: DecimalRange(0.8, 0.9, 0.02)},
)  # fmt: skip


class Box:
    """A chain's speed: expected accept length over the time of a cycle, alone and under load."""

    def __init__(self, accepted: float, per_step: float, per_row: float) -> None:
        self.accepted, self.per_step, self.per_row = accepted, per_step, per_row

    def values(self, steps: int) -> tuple[float, float]:
        """One turn in s, tokens/s under load."""
        length = sum(self.accepted**i for i in range(steps + 1))
        alone = 1.0 + self.per_step * steps
        loaded = 1.6 + self.per_step * steps + self.per_row * 20 * (steps + 1)
        return 3.0 * alone / length, 900.0 * length / loaded

    def score(self, steps: int) -> float:
        return AGENTIC.score(*self.values(steps), self.values(1))

    def best(self, most: int) -> int:
        return max(range(1, most + 1), key=self.score)


EASY, HARD = Box(0.93, 0.04, 0.001), Box(0.5, 0.12, 0.02)


def chain(steps: int, fraction: float = 0.84) -> dict[str, FlagValue]:
    return {STEPS: steps, TOPK: 1, DRAFT: steps + 1, MEMORY: fraction}


def launched(study: optuna.Study, space: SearchSpace, flags: Flags, box: Box) -> None:
    study.enqueue_trial({name: flags[name] for name in space.parameters})
    trial = study.ask()
    flags = space.suggest(trial)
    latency, throughput = box.values(int(flags[STEPS]))
    record = measured_record(trial.number, flags)
    around = [{"value": v, "low": 0.995 * v, "high": 1.005 * v} for v in (latency, throughput)]
    record["objectives"] = {"latency_s": around[0], "throughput_tok_s": around[1]}
    for phase, value in zip(record["phases"][1:], (0.8, 1.25), strict=True):
        phase["output_tok_s"] = {name: value * v for name, v in around[1].items()}
    for phase in record["phases"]:
        phase["turn_latency_s"] = around[0]
        phase["accept_length"] = sum(box.accepted**i for i in range(int(flags[STEPS]) + 1))
    trial.set_user_attr("record", record)
    study.tell(trial, [latency, throughput])


def swept(box: Box, space: SearchSpace = SPACE, most: int = 4) -> optuna.Study:
    study = new_study(sampler_named("speculative", space, AGENTIC, seed=0))
    for steps in range(1, most + 1):
        flags = chain(steps)
        launched(study, space, {n: flags[n] for n in space.names}, box)
    return study


def at_the_end(box: Box, space: SearchSpace = SPACE) -> tuple[Edge, ...]:
    study = swept(box, space)
    return edges(study, space, AGENTIC, recommend(study, space, AGENTIC).flags)


def test_the_end_of_the_steps_is_named_with_what_lies_beyond() -> None:
    edge = at_the_end(EASY)[0]
    assert (edge.flag, edge.value, edge.side) == (STEPS, 4.0, "most")
    assert edge.expects_more and edge.beyond is not None and edge.beyond > 4
    truth = EASY.score(int(edge.beyond)) - EASY.score(4)
    assert 0.0 < edge.gain_frac < 1.5 * truth
    said = edge.text()
    assert said.startswith("the best steps, 4, are the most that were searched; the model expects ")
    assert said.endswith(f" % more at {edge.beyond:g}")


def test_an_optimum_inside_is_no_edge() -> None:
    assert not [e for e in at_the_end(HARD) if e.flag == STEPS]
    assert not widening(SPACE, at_the_end(HARD))


def test_one_step_is_the_end_of_all_ranges() -> None:
    study = swept(Box(0.2, 0.3, 0.05))
    assert edges(study, SPACE, AGENTIC, chain(1)) == ()


def test_the_search_goes_on_beyond_and_keeps_what_it_has() -> None:
    study = swept(EASY)
    found = widening(SPACE, edges(study, SPACE, AGENTIC, chain(4)))
    assert found is not None and "steps widened to 1 to " in found.text
    longer = SPACE.reaching(found.ranges)
    steps = longer.parameters[STEPS]
    assert isinstance(steps, IntegerRange) and 5 < steps.high <= 16 and steps.low == 1
    assert longer.parameters[TOPK] == SPACE.parameters[TOPK]
    assert all(longer.contains(flags) for flags in SPACE.configurations())
    assert longer.contains(chain(steps.high)), "the draft tokens of the longest chain fit"
    keep_ranges(study, found.ranges)
    assert SPACE.reaching(kept_ranges(study)) == longer
    assert longer.reaching(kept_ranges(study)) == longer, "twice is once"
    study.set_user_attr("widened", {STEPS: "far"})
    assert kept_ranges(study) == {}


@pytest.mark.parametrize("name", ["speculative", "tpe", "random", "grid", "sweep"])
def test_every_sampler_goes_on_in_the_same_study(name: str) -> None:
    study = swept(EASY)
    longer = SPACE.reaching({STEPS: (1, 9)})
    study.sampler = sampler_named(name, longer, AGENTIC, seed=0)
    before = {flag_key(t.user_attrs["record"]["flags"]) for t in study.trials}
    for _ in range(4):
        trial = study.ask()
        flags = longer.suggest(trial)
        assert longer.contains(flags) and flag_key(flags) not in before
        study.tell(trial, EASY.values(int(flags[STEPS])))


def test_it_never_goes_beyond_what_the_server_runs() -> None:
    """Adaptive speculation starts from 1, 3 or 7 steps."""
    words = ("python", "-m", "sglang.launch_server", "--model-path", "m",
             "--speculative-algorithm", "EAGLE", "--speculative-adaptive")  # fmt: skip
    space = SearchSpace("a", "", {STEPS: IntegerRange(1, 7)}, {TOPK: 1})
    placed = space_on(space, LaunchCommand.parse(words))
    study = new_study(sampler_named("speculative", space, AGENTIC, seed=0))
    for steps in (1, 3, 7):
        launched(study, space, {STEPS: steps, TOPK: 1, DRAFT: steps + 1}, Box(0.97, 0.02, 0.0))
    best = recommend(study, space, AGENTIC).flags
    assert best[STEPS] == 7
    found = edges(study, placed, AGENTIC, best)
    assert found[0].beyond is None and widening(placed, found) is None
    assert found[0].text().endswith("the server runs nothing beyond")
    elsewhere = edges(study, space, AGENTIC, best)[0]
    assert elsewhere.beyond is not None, "it is this server that does not"


def test_other_flags_are_told_and_not_widened() -> None:
    study = swept(HARD)
    found = edges(study, SPACE, AGENTIC, chain(2, 0.84) | {MEMORY: 0.84})
    assert found == ()
    launched(study, SPACE, chain(2, 0.9), HARD)
    (edge,) = edges(study, SPACE, AGENTIC, chain(2, 0.9))
    assert (edge.flag, edge.side) == (MEMORY, "most")
    assert edge.text().startswith("the best memory fraction, 0.9, is the most that was searched; ")
    assert widening(SPACE, (edge,)) is None


def test_a_list_of_steps_cannot_grow() -> None:
    """Optuna keeps the choices of a study as they are."""
    space = SearchSpace("list", "", {STEPS: Choice((1, 2, 4))}, {TOPK: 1})
    assert space.reaching({STEPS: (1, 9)}) == space


@settings(max_examples=10)
@given(
    accepted=st.floats(0.3, 0.9),
    per_step=st.floats(0.03, 0.25),
    per_row=st.floats(0.0005, 0.03),
)
def test_it_never_widens_where_there_is_clearly_less_beyond(
    accepted: float, per_step: float, per_row: float
) -> None:
    box = Box(accepted, per_step, per_row)
    found = widening(SPACE, at_the_end(box))
    beyond = max(box.score(steps) for steps in range(5, 17))
    if beyond < box.score(4) - 0.03:
        assert found is None
    if found is not None:
        assert beyond > box.score(4) - 0.03
