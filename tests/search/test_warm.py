"""Earlier knowledge helps where it is right, and goes where launches speak against it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna

from autotune.core.objective import DIRECTIONS, PRESETS
from autotune.search.encoding import Encoder
from autotune.search.surrogate import Surrogate
from autotune.search.warm import (
    EarlierKnowledge,
    WarmStart,
    earlier_knowledge,
    keep_warm_start,
    observed,
)
from autotune.space import load_space
from autotune.space.rules import MEMORY
from benchmarks.search.tasks import world_named

SPACE = load_space("speculative")
TREES = ((3, 1, 4), (5, 4, 8), (1, 1, 2), (6, 1, 7), (4, 2, 6), (2, 1, 3))


def launches(family: str, seed: int) -> list[dict[str, Any]]:
    """Of one box, the same trees on every box, at the fraction of its owner."""
    world = world_named(family, seed)
    fraction = world.baseline[MEMORY]
    names = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")
    found = []
    for number, tree in enumerate(TREES):
        flags = {**dict(zip(names, tree, strict=True)), MEMORY: fraction}
        record = world.launch(SPACE.canonical(flags), number)
        if record["failure"] is None:
            found.append(record)
    return found


def inverted(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is better than the first launch is as much worse, and the reverse."""
    first, turned = records[0], copy.deepcopy(list(records))
    for record in turned:
        for name, value in record["objectives"].items():
            _turn(value, first["objectives"][name]["value"])
        for phase, base in zip(record["phases"], first["phases"], strict=True):
            _turn(phase["output_tok_s"], base["output_tok_s"]["value"])
            length = base["accept_length"] ** 2 / phase["accept_length"]
            phase["accept_length"] = max(1.0, length)
    return turned


def _turn(value: dict[str, float], base: float) -> None:
    factor = (base / value["value"]) ** 2
    for name in value:
        value[name] *= factor


def knowledge(records: Sequence[dict[str, Any]]) -> EarlierKnowledge:
    study = optuna.create_study(directions=DIRECTIONS)
    keep_warm_start(study, WarmStart(source="a test", records=tuple(records)))
    known = earlier_knowledge(study, SPACE)
    assert known is not None
    return known


def error(family: str, seed: int, n: int, earlier: EarlierKnowledge | None) -> tuple[float, int]:
    """RMS error (nats) of the score of trees not launched, and how many groups are believed."""
    seen = observed(WarmStart(source="", records=tuple(launches(family, seed))), SPACE)
    encoder = Encoder(SPACE)
    model = Surrogate(encoder, seen[:n], np.random.default_rng(0), 48, earlier)
    flags = [o.flags for o in seen]
    told = model.predict(flags, encoder.features(flags)).score(0.7).mean(axis=0)
    true = np.array([0.3 * o.throughput.log - 0.7 * o.latency.log for o in seen
                     if o.latency and o.throughput])  # fmt: skip
    off = (told - told[0]) - (true - true[0])
    return float(np.sqrt((off**2).mean())), len(model.belief.names)


FAMILIES = ("dense-8b-chat", "consumer-14b-24gb", "moe-30b-a3b")


def test_after_one_launch_an_earlier_study_of_the_kind_predicts_better() -> None:
    cold, warm = [], []
    for family in FAMILIES:
        earlier = knowledge(launches(family, 7))
        cold.append(error(family, 0, 1, None)[0])
        warm.append(error(family, 0, 1, earlier)[0])
    assert np.mean(warm) < 0.8 * np.mean(cold), (cold, warm)


def test_what_misleads_is_outweighed_after_three_launches() -> None:
    for family in FAMILIES:
        earlier = knowledge(inverted(launches(family, 7)))
        cold, _ = error(family, 0, 3, None)
        warm, _ = error(family, 0, 3, earlier)
        assert warm <= cold + 0.03, (family, cold, warm)


def test_an_ordinary_space_is_asked_for_the_best_of_before() -> None:
    from autotune.search import SpeculativeSampler
    from tests.search.histories import SPACES

    space = SPACES["ordinary"]
    all_of_it = space.configurations()
    records = [
        {"flags": next(all_of_it), "objectives": {
            "latency_s": {"value": value}, "throughput_tok_s": {"value": 1000.0}}}
        for value in (3.0, 1.0, 2.0)
    ]  # fmt: skip
    objective = PRESETS["agentic"]
    study = optuna.create_study(
        directions=DIRECTIONS, sampler=SpeculativeSampler(space, objective, seed=0)
    )
    keep_warm_start(study, WarmStart(source="a test", records=tuple(records)))
    base = next(iter(space.configurations()))
    study.enqueue_trial({name: base[name] for name in space.parameters})
    trial = study.ask()
    space.suggest(trial)
    study.tell(trial, [2.0, 900.0])
    assert space.suggest(study.ask()) == records[1]["flags"]
