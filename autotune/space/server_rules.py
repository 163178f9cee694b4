"""What one server refuses, or runs otherwise than asked, beside the rules of the draft tree.

Which rules hold depends on the release of SGLang and on the flags that its launch command gives in
every trial. Both come from outside, as plain facts, with the place where each was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from autotune.core.trial import Flags, FlagValue
from autotune.space.rules import DRAFT, STEPS, TOPK

ALGORITHM = "speculative_algorithm"
PAGE = "page_size"
BACKENDS = ("attention_backend", "prefill_attention_backend", "decode_attention_backend")
CHUNK = "chunked_prefill_size"
ADAPTIVE = "speculative_adaptive"
ADAPTIVE_FILE = "speculative_adaptive_config"
SAMPLING = "speculative_use_rejection_sampling"
DATA_PARALLEL = "enable_dp_attention"
STRATEGY = "mamba_radix_cache_strategy"
TRACK = "mamba_track_interval"

RULE_FLAGS = (
    STEPS, TOPK, DRAFT, ALGORITHM, PAGE, *BACKENDS, CHUNK, ADAPTIVE, ADAPTIVE_FILE, SAMPLING,
    DATA_PARALLEL, STRATEGY, TRACK,
)  # fmt: skip
"""Every flag that a rule reads: what a launch command says of them must be known."""

TREE_ALGORITHMS = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
"""Algorithms that read all three of steps, topk and draft tokens."""


class Refusal(NamedTuple):
    """Why a configuration is not worth a launch.

    Attributes:
        rule: a short name.
        reason: one sentence.
        source: where SGLang says so.
    """

    rule: str
    reason: str
    source: str


@dataclass(frozen=True, slots=True)
class Fact:
    """What holds for a release, and where it was read."""

    value: tuple[FlagValue, ...] | None
    source: str


@dataclass(frozen=True, slots=True)
class ServerRules:
    """The facts of one server.

    Attributes:
        release: of SGLang, for people.
        flags: those of ``RULE_FLAGS`` that the launch command gives in every trial.
        algorithms: names that it takes; None: any.
        page_trees: attention backends that run a tree over pages of several tokens; None: any.
        chain_backends: attention backends that run chains only, each with its source.
        page_sizes: page sizes of a backend; the first replaces every other.
        adaptive_steps: steps that adaptive speculation may start from; None: any.
        page_source: where ``page_sizes`` was read.
        overlap_refuses_trees: where it was read that trees do not run under the overlap scheduler
            that the environment asks for; empty where they do.
    """

    release: str
    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    algorithms: Fact = Fact(None, "")
    page_trees: Fact = Fact(None, "")
    chain_backends: Mapping[str, str] = field(default_factory=dict)
    page_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    page_source: str = ""
    adaptive_steps: Fact = Fact(None, "")
    overlap_refuses_trees: str = ""

    def refusal(self, flags: Flags) -> Refusal | None:
        """The first reason against a configuration; None where nothing speaks against it."""
        return next(self._refusals(flags, {**self.flags, **flags}), None)

    def _refusals(self, own: Flags, every: Flags) -> Iterator[Refusal]:
        yield from self._of_algorithm(every)
        yield from self._of_pages(own, every)
        if _is_tree(every):
            yield from self._of_trees(every)
        if every.get(ADAPTIVE) is True:
            yield from self._of_adaptive(every)
        draft, track = every.get(DRAFT), every.get(TRACK)
        if (
            every.get(STRATEGY) == "extra_buffer"
            and isinstance(draft, int)
            and isinstance(track, int)
            and draft > track
        ):
            reason = f"{TRACK} {track} is less than {DRAFT} {draft}"
            yield Refusal("mamba-track", reason, "arg_groups/mamba_hook.py:133 @0.5.23")

    def _of_algorithm(self, every: Flags) -> Iterator[Refusal]:
        algorithm = str(every.get(ALGORITHM, "")).upper()
        known = self.algorithms
        if algorithm and known.value is not None and algorithm not in known.value:
            reason = f"SGLang {self.release} has no {ALGORITHM} {algorithm}"
            yield Refusal("algorithm", reason, known.source)
        if algorithm in ("STANDALONE", "NGRAM") and every.get(DATA_PARALLEL) is True:
            reason = f"{algorithm} does not run with {DATA_PARALLEL}"
            source = "server_args.py:1057 @0.5.3, arg_groups/speculative_hook.py:1077 @0.5.23"
            yield Refusal("dp-attention", reason, source)

    def _of_pages(self, own: Flags, every: Flags) -> Iterator[Refusal]:
        page, chunk = self._page(every), every.get(CHUNK)
        asked = own.get(PAGE)
        if isinstance(asked, int) and page != asked:
            forcing = " or ".join(name for name in _backends(every) if name in self.page_sizes)
            reason = f"{forcing} runs {PAGE} {page} whatever is asked, here {asked}"
            yield Refusal("page-size", reason, self.page_source)
        if page and isinstance(chunk, int) and chunk > 0 and chunk % page:
            reason = f"{CHUNK} {chunk} is no multiple of {PAGE} {page}"
            source = "server_args.py:278 @0.4.6.post5, arg_groups/validation_hook.py:244 @0.5.23"
            yield Refusal("chunk-page", reason, source)

    def _of_trees(self, every: Flags) -> Iterator[Refusal]:
        topk = every[TOPK]
        for chained in _backends(every):
            if chained in self.chain_backends:
                reason = f"{chained} runs {TOPK} 1 only, not {topk}"
                yield Refusal("chain-backend", reason, self.chain_backends[chained])
        backend, page, able = every.get(BACKENDS[0]), self._page(every), self.page_trees.value
        # Where the backend is SGLang's choice, only "none can" is certain.
        if page and page > 1 and able is not None and (not able or backend):
            if not able:
                reason = f"{PAGE} {page} makes SGLang set {TOPK} to 1, not {topk}"
                yield Refusal("page-tree", reason, self.page_trees.source)
            elif backend not in able:
                names = ", ".join(map(str, able))
                reason = f"{TOPK} {topk} with {PAGE} {page} runs on {names} only, not on {backend}"
                yield Refusal("page-tree", reason, self.page_trees.source)
        if self.overlap_refuses_trees:
            reason = f"SGLANG_ENABLE_SPEC_V2 allows {TOPK} 1 only, not {topk}"
            yield Refusal("overlap-tree", reason, self.overlap_refuses_trees)
        if every.get(SAMPLING) is True:
            reason = f"{SAMPLING} needs {TOPK} 1, not {topk}"
            source = "arg_groups/speculative_hook.py:1227 @0.5.23"
            yield Refusal("rejection-sampling", reason, source)

    def _of_adaptive(self, every: Flags) -> Iterator[Refusal]:
        if _is_tree(every):
            reason = f"{ADAPTIVE} needs {TOPK} 1: with {every[TOPK]} SGLang switches it off"
            source = "speculative/adaptive_spec_params.py:73 @0.5.23"
            yield Refusal("adaptive", reason, source)
        steps, known = every.get(STEPS), self.adaptive_steps
        if not known.value or ADAPTIVE_FILE in every or steps is None or steps in known.value:
            return
        names = ", ".join(map(str, known.value))
        reason = f"{ADAPTIVE} starts from {STEPS} {names}, not {steps}"
        yield Refusal("adaptive-steps", reason, known.source)

    def _page(self, every: Flags) -> int | None:
        """The page size in force; None where it is SGLang's choice."""
        page = every.get(PAGE)
        for backend in (every.get(BACKENDS[0]), every.get(BACKENDS[2])):
            sizes = self.page_sizes.get(str(backend))
            if sizes and page not in sizes:
                page = sizes[0]
        return page if isinstance(page, int) else None


def _is_tree(every: Flags) -> bool:
    topk = every.get(TOPK)
    algorithm = str(every.get(ALGORITHM, TREE_ALGORITHMS[0])).upper()
    return isinstance(topk, int) and topk > 1 and algorithm in TREE_ALGORITHMS


def _backends(every: Flags) -> list[str]:
    """The backends that the two kinds of pass run on, as far as they are given."""
    general = every.get(BACKENDS[0])
    found = (every.get(name, general) for name in BACKENDS[1:])
    return sorted({str(backend) for backend in found if backend is not None})
