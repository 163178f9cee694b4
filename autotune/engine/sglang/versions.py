"""What each release of SGLang has: flag names, rules, defaults, addresses, the meaning of memory.

Every bound was read in the published wheels: 0.4.5, 0.4.6.post5, 0.4.7 to 0.4.10, 0.5.1, 0.5.2 and
every release from 0.5.3 to 0.5.23. "Since 0.5.2" means that of those 0.5.2 is the first that has
it. File names are of ``python/sglang/srt/``. An unknown release counts as the newest one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Self, TypeVar

from autotune.engine.sglang.flag_history import FIRST, LAST

OLDEST_READ = "0.4.5"
NEWEST_READ = "0.5.23"

_T = TypeVar("_T")

_FORM = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<n_pre>\d*))?"
    r"(?:[-_.]?(?P<post>post|rev|r)[-_.]?(?P<n_post>\d*))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<n_dev>\d*))?"
    r"(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version in Python's form (PEP 440): ``0.4.6.post5``, ``0.5.3rc1``, ``0.5.23+simulated``.

    They are ordered as pip orders them, but for the part behind ``+``, which says who built it.

    Attributes:
        text: as it was given, without a leading ``v``.
    """

    key: tuple[tuple[int, ...], tuple[float, int], float, float]
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for what is no version, and for the zeros of a build that does not know its own."""
        found = _FORM.fullmatch(text.strip())
        if found is None:
            return None
        numbers = [int(part) for part in found["release"].split(".")]
        while numbers and numbers[-1] == 0:
            numbers.pop()
        if not numbers:
            return None
        post = int(found["n_post"] or 0) if found["post"] else -1
        dev = int(found["n_dev"] or 0) if found["dev"] else math.inf
        pre: tuple[float, int] = (math.inf, 0)
        if found["pre"]:
            pre = (min("abcpr".index(found["pre"][0].lower()), 2), int(found["n_pre"] or 0))
        elif found["dev"] and post < 0:
            pre = (-math.inf, 0)  # 0.5.11.dev3 comes before 0.5.11rc0
        return cls((tuple(numbers), pre, post, dev), text.strip().lstrip("v"))

    @property
    def release(self) -> tuple[int, ...]:
        """The numbers alone, ``(0, 5, 10)`` of ``0.5.10.post1``."""
        return self.key[0]

    def reached(self, bound: str) -> bool:
        """Whether the release this belongs to is ``bound`` or later.

        A candidate or a development build counts as the release it leads to: refusing what it
        may well have would be worse than SGLang's own refusal.
        """
        return _NEXT_READ.get(self.release, self.release) >= version(bound).release

    def __str__(self) -> str:
        return self.text


def version(text: str) -> Version:
    """The version that this text certainly is.

    Raises:
        ValueError: it is none.
    """
    parsed = Version.parse(text)
    if parsed is None:
        raise ValueError(f"{text!r} is no version")
    return parsed


OLDEST, NEWEST = version(OLDEST_READ), version(NEWEST_READ)

_NEXT_READ: Mapping[tuple[int, ...], tuple[int, ...]] = {(0, 5): (0, 5, 1)}
"""A release between two that were read has all that the later one has, as far as is known."""


# ---- flag names -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a flag, and the releases that take it; empty bounds are open."""

    text: str
    since: str = ""
    until: str = ""

    def is_in(self, at: Version | None) -> bool:
        """Whether a release takes it."""
        known = at or NEWEST
        over = self.until and known.release > version(self.until).release
        return not over and (not self.since or known.reached(self.since))


_RENAMED: Mapping[str, tuple[str, ...]] = {
    "cuda_graph_max_bs": ("--cuda-graph-max-bs-decode", "--cuda-graph-max-bs"),
    "cuda_graph_bs": ("--cuda-graph-bs-decode", "--cuda-graph-bs"),
    "cuda_graph_max_bs_prefill": (
        "--cuda-graph-max-bs-prefill",
        "--piecewise-cuda-graph-max-tokens",
    ),
    "mamba_radix_cache_strategy": ("--mamba-radix-cache-strategy", "--mamba-scheduler-strategy"),
    "enable_linear_replayssm_spec": (
        "--enable-linear-replayssm-spec",
        "--enable-gdn-replayssm-spec",
    ),
    "speculative_draft_window_size": (
        "--speculative-draft-window-size",
        "--speculative-dflash-draft-window-size",
    ),
    "dsa_prefill_backend": ("--dsa-prefill-backend", "--nsa-prefill-backend"),
    "dsa_decode_backend": ("--dsa-decode-backend", "--nsa-decode-backend"),
    "incremental_streaming_output": ("--incremental-streaming-output", "--stream-output"),
}
"""Flags of one meaning with several names, the newest first. Where two work, the older is
deprecated.

Source: the help texts of ``DeprecatedAliasStoreAction`` in server_args.py @0.5.10 to 0.5.19.
"""


def _spellings() -> dict[str, tuple[Spelling, ...]]:
    texts = dict(_RENAMED)
    renamed = {text for every in texts.values() for text in every}
    for text in sorted({*FIRST, *LAST} - renamed):
        texts[text[2:].replace("-", "_")] = (text,)
    return {
        name: tuple(Spelling(text, FIRST.get(text, ""), LAST.get(text, "")) for text in every)
        for name, every in texts.items()
    }


SPELLINGS: Mapping[str, tuple[Spelling, ...]] = _spellings()
"""Flags that some release lacks or writes otherwise; every other flag is ``--its-name``, always."""


def why_missing(name: str, at: Version | None) -> str | None:
    """In one sentence, why a release does not take a flag; None where it does."""
    spellings = SPELLINGS.get(name, ())
    if not spellings or any(spelling.is_in(at) for spelling in spellings):
        return None
    newest, oldest, known = spellings[0], spellings[-1], at or NEWEST
    if oldest.since and not known.reached(oldest.since):
        name = "" if oldest == newest else f" (as {oldest.text})"
        return f"{newest.text} came with SGLang {oldest.since}{name}, and this is {known}"
    return f"{newest.text} is gone after SGLang {newest.until}, and this is {known}"


# ---- what changed, release by release -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Since(Generic[_T]):
    """A fact that holds from a release on, until the next of its row.

    Attributes:
        source: where it was read.
    """

    version: str
    value: _T
    source: str


def in_force(row: Sequence[Since[_T]], at: Version | None) -> Since[_T]:
    """The fact that holds for a release; the first one for releases before all of them."""
    known = at or NEWEST
    held = row[0]
    for fact in row:
        if known.reached(fact.version):
            held = fact
    return held


_EAGLES = ("EAGLE", "EAGLE3", "NEXTN")

ALGORITHMS: tuple[Since[tuple[str, ...]], ...] = (
    Since("0.4.5", _EAGLES, "server_args.py:855 @0.4.5"),
    Since("0.5.2", (*_EAGLES, "STANDALONE"), "server_args.py @0.5.2"),
    Since("0.5.3", (*_EAGLES, "STANDALONE", "NGRAM"), "server_args.py:2041 @0.5.3"),
    Since("0.5.11", (*_EAGLES, "STANDALONE", "NGRAM", "DFLASH"), "server_args.py:5364 @0.5.11"),
    # Any word from here on: a plug-in may have registered it.
    Since("0.5.12", (), "server_args.py:5785 @0.5.12"),
)
"""Names that ``--speculative-algorithm`` takes; empty: the parser takes any."""

PAGE_TREES: tuple[Since[tuple[str, ...] | None], ...] = (
    Since("0.4.5", (), "server_args.py:414 @0.4.6.post5 sets topk to 1"),
    Since("0.4.9", None, "server_args.py @0.4.9 to 0.5.1 checks nothing"),
    Since("0.5.2", ("flashinfer",), "server_args.py:786 @0.5.2, :1119 @0.5.3"),
    Since("0.5.6", ("flashinfer", "fa3"), "server_args.py:1753 @0.5.6, :3084 @0.5.10"),
    Since(
        "0.5.13",
        ("flashinfer", "fa3", "triton"),
        "arg_groups/speculative_hook.py:378 @0.5.13, :1270 @0.5.23",
    ),
)
"""Attention backends that run a tree (topk above 1) over pages of more than one token.

Empty: none does; None: nothing is checked. NGRAM runs such trees on flashinfer alone.
"""

CHAIN_BACKENDS: tuple[Since[Mapping[str, str]], ...] = (
    Since(
        "0.4.6",
        {
            "flashmla": "layers/attention/flashmla_backend.py:608 @0.5.23",
            "trtllm_mla": "layers/attention/flashinfer_mla_backend.py:1196 @0.5.23",
            "tokenspeed_mla": "layers/attention/flashinfer_mla_backend.py:1196 @0.5.23",
            "cutedsl_mla": "layers/attention/flashinfer_mla_backend.py:1196 @0.5.23",
            "trtllm_mha": "server_args.py:666 @0.5.1, speculative_hook.py:1177 @0.5.23",
            "dsv4": "layers/attention/deepseek_v4_backend.py:1338 @0.5.23",
        },
        "each by its own line",
    ),
)
"""Attention backends that run a chain (topk 1) only, and the line that says so."""

PAGE_SIZES: tuple[Since[Mapping[str, tuple[int, ...]]], ...] = (
    Since("0.4.6", {"flashmla": (64,), "cutlass_mla": (128,)}, "server_args.py:287 @0.4.6.post5"),
    Since(
        "0.5.1",
        {
            "flashmla": (64,),
            "cutlass_mla": (128,),
            "trtllm_mla": (64, 32),
            "trtllm_mha": (64, 16, 32),
        },
        "server_args.py:881 @0.5.3, :2329 @0.5.10",
    ),
    Since(
        "0.5.17",
        {
            "flashmla": (64,),
            "trtllm_mla": (64, 32),
            "cutedsl_mla": (64, 32),
            "trtllm_mha": (64, 16, 32, 128),
            "hpc_ops": (64,),
        },
        "arg_groups/overrides.py:1152 @0.5.23",
    ),
)
"""Page sizes a backend runs; the first replaces any other, with a line in the log."""

ADAPTIVE_STEPS: tuple[Since[tuple[int, ...]], ...] = (
    Since("0.5.11", (), "speculative/adaptive_spec_params.py @0.5.11, @0.5.12 take any"),
    Since("0.5.13", (1, 3, 7), "speculative/adaptive_spec_params.py:135 @0.5.13"),
    Since("0.5.14", (0, 1, 3, 7), "arg_groups/speculative_hook.py:502 @0.5.14, :566 @0.5.15"),
    Since("0.5.20", (0, 1, 3, 5, 7), "arg_groups/speculative_hook.py:1133 @0.5.20, :1417 @0.5.23"),
)
"""Steps that ``--speculative-adaptive`` starts from, without a file of its own; empty: any."""

ADAPTIVE_FILES: tuple[Since[str], ...] = (
    Since("0.5.11", "list, no overlap", "speculative/adaptive_spec_params.py:36 @0.5.11"),
    Since("0.5.12", "list", "speculative/adaptive_spec_params.py:95 @0.5.12"),
    Since("0.5.13", "table", "speculative/adaptive_spec_params.py:102 @0.5.13"),
    Since("0.5.14", "table with off", "speculative/adaptive_spec_params.py:110 @0.5.14"),
)
"""What ``--speculative-adaptive-config`` holds: one list of steps, among which acceptance alone
chooses (0.5.11 without the overlap scheduler only), or a list for each batch size, with 0 for
speculation off from 0.5.14 on.
"""

OVERLAP: tuple[Since[str], ...] = (
    Since("0.4.5", "never", "server_args.py @0.4.5 to 0.5.4 switches it off"),
    Since("0.5.5", "asked", "server_args.py:1541 @0.5.5: with SGLANG_ENABLE_SPEC_V2"),
    Since("0.5.7", "asked, chain", "server_args.py:2013 @0.5.7, :3012 @0.5.10 refuse topk above 1"),
    Since("0.5.11", "chain", "server_args.py:3467 @0.5.11: a tree switches it off"),
    Since("0.5.13", "always", "speculative_hook.py @0.5.13"),
)
"""Whether the overlap scheduler runs with speculation: for all, for chains, where asked, never."""

RUNNING_LIMIT: tuple[Since[int], ...] = (
    Since("0.4.5", 48, "server_args.py:334 @0.4.5 … speculative_hook.py:1086 @0.5.23"),
)
"""``max_running_requests`` under speculation where the command does not say."""

_LLAMA, _GROK = "LlamaForCausalLM", "Grok1ForCausalLM"
_DEEPSEEK = "DeepseekV3ForCausalLM"
AUTO_TREES: tuple[Since[Mapping[str, tuple[int, int, int]]], ...] = (
    Since("0.4.5", {"": (5, 4, 8)}, "server_args.py:1588 @0.4.6.post5"),
    Since("0.4.7", {"": (5, 4, 8), _DEEPSEEK: (3, 1, 4)}, "server_args.py:1683 @0.4.7"),
    Since(
        "0.5.8",
        {"": (3, 1, 4), _LLAMA: (5, 4, 8), _GROK: (5, 4, 8)},
        "server_args.py:5454 @0.5.8, speculative_hook.py:1427 @0.5.23",
    ),
)
"""(steps, topk, draft tokens) by architecture where none is given; the empty name is any other."""

INFO_PATHS: tuple[Since[tuple[str, ...]], ...] = (
    Since("0.4.5", ("/get_server_info",), "entrypoints/http_server.py:308 @0.4.10"),
    Since(
        "0.5.6",
        ("/server_info", "/get_server_info"),
        "entrypoints/http_server.py:540 @0.5.6, :863 @0.5.23",
    ),
)
"""Addresses of the effective settings, best first."""

HEALTH_GENERATES: tuple[Since[bool], ...] = (
    Since("0.4.5", False, "entrypoints/http_server.py:232 @0.4.10: a constant 200"),
    Since("0.5.1", True, "entrypoints/http_server.py:266 @0.5.1: one token each time"),
)
"""Whether ``/health`` makes the server generate, so that it must not be asked while measuring."""

META_INFO: Mapping[str, tuple[str, str]] = {
    "spec_verify_ct": ("0.4.5", ""),
    "spec_accept_length": ("0.5.4", ""),
    "spec_accept_rate": ("0.5.4", ""),
    "spec_accept_token_num": ("0.5.6", "0.5.10"),
    "spec_draft_token_num": ("0.5.6", "0.5.10"),
    "spec_accept_histogram": ("0.5.9", "0.5.20"),
    "spec_accepted_drafts": ("0.5.11", "0.5.20"),
    "spec_proposed_drafts": ("0.5.11", "0.5.20"),
    "spec_num_correct_drafts": ("0.5.12", ""),
    "spec_num_proposed_drafts": ("0.5.12", ""),
    "spec_correct_drafts_histogram": ("0.5.12", ""),
}
"""Keys of an answer's ``meta_info`` about speculation: first and last release.

Source: managers/tokenizer_manager.py and the files it was split into.
"""

DRAFT_IN_POOL: tuple[Since[bool], ...] = (
    Since("0.4.5", False, "server_args.py:1141 @0.5.10: an extra reserve of 2 to 6 GB"),
    Since("0.5.14", True, "arg_groups/memory_hook.py:47 @0.5.23: no extra reserve"),
)
"""Whether ``mem_fraction_static`` covers draft weights and draft KV cache.

Before, they came out of the rest: speculation lowered the highest fraction that starts, where it
now lowers the tokens that fit. A fraction tuned on one side is wrong on the other.
"""
