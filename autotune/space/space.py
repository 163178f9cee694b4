"""The search space: which flags a study moves, within which values, and what is legal.

A configuration is a plain mapping of flags. Its *canonical form* is the one way to write it:
keys in the order of the space, ints as ints, decimals exact, and the draft tokens of a chain
(topk 1) at steps + 1, which is what SGLang would run anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from autotune.core.trial import Flags, FlagValue
from autotune.errors import SpaceError, nearest
from autotune.space.check import draft_tree, find_problem
from autotune.space.parameter import Choice, IntegerRange, Parameter, SuggestingTrial, Switch
from autotune.space.rules import (
    DRAFT,
    LIMITS,
    STEPS,
    TOPK,
    chain_draft_tokens,
    draft_range,
    why_rejected,
)
from autotune.space.tree import DraftTree

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

TREE_FLAGS = (STEPS, TOPK, DRAFT)
Key = tuple[tuple[str, FlagValue], ...]


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Immutable, and safe to share between threads and processes.

    Attributes:
        name: the word that finds it.
        title: one line for people.
        parameters: the searched flags, in order.
        fixed: flags with one value in every trial.

    Raises:
        SpaceError: the space is impossible, or cannot be searched without illegal draws.
    """

    name: str
    title: str
    parameters: Mapping[str, Parameter] = field(hash=False)
    fixed: Mapping[str, FlagValue] = field(default_factory=dict, hash=False)
    tree: DraftTree | None = field(init=False, repr=False, compare=False)
    """The legal triples of steps, topk and draft tokens; None where the space has no steps."""

    def __post_init__(self) -> None:
        problem = find_problem(self.parameters, self.fixed)
        if problem is not None:
            raise SpaceError(f"space {self.name!r}: {problem.reason}")
        # Copies, so that nobody else holds the mappings that were just checked.
        object.__setattr__(self, "parameters", dict(self.parameters))
        object.__setattr__(self, "fixed", dict(self.fixed))
        object.__setattr__(self, "tree", draft_tree(self.parameters, self.fixed))

    @property
    def names(self) -> tuple[str, ...]:
        """Every flag of a configuration in canonical order: searched, then fixed.

        The draft tokens of a chain stand after steps and topk where the space leaves them out.
        """
        names = [*self.parameters, *self.fixed]
        if self.tree is not None and DRAFT not in names:
            names.insert(max(names.index(STEPS), names.index(TOPK)) + 1, DRAFT)
        return tuple(names)

    def suggest(self, trial: SuggestingTrial) -> dict[str, FlagValue]:
        """Asks an Optuna trial for every searched flag and returns a canonical configuration.

        The ranges of steps and of draft tokens are cut to what is legal with the answers before,
        so that any sampler draws legal configurations only and ``trial.params`` always holds
        every searched flag. Values that were enqueued outside the space are taken as they are.

        Raises:
            ValueError: an enqueued value is none of a flag's choices (Optuna refuses it).
        """
        drawn = self._suggest_tree(trial)
        for flag, parameter in self.parameters.items():
            if flag not in drawn:
                drawn[flag] = parameter.suggest(trial, flag)
        return self.canonical(drawn)

    def canonical(self, flags: Flags) -> dict[str, FlagValue]:
        """The canonical form of a configuration, with the fixed flags filled in.

        It changes how values are written, not what they are: a number outside its range stays
        there. A missing searched flag stays missing.

        Raises:
            SpaceError: a flag is not of this space.
        """
        given = self._coerced(flags)
        steps, topk = given.get(STEPS), given.get(TOPK)
        if self.tree is not None and topk == 1 and type(steps) is int and steps > 0:
            given[DRAFT] = chain_draft_tokens(steps)
        return {flag: given[flag] for flag in self.names if flag in given}

    def key(self, flags: Flags) -> Key:
        """A hashable identity: equal for configurations that SGLang runs alike."""
        return tuple(self.canonical(flags).items())

    def contains(self, flags: Flags) -> bool:
        """Whether the configuration, as it is given, is complete and legal."""
        return self.why_illegal(flags) is None

    def why_illegal(self, flags: Flags) -> str | None:
        """The first reason in one sentence; None for a complete, legal configuration."""
        try:
            given = self._coerced(flags)
        except SpaceError as error:
            return error.message
        for flag, value in self.fixed.items():
            if given[flag] != value:
                return f"{flag} is {given[flag]}, and the space fixes it at {value}"
        if self.tree is not None and given.get(TOPK) == 1 and DRAFT not in given:
            given[DRAFT] = self.canonical(flags).get(DRAFT, 0)
        for flag, parameter in self.parameters.items():
            if flag not in given:
                return f"{flag} is missing"
            if not parameter.contains(given[flag]):
                return f"{flag} is {given[flag]}, and the space has {parameter.describe()}"
        if self.tree is None:
            return None
        if type(given[DRAFT]) is not int:
            return f"{DRAFT} is {given[DRAFT]!r}, which is not a whole number"
        return why_rejected(*(int(given[flag]) for flag in TREE_FLAGS))

    def nearest_legal(self, flags: Flags) -> dict[str, FlagValue]:
        """The canonical configuration nearest to a point of the rectangle of all ranges.

        Each flag moves to its nearest value; then, in this order, steps to those legal with topk
        and draft tokens to those legal with both. Fixed flags take their fixed value.

        Raises:
            SpaceError: a flag is not of this space, or a searched one is missing (a chain needs
                no draft tokens) or is no number where one is due.
        """
        given = self.canonical(flags) | dict(self.fixed)
        moved: dict[str, FlagValue] = {}
        for flag, parameter in self.parameters.items():
            if flag not in given:
                raise SpaceError(f"{flag} is missing")
            try:
                moved[flag] = parameter.nearest(given[flag])
            except SpaceError as error:
                raise SpaceError(f"{flag}: {error.message}") from None
        return self.canonical(moved | self._legal_triple(given | moved))

    def configurations(self) -> Iterator[dict[str, FlagValue]]:
        """Every legal configuration once, in canonical form."""
        rest = {
            f: p for f, p in self.parameters.items() if self.tree is None or f not in TREE_FLAGS
        }
        for triple in [()] if self.tree is None else self.tree.triples():
            chosen: dict[str, FlagValue] = dict(zip(TREE_FLAGS, triple, strict=False))
            for values in itertools.product(*(p.values() for p in rest.values())):
                yield self.canonical(chosen | dict(zip(rest, values, strict=True)))

    @property
    def size(self) -> int:
        """How many legal configurations there are."""
        n = 1 if self.tree is None else self.tree.n_triples
        for flag, parameter in self.parameters.items():
            if self.tree is None or flag not in TREE_FLAGS:
                n *= parameter.n_values
        return n

    @property
    def raw_size(self) -> int:
        """How many points the ranges span, legal or not."""
        n = 1
        for parameter in self.parameters.values():
            n *= parameter.n_values
        return n

    def distributions(self) -> dict[str, BaseDistribution]:
        """One Optuna distribution per searched flag, the same in every trial.

        They span the rectangle, more than what is legal: see ``nearest_legal``.
        """
        return {flag: parameter.distribution() for flag, parameter in self.parameters.items()}

    def _suggest_tree(self, trial: SuggestingTrial) -> dict[str, FlagValue]:
        """Asks for topk, then steps, then draft tokens, as far as they are searched."""
        if self.tree is None:
            return {}
        drawn = {flag: self.fixed[flag] for flag in TREE_FLAGS if flag in self.fixed}
        if TOPK in self.parameters:
            drawn[TOPK] = self.parameters[TOPK].suggest(trial, TOPK)
        topk = int(drawn[TOPK])
        if STEPS in self.parameters:
            parameter = self.parameters[STEPS]
            legal = self.tree.steps_for(topk)
            if isinstance(parameter, IntegerRange) and legal:
                parameter = IntegerRange(legal[0], legal[-1], parameter.step)
            drawn[STEPS] = parameter.suggest(trial, STEPS)
        if DRAFT in self.parameters:
            steps = int(drawn[STEPS])
            # Empty only beside a value that was enqueued outside the space.
            drafts = self.tree.drafts_for(steps, topk)
            low, high = (drafts[0], drafts[-1]) if drafts else draft_range(steps, topk)
            drawn[DRAFT] = IntegerRange(low, high).suggest(trial, DRAFT)
        return drawn

    def _legal_triple(self, flags: Flags) -> dict[str, FlagValue]:
        if self.tree is None:
            return {}
        topk, asked = int(flags[TOPK]), int(flags[STEPS])
        steps = min(self.tree.steps_for(topk), key=lambda legal: abs(legal - asked))
        drafts = self.tree.drafts_for(steps, topk)
        # Draft tokens that are neither searched nor fixed are those of a chain: one legal value.
        draft_tok = int(flags[DRAFT]) if DRAFT in {**self.parameters, **self.fixed} else drafts[0]
        return {STEPS: steps, TOPK: topk, DRAFT: min(max(draft_tok, drafts[0]), drafts[-1])}

    def _coerced(self, flags: Flags) -> dict[str, FlagValue]:
        """The flags with the fixed ones filled in, each value in its own type."""
        names = self.names
        for flag in flags:
            if flag not in names:
                raise SpaceError(
                    f"space {self.name!r} has no flag {flag!r}: {nearest(flag, names)}"
                )
        return {flag: self._written(flag, value) for flag, value in {**self.fixed, **flags}.items()}

    def _written(self, flag: str, value: FlagValue) -> FlagValue:
        if flag in self.parameters:
            return self.parameters[flag].coerce(value)
        if flag not in self.fixed:
            return IntegerRange(*(int(limit) for limit in LIMITS[DRAFT])).coerce(value)
        fixed = self.fixed[flag]
        form = Switch() if isinstance(fixed, bool) else Choice((fixed,))
        return form.coerce(value)
