"""What optuna-dashboard 0.21 gets wrong in a study's JSON, put right.

It reads constraints only in their list form (Optuna 5 writes one attribute for each), and its
best trials of a study with several objectives ignore constraints altogether, so that infeasible
trials are recommended. Numbers come with all their digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import FrozenTrial

from autotune.core.trial import AFTERWARDS

Document = dict[str, Any]
"""The answer to ``/api/studies/<id>``, or one trial of it."""

_DIGITS = (4, 6, 9)
_MOST = 1e9


def correct(document: Document, study: optuna.Study) -> None:
    """Sets the constraints and the best trials of a whole study to those of Optuna, in place.

    Launches after the search are none of its trials: they lose their values, from which the page
    works out for itself what is best, and keep them in their notes. Studies of preferences have
    best trials of another kind, and stay as they are.
    """
    if document.get("is_preferential"):
        return
    found = {trial.number: trial for trial in study.get_trials(deepcopy=False)}
    for shown in document["trials"]:
        trial = found.get(shown["number"])
        if trial is not None:
            shown["constraints"] = violations(trial)
            if _is_afterwards(trial):
                shown.pop("values", None)
    best = _best(study, list(found.values()))
    document["best_trials"] = [shown for shown in document["trials"] if shown["number"] in best]


def _best(study: optuna.Study, trials: Sequence[FrozenTrial]) -> set[int]:
    """Numbers of the best trials of the search."""
    searched = [trial for trial in trials if not _is_afterwards(trial)]
    if len(searched) == len(trials):
        return {trial.number for trial in study.best_trials}
    alone = optuna.create_study(directions=study.directions)
    alone.add_trials(searched)
    return {searched[trial.number].number for trial in alone.best_trials}


def _is_afterwards(trial: FrozenTrial) -> bool:
    """Launched to judge what the search found."""
    record = trial.user_attrs.get("record")
    role = record.get("role") if isinstance(record, Mapping) else trial.user_attrs.get("role")
    return isinstance(role, str) and role in AFTERWARDS


def violations(trial: FrozenTrial) -> list[float]:
    """Its constraints in either form, > 0 is infeasible; JSON knows neither NaN nor infinity."""
    limits = (float(value) for value in trial.constraints.values())
    return [_MOST if math.isnan(v) else max(-_MOST, min(v, _MOST)) for v in limits]


def shorten(document: Document) -> None:
    """Writes all numbers with the digits that people read, in place; the best trials stay best.

    Objective values keep as many digits as that takes: the page itself works out which trials
    dominate which. Call it after ``correct``.
    """
    for trial in document["trials"]:
        for parameter in trial["params"]:
            text = parameter["param_external_value"]
            parameter["param_external_value"] = short_number(text)
        for attribute in trial["user_attrs"]:
            attribute["value"] = short_number(attribute["value"])
    valued = [t for t in document["trials"] if all(map(_is_number, t.get("values") or [None]))]
    signs = [1 if d == "minimize" else -1 for d in document["directions"]]
    feasible = [all(v <= 0 for v in t["constraints"]) for t in valued]
    best = {t["number"] for t in document["best_trials"]}
    is_best = [t["number"] in best for t in valued]
    for digits in _DIGITS:
        short = [[float(f"{value:.{digits}g}") for value in t["values"]] for t in valued]
        points = [[s * v for s, v in zip(signs, values, strict=True)] for values in short]
        inside = [i for i, ok in enumerate(feasible) if ok]
        if _keeps([points[i] for i in inside], [is_best[i] for i in inside]):
            for trial, values in zip(valued, short, strict=True):
                trial["values"] = values
            return


def _keeps(points: Sequence[Sequence[float]], is_best: Sequence[bool]) -> bool:
    """Whether exactly the best are dominated by none; all goals are to be small."""
    best = [point for point, good in zip(points, is_best, strict=True) if good]

    def dominated(point: Sequence[float]) -> bool:
        return any(
            other != point and all(a <= b for a, b in zip(other, point, strict=True))
            for other in best
        )

    return all(dominated(point) != good for point, good in zip(points, is_best, strict=True))


def short_number(text: str) -> str:
    """A number with more than six significant digits in six; any other text as it is."""
    digits = text.removeprefix("-").replace(".", "", 1)
    if "." not in text or not digits.isdecimal() or len(digits.lstrip("0")) <= _DIGITS[1]:
        return text
    return f"{float(text):.{_DIGITS[1]}g}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def hide(document: Document, names: Sequence[str]) -> None:
    """Takes user attributes out of every trial and of the list of all, in place."""
    for trial in document["trials"]:
        trial["user_attrs"] = [a for a in trial["user_attrs"] if a["key"] not in names]
    document["union_user_attrs"] = [
        a for a in document["union_user_attrs"] if a["key"] not in names
    ]


def add_attribute(document: Document, name: str, values: Mapping[int, float]) -> None:
    """Gives trials one more numeric user attribute, by trial number, in place."""
    for trial in document["trials"]:
        if trial["number"] in values:
            text = f"{values[trial['number']]:.1f}"
            trial["user_attrs"].append({"key": name, "value": text})
    if values:
        document["union_user_attrs"].append({"key": name, "sortable": True})
