"""The search space: which flags a study moves, within which values, and what is legal.

A configuration is a plain mapping of flags. Its *canonical form* is the one way to write it:
keys in the order of the space, ints as ints, decimals exact, and the draft tokens of a chain
(topk 1) at steps + 1, which is what SGLang would run anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from autotune.core.trial import Flags, FlagValue
from autotune.errors import SpaceError, nearest
from autotune.space.check import draft_tree, find_problem
from autotune.space.parameter import (
    Choice,
    DecimalRange,
    IntegerRange,
    Parameter,
    SuggestingTrial,
    Switch,
)
from autotune.space.removals import Removal, server_removals, tree_removals
from autotune.space.rules import (
    DRAFT,
    LIMITS,
    STEPS,
    TOPK,
    TREE_FLAGS,
    chain_draft_tokens,
    draft_range,
    why_rejected,
)
from autotune.space.server_rules import RULE_FLAGS, Refusal, ServerRules
from autotune.space.tree import DraftTree

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Key = tuple[tuple[str, FlagValue], ...]


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Immutable, and safe to share between threads and processes.

    Attributes:
        name: the word that finds it.
        title: one line for people.
        parameters: the searched flags, in order.
        fixed: flags with one value in every trial.
        server: what the server refuses of it; None: nothing is known of a server.

    Raises:
        SpaceError: the space is impossible, or cannot be searched without illegal draws.
    """

    name: str
    title: str
    parameters: Mapping[str, Parameter] = field(hash=False)
    fixed: Mapping[str, FlagValue] = field(default_factory=dict, hash=False)
    server: ServerRules | None = field(default=None, hash=False, repr=False, compare=False)
    tree: DraftTree | None = field(init=False, repr=False, compare=False)
    """The legal triples of steps, topk and draft tokens; None where the space has no steps."""
    removals: tuple[Removal, ...] = field(init=False, repr=False, compare=False)
    """What each rule takes out of the rectangle of all ranges."""

    def __post_init__(self) -> None:
        problem = find_problem(self.parameters, self.fixed)
        if problem is not None:
            raise SpaceError(f"space {self.name!r}: {problem.reason}")
        # Copies, so that nobody else holds the mappings that were just checked.
        object.__setattr__(self, "parameters", dict(self.parameters))
        object.__setattr__(self, "fixed", dict(self.fixed))
        object.__setattr__(self, "tree", draft_tree(self.parameters, self.fixed))
        removals = tree_removals(self.parameters, self.tree)
        if self.server is not None:
            removals += server_removals(self.parameters, self.fixed, self.tree, self.server)
        object.__setattr__(self, "removals", tuple(removals))
        if self.size == 0:
            raise SpaceError(
                f"space {self.name!r}: SGLang runs none of its configurations with this command: "
                f"{removals[-1].example} ({removals[-1].source})"
            )

    def on(self, server: ServerRules) -> SearchSpace:
        """This space on a server: without the configurations that the server refuses.

        Ranges and choices stay the same, so that a study goes on with the same distributions.

        Raises:
            SpaceError: nothing is left.
        """
        return replace(self, server=server)

    def reaching(self, ranges: Mapping[str, tuple[float, float]]) -> SearchSpace:
        """This space with longer ranges, on the same server.

        Trials of this space are trials of that one, and Optuna takes both in one study. A flag that
        is no range of this space stays as it is.

        Args:
            ranges: flag to its new lowest and highest value; a range never becomes shorter.
        """
        longer = {
            flag: parameter.reaching(*ranges[flag])
            for flag, parameter in self.parameters.items()
            if flag in ranges and isinstance(parameter, IntegerRange | DecimalRange)
        }
        return replace(self, parameters={**self.parameters, **longer}) if longer else self

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
        every searched flag. Values that were enqueued outside the space are taken as they are, and
        so is what only the server refuses: ``nearest_legal`` knows better.

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
        if self.tree is not None:
            if type(given[DRAFT]) is not int:
                return f"{DRAFT} is {given[DRAFT]!r}, which is not a whole number"
            reason = why_rejected(*(int(given[flag]) for flag in TREE_FLAGS))
            if reason is not None:
                return reason
        refusal = self._refusal(given)
        return None if refusal is None else f"{refusal.reason} ({refusal.source})"

    def nearest_legal(self, flags: Flags) -> dict[str, FlagValue]:
        """The canonical configuration nearest to a point of the rectangle of all ranges.

        Each flag moves to its nearest value; then, in this order, steps to those legal with topk
        and draft tokens to those legal with both. Fixed flags take their fixed value. Where the
        server refuses the result, as few flags as possible move on, those of the tree last.

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
        legal = self.canonical(moved | self._legal_triple(given | moved))
        return legal if self._refusal(legal) is None else self._nearest_accepted(legal)

    def with_legal_tree(self, flags: Flags) -> dict[str, FlagValue]:
        """A configuration of values of the ranges, its tree made legal as ``nearest_legal`` does.

        Much cheaper than that; the server may refuse the result.
        """
        return {**flags, **self._legal_triple(flags)}

    def configurations(self) -> Iterator[dict[str, FlagValue]]:
        """Every legal configuration once, in canonical form."""
        rest = {
            f: p for f, p in self.parameters.items() if self.tree is None or f not in TREE_FLAGS
        }
        for triple in [()] if self.tree is None else self.tree.triples():
            chosen: dict[str, FlagValue] = dict(zip(TREE_FLAGS, triple, strict=False))
            for values in itertools.product(*(p.values() for p in rest.values())):
                flags = self.canonical(chosen | dict(zip(rest, values, strict=True)))
                if self._refusal(flags) is None:
                    yield flags

    @property
    def size(self) -> int:
        """How many legal configurations there are."""
        return self.raw_size - sum(removal.n for removal in self.removals)

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

    def _refusal(self, flags: Flags) -> Refusal | None:
        return None if self.server is None else self.server.refusal(flags)

    def _nearest_accepted(self, flags: Flags) -> dict[str, FlagValue]:
        """The nearest configuration that the server accepts; there is one, or no such space."""
        ruled = [name for name in self.parameters if name in RULE_FLAGS and name != DRAFT]
        ruled.sort(key=lambda name: name in TREE_FLAGS)
        for n_changed in range(1, len(ruled) + 1):
            for names in itertools.combinations(ruled, n_changed):
                ranked = (_by_distance(self.parameters[name], flags[name]) for name in names)
                for values in itertools.product(*ranked):
                    moved = {**flags, **dict(zip(names, values, strict=True))}
                    legal = self.canonical(moved | self._legal_triple(moved))
                    if self._refusal(legal) is None:
                        return legal
        return next(self.configurations())

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


def _by_distance(parameter: Parameter, value: FlagValue) -> list[FlagValue]:
    """The values of a parameter, the nearest number first; choices that are no numbers in order."""
    values = [other for other in parameter.values() if other != value]
    if isinstance(value, int | float):
        values.sort(key=lambda other: abs(other - value) if not isinstance(other, str) else 0)
    return values
