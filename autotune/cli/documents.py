"""What the commands print with ``--json``, as types: for ``autotune schema`` and for readers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Any, Literal

import msgspec

from autotune.cli.adaptive_table import Adaptive
from autotune.cli.event_lines import AnyLine, Line
from autotune.core.repeats import Verdict
from autotune.core.trial import FlagValue, Interval, TrialRecord
from autotune.explain import Explanation
from autotune.study.confirmation import Finalist

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Weights(msgspec.Struct, frozen=True):
    """Of the two goals in the score; together 1."""

    latency: float
    throughput: float


class Goal(msgspec.Struct, frozen=True):
    """The objective that a study was made for, or that it is seen under."""

    name: str
    weights: Weights


class Member(msgspec.Struct, frozen=True):
    """One measured configuration.

    Attributes:
        trial: its first launch that carries values.
        trials: all of its launches that do.
        flags: the searched flags.
        latency_s: of a reference turn, seconds, over its launches.
        throughput_tok_s: output tokens per second, over its launches and the serving loads.
        score: against the baseline; 0 is the baseline's own.
        gain_vs_baseline_pct: the score as percent.
        constraints: worst violation of each SLO, relative to its limit; above 0 is infeasible.
    """

    trial: int
    trials: list[int]
    flags: dict[str, FlagValue]
    latency_s: Interval
    throughput_tok_s: Interval
    score: float
    gain_vs_baseline_pct: float
    constraints: dict[str, float]


class WeightRange(msgspec.Struct, frozen=True):
    """From which to which weight of latency a trial has the highest measured score."""

    trial: int
    low: float
    high: float


class Counts(msgspec.Struct, frozen=True):
    """Trials by what became of them.

    Attributes:
        infeasible: measured, and outside a constraint.
        pruned: measured in part, as the rest could change nothing.
        by_kind: failed ones by the kind of their failure.
    """

    complete: int
    failed: int
    infeasible: int
    pruned: int
    by_kind: dict[str, int]


class Confirmed(msgspec.Struct, frozen=True):
    """What fresh launches say of what the search recommends.

    Attributes:
        winner: the trial that the search recommends.
        baseline: the baseline on its own fresh launches.
        finalists: the winner first.
        use: the trial whose flags to deploy.
        latency_weight: of the objective it was judged for.
        n_each: launches of each configuration that were asked for.
        n_left: launches still to be made.
        verdict: on the configuration to use, or on the winner where that is the baseline.
        is_confirmed: the flags to use are better than the baseline beyond the noise, or it itself.
    """

    winner: int
    baseline: Finalist
    finalists: list[Finalist]
    use: int
    latency_weight: float
    n_each: int
    n_left: int
    verdict: Verdict
    is_confirmed: bool


class Front(msgspec.Struct, frozen=True, kw_only=True):
    """A study as ``autotune pareto --json`` tells it; schema version 1.

    Attributes:
        schema: version of this document.
        simulated: every number comes from the simulated server.
        study: its name.
        objective: what the scores are of.
        baseline: your own flags; null where they carry no value.
        best: what to deploy; null where no configuration meets the constraints.
        knee: of the front; null where there is none.
        front: feasible configurations that no other beats at both goals, by rising latency.
        ties: pairs of the front that the measurements cannot tell apart.
        perhaps: feasible ones that only noise keeps off the front.
        hypervolume_frac: area of the front beyond the baseline, as a share of the baseline's
            latency times throughput; null without a baseline.
        weight_ranges: who has the highest score from which weight of latency to which.
        n_trials: of the search.
        confirmation: what fresh launches say; absent where none were made of what is best.
        n_foreign: trials that ended without a record that is understood; absent without any.
        off_wins: where no speculation is faster than what is best, in a sentence; absent where it
            is not.
    """

    schema: Literal[1]
    simulated: bool
    study: str
    objective: Goal
    baseline: Member | None
    best: Member | None
    knee: Member | None
    front: list[Member]
    ties: list[tuple[int, int]]
    perhaps: list[Member]
    hypervolume_frac: float | None
    weight_ranges: list[WeightRange]
    n_trials: Counts
    confirmation: Confirmed | msgspec.UnsetType = msgspec.UNSET
    n_foreign: int | msgspec.UnsetType = msgspec.UNSET
    off_wins: str | msgspec.UnsetType = msgspec.UNSET


class Whole(Front, frozen=True, kw_only=True):
    """A study as ``autotune show --json`` tells it: the front, then every record.

    Attributes:
        trials: records of the search, by number.
        confirm_launches: records of fresh launches; absent without any.
        adaptive_launches: records of launches whose steps follow the batch; absent without any.
    """

    trials: list[TrialRecord]
    confirm_launches: list[TrialRecord] | msgspec.UnsetType = msgspec.UNSET
    adaptive_launches: list[TrialRecord] | msgspec.UnsetType = msgspec.UNSET


class Finished(Front, frozen=True, kw_only=True):
    """What ``autotune optimize --json`` tells at its end: the front, and why the search stopped."""

    stopped: str


DOCUMENTS: Mapping[str, tuple[Any, str]] = {
    "record": (TrialRecord, "record.json of a trial, and what measure --json prints"),
    "events": (AnyLine, "each line of --events of optimize, confirm and adaptive"),
    "pareto": (Front, "pareto --json and confirm --json"),
    "show": (Whole, "show --json"),
    "optimize": (Finished, "optimize --json"),
    "adaptive": (Adaptive, "adaptive --json"),
    "explain": (Explanation, "explain --json"),
}
"""Each document by name: its type, and where it comes from."""


def schema_of(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a document.

    Args:
        name: one of ``DOCUMENTS``.
    """
    kind, origin = DOCUMENTS[name]
    found = msgspec.json.schema(kind)
    found.pop("discriminator", None)  # a word of OpenAPI: the enum of ``event`` says the same
    parts = found.pop("$defs")
    for part in parts.values():
        for base in (Line, Front):
            _describe_properties(part, inspect.getdoc(base) or "")
        part["description"] = _describe_properties(part, part["description"])
    return {
        "$schema": DIALECT,
        "title": f"autotune {name}",
        "description": f"Schema of {origin}.",
        **found,
        "$defs": parts,
    }


def _describe_properties(part: dict[str, Any], doc: str) -> str:
    """Moves what a docstring says of its attributes to where they stand; returns the rest of it."""
    text, _, rest = doc.partition("\n\nAttributes:\n")
    known, said = part.get("properties", {}), dict(_attributes(rest))
    if said.keys() <= known.keys():
        for name, meaning in said.items():
            known[name]["description"] = meaning
    return text


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    """``a, b: what they are`` with its continuation lines, once for each name."""
    for found in re.finditer(r"^([\w, ]+): ((?:.|\n(?=[ \n]))+)", dedent(text), re.MULTILINE):
        for name in found[1].split(", "):
            yield name, " ".join(found[2].split())
