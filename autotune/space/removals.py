"""How many configurations each rule takes out of a space, counted without listing them all."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from autotune.core.trial import FlagValue
from autotune.space.parameter import Parameter
from autotune.space.rules import DRAFT, STEPS, TOPK, TREE_FLAGS
from autotune.space.server_rules import RULE_FLAGS, TRACK, Refusal, ServerRules
from autotune.space.tree import DraftTree

_CHAIN = Refusal(
    "chain",
    f"with {TOPK} 1 SGLang sets {DRAFT} to steps + 1: the others would be the same launch",
    "server_args.py:425 @0.4.6.post5, arg_groups/speculative_hook.py:1260 @0.5.23",
)
_CAPACITY = Refusal(
    "tree-capacity",
    f"more {DRAFT} than the draft tree can hold crash in graph capture",
    "speculative/eagle_utils.py @0.5.23: torch.topk over 1 + topk + (steps - 1) * topk ** 2",
)


class Removal(NamedTuple):
    """What one rule takes out.

    Attributes:
        n: configurations; each counts once, for the first rule against it.
        example: the reason against one of them.
    """

    rule: str
    n: int
    example: str
    source: str

    def describe(self) -> str:
        """One line for people."""
        s = "" if self.n == 1 else "s"
        return (
            f"rule {self.rule} removed {self.n:,} configuration{s}: {self.example} ({self.source})"
        )


def tree_removals(parameters: Mapping[str, Parameter], tree: DraftTree | None) -> list[Removal]:
    """What the draft tree itself takes out of the rectangle of all ranges."""
    if tree is None:
        return []
    n_draft = parameters[DRAFT].n_values if DRAFT in parameters else 1
    others = math.prod(p.n_values for flag, p in parameters.items() if flag not in TREE_FLAGS)
    lost: Counter[Refusal] = Counter()
    for topk in tree.topks:
        n_legal = sum(len(tree.drafts_for(steps, topk)) for steps in tree.steps)
        rule = _CHAIN if topk == 1 else _CAPACITY
        lost[rule] += (len(tree.steps) * n_draft - n_legal) * others
    return [Removal(r.rule, n, r.reason, r.source) for r, n in lost.items() if n > 0]


def server_removals(
    parameters: Mapping[str, Parameter],
    fixed: Mapping[str, FlagValue],
    tree: DraftTree | None,
    server: ServerRules,
) -> list[Removal]:
    """What a server refuses of the rest."""
    rest = [flag for flag in parameters if tree is None or flag not in TREE_FLAGS]
    ruled = [flag for flag in rest if flag in RULE_FLAGS]
    others = math.prod(parameters[flag].n_values for flag in rest if flag not in ruled)
    counts: Counter[str] = Counter()
    first: dict[str, Refusal] = {}
    reads_draft = any(TRACK in flags for flags in (parameters, fixed, server.flags))
    for triple, weight in _weighted_triples(tree, reads_draft):
        for values in itertools.product(*(parameters[flag].values() for flag in ruled)):
            flags = {**fixed, **triple, **dict(zip(ruled, values, strict=True))}
            refusal = server.refusal(flags)
            if refusal is not None:
                counts[refusal.rule] += weight * others
                first.setdefault(refusal.rule, refusal)
    return [Removal(rule, n, first[rule].reason, first[rule].source) for rule, n in counts.items()]


def _weighted_triples(
    tree: DraftTree | None, reads_draft: bool
) -> Iterator[tuple[dict[str, FlagValue], int]]:
    """The legal triples; those that no rule tells apart stand together, with their number."""
    if tree is None:
        yield {}, 1
        return
    for topk in tree.topks:
        for steps in tree.steps_for(topk):
            drafts = tree.drafts_for(steps, topk)
            chosen, weight = (drafts, 1) if reads_draft else (drafts[:1], len(drafts))
            for draft in chosen:
                yield {STEPS: steps, TOPK: topk, DRAFT: draft}, weight
