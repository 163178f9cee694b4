"""What ``autotune measure`` says of the speed of a real inference server.

One thread on a shared machine has no speed worth a number: only orderings are tested. What is
compared runs side by side, or is tried again where other work on the machine may have turned the
order.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from .llama_cpp import OUTPUT_TOK, LlamaCpp, autotune_measure

API = ("--api", "completions")  # no template: nearly all of the work is decoding


@pytest.mark.timeout(300)
def test_more_requests_at_once_slow_each_and_serve_more_in_all(openings: Path) -> None:
    tries = []
    with LlamaCpp() as server:
        for seed in ("0", "1"):
            words = ("--concurrency", "1,4,16", "--seconds", "6", "--seed", seed, *API)
            (phases,) = autotune_measure((server, openings), words=words)
            assert [phase.concurrency for phase in phases] == [1, 4, 16]
            for phase in phases:
                assert (phase.n_failed, phase.first_error) == (0, "")
                assert phase.in_flight_mean == pytest.approx(phase.concurrency, rel=0.1)
                assert min(OUTPUT_TOK) <= min(phase.percentiles["output_tok"].values())
                assert max(OUTPUT_TOK) >= max(phase.percentiles["output_tok"].values())
            decode = [phase.decode_tok_s.value for phase in phases]
            output = [phase.output_tok_s.value for phase in phases]
            tries.append((decode, output))
            if all(a > b for a, b in pairwise(decode)) and all(a < b for a, b in pairwise(output)):
                return
    pytest.fail(f"not in order: {tries}")


@pytest.mark.timeout(300)
def test_a_draft_of_16_tokens_costs_a_busy_server_throughput(openings: Path) -> None:
    """Both servers run at the same time, on equal shares of whatever the machine gives."""
    tries = []
    with LlamaCpp() as plain, LlamaCpp("--draft", "16") as drafting:
        for seed in ("0", "1"):
            words = ("--concurrency", "16", "--seconds", "8", "--seed", seed, *API)
            found = autotune_measure((plain, openings), (drafting, openings), words=words)
            (without,), (with_draft,) = found
            assert without.n_failed == with_draft.n_failed == 0
            assert without.accept_length is None
            assert with_draft.accept_length is not None and with_draft.accept_length > 1
            assert plain.counters()["spec_decode_num_drafts_total"] == 0
            assert drafting.counters()["spec_decode_num_drafts_total"] > 0
            tries.append((without.output_tok_s.value, with_draft.output_tok_s.value))
            if tries[-1][1] < 0.85 * tries[-1][0]:
                return
    pytest.fail(f"not 15 % slower: {tries}")
