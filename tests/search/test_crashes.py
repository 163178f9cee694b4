from __future__ import annotations

import numpy as np
import pytest

from autotune.core.trial import Failure, FailureKind, Flags
from autotune.search import crashes
from autotune.search.encoding import Encoder
from autotune.search.observation import Observation
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from tests.search.histories import SPACES, at_random


def launched(flags: Flags, kind: FailureKind | None) -> Observation:
    if kind is None:
        return Observation(0, dict(flags), "measured")
    return Observation(0, dict(flags), "failed", failure=Failure(kind, "", "", ""))


def survival(name: str, seen: list[Observation], *asked: Flags) -> list[float]:
    encoder = Encoder(SPACES[name])
    points = encoder.features([o.flags for o in seen])
    lasts = np.full(len(seen), 0.0 if SPACES[name].tree else 1.0)
    return [float(p) for p in crashes.survival(seen, points, encoder.features(asked), lasts)]


def tree(steps: int, topk: int, draft: int, fraction: float = 0.85) -> Flags:
    return {STEPS: steps, TOPK: topk, DRAFT: draft, MEMORY: fraction}


def test_where_nothing_died_everything_lives() -> None:
    assert survival("speculative", [], tree(3, 1, 4)) == [1.0]
    assert survival("speculative", [launched(tree(3, 1, 4), None)], tree(8, 8, 64)) == [1.0]


@pytest.mark.parametrize("kind", [FailureKind.REJECTED_COMBINATION, FailureKind.BAD_FLAG])
def test_what_the_server_refuses_never_lives(kind: FailureKind) -> None:
    died = tree(3, 4, 9)
    same, near, far = survival(
        "speculative", [launched(died, kind)], died, tree(3, 4, 10), tree(1, 1, 2, 0.65)
    )
    assert same == 0.0 < near < far and far > 0.8


def test_a_crash_makes_its_neighbours_suspect_and_a_success_clears_them() -> None:
    died, near = tree(5, 8, 32), tree(5, 8, 30)
    seen = [launched(died, FailureKind.CRASHED)]
    suspect = survival("speculative", seen, near)[0]
    seen += [launched(near, None), launched(tree(5, 8, 31), None)]
    assert suspect < 0.7 < survival("speculative", seen, near)[0] + 0.1
    assert survival("speculative", seen, near)[0] > suspect


def test_a_death_for_memory_is_left_to_the_memory_model_where_there_is_one() -> None:
    died = tree(5, 8, 32)
    assert survival("speculative", [launched(died, FailureKind.RUNTIME_OOM)], died) == [1.0]


def test_a_backend_that_always_dies_is_kept_away_from() -> None:
    space, seen = SPACES["ordinary"], []
    for i in range(16):
        flags = at_random(space, i)
        dies = flags["attention_backend"] == "triton"
        seen.append(launched(flags, FailureKind.CRASHED if dies else None))
    new = at_random(space, 99)
    good, bad = survival(
        "ordinary", seen, *({**new, "attention_backend": b} for b in ("fa3", "triton"))
    )
    assert bad < 0.6 < good


def test_it_is_a_probability_whatever_died() -> None:
    space, kinds = SPACES["mixed"], list(FailureKind)
    seen = [launched(at_random(space, i), kinds[i % len(kinds)]) for i in range(40)]
    lives = np.array(survival("mixed", seen, *(at_random(space, i) for i in range(60))))
    assert (lives >= 0).all() and (lives <= 1).all()
