from __future__ import annotations

import pytest

from autotune.core.trial import FlagValue
from autotune.study.campaign import Campaign
from autotune.study.config import RunConfig
from autotune.study.evaluate import silent_changes
from autotune.study.twins import PINNED


@pytest.mark.parametrize(
    ("name", "asked", "ran", "warns"),
    [
        ("speculative_num_draft_tokens", 9, 4, True),
        ("attention_backend", "fa3", "fa3", False),
        ("attention_backend", "fa3", "flashinfer", True),
        ("attention_backend", "nsa", "dsa", False),
        ("attention_backend", "dsa", "nsa", False),
        ("decode_attention_backend", "flashmla", "triton", True),
        ("page_size", 16, 64, True),
        ("page_size", 16, None, False),
        ("max_total_num_tokens", 5, 6, False),
    ],
)
def test_what_did_not_run_as_asked_is_a_warning(
    name: str, asked: FlagValue, ran: object, warns: bool
) -> None:
    told = silent_changes({name: asked}, {name: ran})
    assert [caveat.code for caveat in told] == ["silent_change"] * warns
    if warns:
        assert told[0].text == f"asked for {name} {asked}, the server runs {ran}"


def test_what_nobody_asked_for_is_none() -> None:
    assert silent_changes({}, {"attention_backend": "triton", "page_size": 64}) == []


def test_what_the_command_itself_asks_for_counts() -> None:
    words = "docker run lmsysorg/sglang:v0.5.23 sglang serve --model-path M --page-size 1 "
    words += "--speculative-algorithm EAGLE --attention-backend fa4"
    campaign = Campaign.prepare(RunConfig(engine="sglang", command=tuple(words.split())))
    assert campaign.engine.command.readable(PINNED) == {"page_size": 1, "attention_backend": "fa4"}
