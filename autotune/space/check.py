"""What makes a search space impossible, named flag by flag so that a loader can point at a line."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import NamedTuple

from autotune.core.trial import FlagValue
from autotune.space.parameter import Choice, IntegerRange, Parameter
from autotune.space.rules import DRAFT, LIMITS, MEMORY, STEPS, TOPK, draft_range
from autotune.space.tree import DraftTree

_FLAG = re.compile(r"[a-z][a-z0-9_]*")
_SLIP_CUTOFF = 0.9
"""So near to a flag with rules of its own, another name is a slip: SGLang has none as near."""


class Problem(NamedTuple):
    """Why a space cannot be searched, and the flag to change (empty: the whole space)."""

    flag: str
    reason: str


def find_problem(
    parameters: Mapping[str, Parameter], fixed: Mapping[str, FlagValue]
) -> Problem | None:
    """The first problem; None for a space in which every draw can be made legal."""
    if not parameters:
        return Problem("", "no flag is searched: give at least one under 'parameters'")
    domains: dict[str, tuple[FlagValue, ...]] = {f: p.values() for f, p in parameters.items()}
    for flag, value in fixed.items():
        if flag in parameters:
            return Problem(flag, f"{flag} is both searched and fixed: keep one")
        if isinstance(value, float) and not math.isfinite(value):
            return Problem(flag, f"{flag} is fixed at {value}, which is not a finite number")
        domains[flag] = (value,)
    for flag, values in domains.items():
        reason = _name_problem(flag) or _limit_problem(flag, values)
        if reason is not None:
            return Problem(flag, reason)
    return _tree_problem(parameters, domains)


def draft_tree(
    parameters: Mapping[str, Parameter], fixed: Mapping[str, FlagValue]
) -> DraftTree | None:
    """The draft tree of a space without problems; None where it holds neither steps nor topk."""
    domains: dict[str, tuple[FlagValue, ...]] = {f: p.values() for f, p in parameters.items()}
    domains |= {flag: (value,) for flag, value in fixed.items()}
    return _tree(domains) if STEPS in domains else None


def _name_problem(flag: str) -> str | None:
    plain = flag.lstrip("-").replace("-", "_")
    if _FLAG.fullmatch(flag) is None:
        if _FLAG.fullmatch(plain):
            return f"write {flag!r} with underscores: {plain}"
        return f"{flag!r} is not a flag name: lower-case letters, digits and underscores"
    close = get_close_matches(flag, LIMITS, n=1, cutoff=_SLIP_CUTOFF)
    if close and flag not in LIMITS:
        return f"there is no flag {flag!r}: did you mean {close[0]!r}?"
    return None


def _limit_problem(flag: str, values: tuple[FlagValue, ...]) -> str | None:
    if flag not in LIMITS:
        return None
    low, high = LIMITS[flag]
    whole = flag != MEMORY
    for value in values:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or (whole and not isinstance(value, int)):
            return f"{flag} takes {'whole numbers' if whole else 'numbers'}, not {value!r}"
        if not low <= float(value) <= high:
            return f"{flag} goes from {low} to {high}, and {value} is outside"
    return None


def _tree_problem(
    parameters: Mapping[str, Parameter], domains: Mapping[str, tuple[FlagValue, ...]]
) -> Problem | None:
    reason = _companion_problem(parameters, domains)
    if reason is not None or STEPS not in domains:
        return reason
    tree = _tree(domains)
    for topk in tree.topks:
        legal = tree.steps_for(topk)
        if not legal:
            return Problem(DRAFT if DRAFT in domains else TOPK, _no_steps(tree, topk))
        if isinstance(parameters.get(STEPS), Choice) and legal != tree.steps:
            # Optuna can narrow a range from one trial to the next, but not a choice.
            lost = next(steps for steps in tree.steps if steps not in legal)
            return Problem(
                STEPS,
                f"{STEPS} {lost} has no legal {DRAFT} with {TOPK} {topk}: "
                f"give {STEPS} as low and high, or widen {DRAFT}",
            )
    return None


def _companion_problem(
    parameters: Mapping[str, Parameter], domains: Mapping[str, tuple[FlagValue, ...]]
) -> Problem | None:
    """Steps, topk and draft tokens come together.

    Source: SGLang 0.5.23, speculative_hook.py:1159, asserts all three or none. Draft tokens alone
    are a setting of NGRAM and DFLASH, which know no steps, and stay free.
    """
    for flag, other in ((STEPS, TOPK), (TOPK, STEPS)):
        if flag in domains and other not in domains:
            reason = f"{flag} needs {other} beside it, searched or fixed: SGLang takes all or none"
            return Problem(flag, reason)
    if STEPS not in domains:
        return None
    if DRAFT not in domains and domains[TOPK] != (1,):
        return Problem(TOPK, f"{TOPK} above 1 needs {DRAFT} beside it, searched or fixed")
    draft = parameters.get(DRAFT)
    if draft is not None and not (isinstance(draft, IntegerRange) and draft.step == 1):
        return Problem(
            DRAFT,
            f"{DRAFT} takes low and high without step, because its legal range moves with "
            f"{STEPS} and {TOPK}",
        )
    return None


def _tree(domains: Mapping[str, tuple[FlagValue, ...]]) -> DraftTree:
    steps, topks = (tuple(int(value) for value in domains[flag]) for flag in (STEPS, TOPK))
    if DRAFT not in domains:
        return DraftTree(steps, topks)
    return DraftTree(steps, topks, int(domains[DRAFT][0]), int(domains[DRAFT][-1]))


def _no_steps(tree: DraftTree, topk: int) -> str:
    ends = [draft_range(steps, topk) for steps in tree.steps]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return (
        f"no configuration is legal with {TOPK} {topk}: it takes {low} to {high} draft tokens, "
        f"and {DRAFT} allows {tree.draft_low_tok} to {tree.draft_high_tok}"
    )
