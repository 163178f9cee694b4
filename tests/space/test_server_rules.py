from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.core.trial import FlagValue
from autotune.errors import SpaceError
from autotune.space import Choice, IntegerRange, SearchSpace, Switch, load_space
from autotune.space.parameter import Parameter
from autotune.space.rules import DRAFT, STEPS, TOPK
from autotune.space.server_rules import Fact, ServerRules

FACTS = ServerRules(
    release="0.5.23",
    page_trees=Fact(("flashinfer", "fa3", "triton"), "hook.py:1270"),
    chain_backends={"trtllm_mha": "hook.py:1177", "flashmla": "flashmla.py:608"},
    page_sizes={"flashmla": (64,), "trtllm_mha": (64, 16, 32)},
    page_source="overrides.py:1152",
    adaptive_steps=Fact((0, 1, 3, 5, 7), "hook.py:1417"),
    algorithms=Fact(("EAGLE", "EAGLE3", "NGRAM", "STANDALONE"), "args.py:1"),
)


def on(**flags: FlagValue) -> ServerRules:
    """The facts, for a launch command with these flags."""
    return ServerRules(
        **{name: getattr(FACTS, name) for name in FACTS.__slots__} | {"flags": flags}
    )


TREE: dict[str, FlagValue] = {STEPS: 3, TOPK: 4, DRAFT: 8}
CHAIN: dict[str, FlagValue] = {STEPS: 3, TOPK: 1, DRAFT: 4}


@pytest.mark.parametrize(
    ("own", "given", "rule"),
    [
        (TREE, {}, None),
        (TREE, {"page_size": 64}, None),  # which backend runs it is SGLang's choice
        (TREE, {"page_size": 64, "attention_backend": "fa3"}, None),
        (TREE, {"page_size": 64, "attention_backend": "fa4"}, "page-tree"),
        (TREE, {"page_size": 1, "attention_backend": "fa4"}, None),
        (CHAIN, {"page_size": 64, "attention_backend": "fa4"}, None),
        (TREE | {"page_size": 16}, {"attention_backend": "aiter"}, "page-tree"),
        (TREE, {"attention_backend": "trtllm_mha"}, "chain-backend"),
        (CHAIN, {"attention_backend": "trtllm_mha"}, None),
        (TREE, {"attention_backend": "fa3", "decode_attention_backend": "flashmla"},
         "chain-backend"),
        (TREE, {"attention_backend": "trtllm_mha", "prefill_attention_backend": "fa3",
                "decode_attention_backend": "fa3"}, "page-tree"),
        (CHAIN | {"page_size": 1}, {"attention_backend": "flashmla"}, "page-size"),
        (CHAIN | {"page_size": 64}, {"attention_backend": "flashmla"}, None),
        (CHAIN | {"page_size": 16}, {"attention_backend": "trtllm_mha"}, None),
        (CHAIN, {"attention_backend": "flashmla", "page_size": 1}, None),  # not searched: no twin
        (CHAIN | {"chunked_prefill_size": 1000}, {"page_size": 64}, "chunk-page"),
        (CHAIN | {"chunked_prefill_size": 1024}, {"page_size": 64}, None),
        (CHAIN | {"chunked_prefill_size": -1}, {"page_size": 64}, None),
        (CHAIN | {"chunked_prefill_size": 1000}, {"attention_backend": "flashmla"}, "chunk-page"),
        (CHAIN | {"speculative_adaptive": True}, {}, None),
        (TREE | {"speculative_adaptive": True}, {}, "adaptive"),
        (TREE | {"speculative_adaptive": False}, {}, None),
        ({STEPS: 4, TOPK: 1, DRAFT: 5}, {"speculative_adaptive": True}, "adaptive-steps"),
        ({STEPS: 4, TOPK: 1, DRAFT: 5}, {"speculative_adaptive": True,
                                         "speculative_adaptive_config": "own.json"}, None),
        (TREE, {"speculative_use_rejection_sampling": True}, "rejection-sampling"),
        (CHAIN, {"speculative_use_rejection_sampling": True}, None),
        ({"speculative_algorithm": "STANDALONE"}, {"enable_dp_attention": True}, "dp-attention"),
        ({"speculative_algorithm": "EAGLE"}, {"enable_dp_attention": True}, None),
        ({"speculative_algorithm": "dflash"}, {}, "algorithm"),
        (TREE, {"speculative_algorithm": "NGRAM", "attention_backend": "trtllm_mha"}, None),
        (TREE, {"mamba_radix_cache_strategy": "extra_buffer", "mamba_track_interval": 4},
         "mamba-track"),
        (TREE, {"mamba_radix_cache_strategy": "no_buffer", "mamba_track_interval": 4}, None),
    ],
)  # fmt: skip
def test_each_rule_says_what_it_refuses(
    own: dict[str, FlagValue], given: dict[str, FlagValue], rule: str | None
) -> None:
    refusal = on(**given).refusal(own)
    assert (refusal and refusal.rule) == rule
    if refusal is not None:
        assert refusal.reason and refusal.source


def test_a_release_where_no_backend_runs_such_trees() -> None:
    old = ServerRules("0.4.6", {"page_size": 16}, page_trees=Fact((), "args.py:414"))
    refusal = old.refusal(TREE)
    assert refusal and refusal.reason == (
        "page_size 16 makes SGLang set speculative_eagle_topk to 1, not 4"
    )
    unchecked = ServerRules("0.4.10", {"page_size": 16}, page_trees=Fact(None, "args.py"))
    assert unchecked.refusal(TREE) is None


def test_a_scheduler_that_the_environment_asks_for_refuses_trees() -> None:
    asked = ServerRules("0.5.10", overlap_refuses_trees="args.py:3012")
    assert asked.refusal(CHAIN) is None
    refusal = asked.refusal(TREE)
    assert refusal and refusal.rule == "overlap-tree"


# ---- a space on a server --------------------------------------------------------------------

PARAMETERS: dict[str, Parameter] = {
    "page_size": Choice((1, 16)),
    STEPS: IntegerRange(2, 4),
    "attention_backend": Choice(("fa4", "trtllm_mha", "flashmla")),
    TOPK: Choice((1, 2)),
    DRAFT: IntegerRange(3, 6),
    "chunked_prefill_size": Choice((-1, 1000, 2048)),
    "speculative_adaptive": Switch(),
    "mamba_track_interval": Choice((4, 8)),
    "mem_fraction_static": Choice((0.7, 0.8)),
}


@st.composite
def placed(draw: st.DrawFn) -> SearchSpace:
    """Some of those flags, searched or fixed, on a server with some of the others."""
    searched = draw(st.lists(st.sampled_from(sorted(PARAMETERS)), min_size=2, unique=True))
    names = {*searched, *((STEPS, TOPK, DRAFT) if {STEPS, TOPK, DRAFT} & {*searched} else ())}
    given = draw(
        st.fixed_dictionaries(
            {},
            optional={
                name: st.sampled_from(p.values())
                for name, p in PARAMETERS.items()
                if name not in names
            },
        )
    )
    if draw(st.booleans()):
        given["mamba_radix_cache_strategy"] = "extra_buffer"
    space = SearchSpace("s", "", {name: p for name, p in PARAMETERS.items() if name in names})
    try:
        return space.on(on(**given))
    except SpaceError:
        return space.on(FACTS)


@settings(max_examples=40)
@given(placed())
def test_what_is_counted_is_what_is_left(space: SearchSpace) -> None:
    left = [space.key(flags) for flags in space.configurations()]
    assert len(left) == len(set(left)) == space.size > 0
    assert space.raw_size == space.size + sum(removal.n for removal in space.removals)
    for flags in list(space.configurations())[:20]:
        assert space.why_illegal(flags) is None
        assert space.nearest_legal(flags) == flags


@settings(max_examples=40)
@given(placed(), st.data())
def test_every_point_moves_to_one_that_the_server_accepts(
    space: SearchSpace, data: st.DataObject
) -> None:
    point = {name: data.draw(st.sampled_from(p.values())) for name, p in space.parameters.items()}
    legal = space.nearest_legal(point)
    assert space.contains(legal)
    assert space.server is not None and space.server.refusal(legal) is None


def test_as_few_flags_as_possible_move_and_the_tree_stays() -> None:
    space = SearchSpace(
        "s", "", {name: PARAMETERS[name] for name in (STEPS, TOPK, DRAFT, "page_size")}
    ).on(on(attention_backend="fa4"))
    asked: dict[str, FlagValue] = {STEPS: 3, TOPK: 2, DRAFT: 6, "page_size": 16}
    assert space.nearest_legal(asked) == asked | {"page_size": 1}


def test_what_was_removed_is_told_with_its_rule_and_source() -> None:
    space = load_space("speculative").on(on(attention_backend="trtllm_mha"))
    assert (space.size, space.raw_size) == (8 * 36, 8 * 4 * 63 * 36)
    told = [removal.describe() for removal in space.removals]
    assert [line.split(": ")[0] for line in told] == [
        "rule chain removed 17,856 configurations",
        "rule tree-capacity removed 20,556 configurations",
        "rule chain-backend removed 33,876 configurations",
    ]
    assert told[2].endswith("trtllm_mha runs speculative_eagle_topk 1 only, not 2 (hook.py:1177)")
    assert (
        space.why_illegal({STEPS: 3, TOPK: 4, DRAFT: 8, "mem_fraction_static": 0.8})
        == "trtllm_mha runs speculative_eagle_topk 1 only, not 4 (hook.py:1177)"
    )


def test_a_space_of_which_nothing_is_left_is_refused_with_the_reason() -> None:
    space = SearchSpace("s", "", {STEPS: IntegerRange(1, 3), DRAFT: IntegerRange(2, 4)}, {TOPK: 2})
    with pytest.raises(SpaceError, match="flashmla runs speculative_eagle_topk 1 only"):
        space.on(on(attention_backend="flashmla"))


def test_a_space_on_a_server_is_the_same_space_to_a_study() -> None:
    space = load_space("speculative")
    moved = space.on(on(attention_backend="flashmla"))
    assert moved == space and hash(moved) == hash(space)
    assert moved.distributions() == space.distributions()
