"""The samplers that are compared, all on the same canonical space, and how each recommends."""

from __future__ import annotations

import importlib.util

import numpy as np
from optuna.study import Study
from optuna.trial import TrialState

from autotune.core.objective import Objective
from autotune.core.ranking import FlagKey, flag_key
from autotune.core.trial import FlagValue
from autotune.search import SAMPLERS
from autotune.space import SearchSpace

BY_MODEL = frozenset({"speculative"})
"""Samplers whose recommendation is that of their model; the others' is the best observed score."""


def observed(study: Study, space: SearchSpace, objective: Objective) -> dict[str, FlagValue] | None:
    """The flags of the best measured score; the mean of configurations launched twice."""
    scores: dict[FlagKey, list[float]] = {}
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        key = flag_key(space.canonical(trial.params))
        latency_s, throughput_tok_s = trial.values
        score = objective.score(latency_s, throughput_tok_s, (1.0, 1.0))
        scores.setdefault(key, []).append(score)
    if not scores:
        return None
    best = max(scores, key=lambda key: float(np.mean(scores[key])))
    return space.canonical(dict(best))


def why_missing(name: str) -> str | None:
    """Why a sampler cannot take part here; None: it can."""
    if name == "gp" and importlib.util.find_spec("torch") is None:
        return "it needs torch, which is not installed"
    return None if name in SAMPLERS else f"one of {', '.join(SAMPLERS)}"
