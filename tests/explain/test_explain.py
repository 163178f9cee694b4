"""What is said about a configuration, on studies whose truth is known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import structs

from autotune.cli.explain import as_text
from autotune.core.trial import Caveat, FailureKind, Flags, TrialRecord
from autotune.errors import UsageError
from autotune.explain import Explanation, Finding, explain
from autotune.space.rules import MEMORY, STEPS
from autotune.study.learned import knowledge_of

from .worlds import chain, crashed, launched, repeated, stored

SWEEP_LIMITS = {1: 26, 2: 23, 3: 19, 4: 13, 5: 7}
"""Requests that run at once, by steps, as the hand sweep found them."""


def steps_only(steps: int) -> Flags:
    return {name: value for name, value in chain(steps).items() if name != MEMORY}


def hand_sweep() -> list[TrialRecord]:
    """The five launches of the hand sweep; trial n - 1 has n steps, and three are the baseline."""
    return [
        launched(n - 1, steps_only(n), role="baseline" if n == 3 else "search") for n in range(1, 6)
    ]


def explained(
    root: Path, records: Sequence[TrialRecord], trial: int | None = None, space: str = "speculative"
) -> Explanation:
    view, study = stored(root, records, space=space)
    return explain(view, knowledge_of(view, study), trial)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> dict[int | None, Explanation]:
    """Each trial of the hand sweep explained, and what is said when none is named."""
    root = tmp_path_factory.mktemp("sweep")
    view, study = stored(root, hand_sweep(), space="steps-only")
    known = knowledge_of(view, study)
    return {trial: explain(view, known, trial) for trial in (None, 0, 1, 2, 3, 4)}


def finding(found: Explanation, code: str, title: str | None = None) -> Finding:
    return next(f for f in found.findings if f.code == code and title in (None, f.title))


# ---- the hand sweep -------------------------------------------------------------------------


def test_the_running_limit_binds_at_steps_5_and_by_how_much(
    sweep: dict[int | None, Explanation],
) -> None:
    found = sweep[4]
    assert found.flags[STEPS] == 5
    for concurrency in (16, 32):
        under = finding(found, "under_load", f"C={concurrency}")
        assert under.verdict == "running_limit"
        assert under.figures["running_limit"].value == 7
        assert under.figures["running_limit"].source == "server"
        assert under.figures["over_the_limit"].value == concurrency - 7
        assert under.figures["gain_with_room_pct"].value > 30
        assert under.text.startswith(
            f"At C={concurrency} the running limit binds at steps 5: {concurrency} requests are "
            f"sent and the server runs 7 at once (told by the server), {concurrency - 7} fewer; "
        )


def test_the_winner_says_what_a_fifth_step_would_cost(sweep: dict[int | None, Explanation]) -> None:
    found = sweep[None]
    assert found.is_best and found.flags[STEPS] == 4
    more = finding(found, "one_more_step")
    assert more.verdict == "measured"
    assert (more.figures["running_limit"].value, more.figures["running_limit_then"].value) == (
        13,
        7,
    )
    assert "13 → 7 running requests (told by the server), 6 fewer" in more.text
    assert (
        "at steps 5 the running limit binds: 7 run at once, so that 9 of 16 requests and 25 of 32 "
        "requests have to wait (told by the server)" in more.text
    )


@pytest.mark.parametrize("steps", SWEEP_LIMITS)
def test_a_load_is_said_to_wait_where_it_does_and_nowhere_else(
    sweep: dict[int | None, Explanation], steps: int
) -> None:
    found = sweep[steps - 1]
    for concurrency in (16, 32):
        under = finding(found, "under_load", f"C={concurrency}")
        waits = SWEEP_LIMITS[steps] < concurrency
        assert (under.verdict == "running_limit") == waits
        assert ("nothing has to wait" in under.text) == (not waits)


def test_where_the_limit_does_not_bind_a_step_says_what_it_brings(
    sweep: dict[int | None, Explanation],
) -> None:
    more = finding(sweep[0], "one_more_step")
    assert "C=16 throughput +" in more.text and "at steps 2 the running limit binds" in more.text
    assert "23 run at once, so that 9 of 32 requests have to wait" in more.text


def test_a_step_that_nobody_launched_is_told_by_the_model(tmp_path: Path) -> None:
    found = explained(tmp_path, [launched(0, chain(3), role="baseline"), launched(1, chain(4))])
    more = finding(found, "one_more_step")
    assert more.verdict == "model" and more.text.startswith("Not measured (steps 5, topk 1, draft")
    assert more.figures["running_limit_then"].value < 13
    assert more.figures["accept_length_then"].value > more.figures["accept_length"].value
    assert 0 <= more.figures["survival"].value <= 1


# ---- how sure -------------------------------------------------------------------------------


def test_two_within_the_noise_are_called_a_tie(tmp_path: Path) -> None:
    base = launched(0, chain(3), role="baseline", half=0.05)
    other = launched(1, chain(3, 0.86), half=0.05)
    next_best = finding(explained(tmp_path, [base, other]), "next_best")
    assert next_best.verdict == "tie" and "within the noise" in next_best.text


def test_launches_of_the_same_flags_are_told_together(tmp_path: Path) -> None:
    first = launched(1, chain(4))
    records = [launched(0, chain(3), role="baseline"), first, repeated(first, 2, 1.02)]
    choice = finding(explained(tmp_path, records), "choice")
    assert "on 2 launches" in choice.text


@pytest.mark.parametrize("code", ["answers_loop", "simulated_acceptance", "repeated_prompts"])
def test_acceptance_looks_inflated_where_a_launch_gave_a_reason(tmp_path: Path, code: str) -> None:
    doubt = Caveat(code, "what was seen", "what to do")
    records = [
        launched(0, chain(3), role="baseline"), launched(1, chain(5, 0.8), warnings=[doubt])
    ]  # fmt: skip
    accept = finding(explained(tmp_path, records, 1), "acceptance")
    assert accept.verdict == "inflated"
    assert "what was seen" in accept.text and "To be sure: what to do" in accept.text


def test_acceptance_is_plausible_where_nothing_speaks_against_it(
    sweep: dict[int | None, Explanation],
) -> None:
    accept = finding(sweep[4], "acceptance")
    assert accept.verdict == "plausible" and accept.text.startswith("Does not look inflated")


def test_the_range_of_accept_lengths_holds_the_measured_one(
    sweep: dict[int | None, Explanation],
) -> None:
    found = sweep[None]
    holds, length = finding(found, "holds_for"), finding(found, "acceptance").figures
    assert holds.verdict == "holds"
    low, high = holds.figures["low"].value, holds.figures["high"].value
    assert 1 <= low <= length["accept_length"].value <= high <= 5
    assert "below that, trial 2 (steps 3, topk 1, draft 4) wins" in holds.text


# ---- studies in which something is missing --------------------------------------------------


def test_a_study_without_a_trial_says_so(tmp_path: Path) -> None:
    found = explained(tmp_path, [])
    assert [f.text for f in found.findings] == ["No trial has ended yet."]
    assert found.trial is None and not found.flags and not found.is_best


def test_a_study_that_only_failed_gives_kinds_evidence_and_remedy(tmp_path: Path) -> None:
    records = [crashed(0, chain(3)), crashed(1, chain(4), FailureKind.HANG)]
    (nothing,) = explained(tmp_path, records).findings
    assert nothing.verdict == "all_failed"
    assert nothing.text == (
        "No trial carries a value: 2 failed (1 × out of memory in graph capture and 1 × hang). "
        "The last one: CUDA out of memory. Remedy: lower the fraction."
    )


def test_a_failed_trial_is_explained_by_its_failure(tmp_path: Path) -> None:
    records = [launched(0, chain(3), role="baseline"), crashed(1, chain(5, 0.95))]
    (failure,) = explained(tmp_path, records, 1).findings
    assert failure.code == "failure" and failure.verdict == "graph_capture_oom"
    assert "carries no value" in failure.text and "Remedy: lower the fraction." in failure.text


def test_where_no_configuration_meets_the_limits_the_closest_is_explained(tmp_path: Path) -> None:
    slo = ["ttft_s<=0.05"]
    records = [
        launched(0, chain(5), role="baseline", slo=slo), launched(1, chain(2), slo=slo)
    ]  # fmt: skip
    found = explained(tmp_path, records)
    assert found.trial == 1 and not found.is_best
    assert finding(found, "choice").text.startswith(
        "Trial 1 (steps 2, topk 1, draft 3, mem 0.85) comes closest to the limits, "
        "which no configuration meets, for agentic"
    )
    assert "It misses ttft_s<=0.05 by" in finding(found, "constraint").text
    other = explained(tmp_path / "again", records, 0)
    assert "misses a limit, as every configuration does" in finding(other, "choice").text


def test_one_trial_is_its_own_recommendation(tmp_path: Path) -> None:
    found = explained(tmp_path, [launched(0, chain(3), role="baseline")])
    assert finding(found, "choice").text.endswith("these are your own flags.")
    assert finding(found, "next_best").text == "No other configuration was measured."


def test_speculation_off_is_explained_without_a_draft(tmp_path: Path) -> None:
    off = launched(1, {}, role="reference")
    found = explained(tmp_path, [launched(0, chain(3), role="baseline"), off], 1)
    assert "runs without speculation, to compare" in finding(found, "choice").text
    assert not any(f.code in ("one_more_step", "acceptance") for f in found.findings)


def test_a_trial_that_was_not_measured_is_explained_by_the_one_that_was(tmp_path: Path) -> None:
    base = launched(0, chain(3), role="baseline")
    twin = structs.replace(base, number=1, role="search", same_as=0, phases=[], objectives=None)
    assert explained(tmp_path, [base, twin], 1).trial == 0


def test_three_serving_loads_have_a_finding_each(tmp_path: Path) -> None:
    loads = (16, 32, 64)
    records = [
        launched(0, chain(3), role="baseline", serving=loads), launched(1, chain(4), serving=loads)
    ]  # fmt: skip
    view, study = stored(tmp_path, records, serving=loads)
    found = explain(view, knowledge_of(view, study))
    assert [f.title for f in found.findings if f.code == "under_load"] == ["C=16", "C=32", "C=64"]


def test_a_trial_that_the_study_does_not_have_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no trial 9: it has 0 to 4"):
        explained(tmp_path, hand_sweep(), 9)


# ---- the text -------------------------------------------------------------------------------


def test_every_text_is_whole_sentences_and_every_figure_has_a_source(
    sweep: dict[int | None, Explanation],
) -> None:
    for found in sweep.values():
        for f in found.findings:
            assert f.text[0].isupper() and f.text.endswith(".") and ".." not in f.text, f.text
            assert not any(odd in f.text for odd in ("nan", "inf ", "None", "  ")), f.text
            for figure in f.figures.values():
                assert figure.low is None or figure.high is None or figure.low <= figure.high


def test_a_word_is_glossed_exactly_where_it_is_used(
    tmp_path: Path, sweep: dict[int | None, Explanation]
) -> None:
    full = as_text(sweep[None])
    assert "accept length: tokens that a pass yields" in full and "KV pool: GPU memory" in full
    empty = as_text(explained(tmp_path / "empty", []))
    assert empty == "Nothing    No trial has ended yet."
    assert max(len(line) for line in full.splitlines()) <= 100


READ = """
import sys
from autotune.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def test_the_text_is_the_same_in_every_process(tmp_path: Path) -> None:
    stored(tmp_path / "studies", hand_sweep(), space="steps-only")
    texts = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", READ, "explain", "--study", "s"], cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1
    assert "the server runs 13 at once (told by the server), 3 fewer" in " ".join(
        texts.pop().split()
    )


def test_as_json_it_is_the_same_explanation(tmp_path: Path) -> None:
    stored(tmp_path / "studies", hand_sweep(), space="steps-only")
    done = subprocess.run(
        [sys.executable, "-c", READ, "explain", "--trial", "4", "--json"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert document["schema"] == 1 and document["trial"] == 4 and document["simulated"]
    under = [f for f in document["findings"] if f["code"] == "under_load"]
    assert [f["figures"]["over_the_limit"]["value"] for f in under] == [9, 25]
