"""The built-in workloads have the lengths, gaps and arrivals that were published."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median, pstdev, quantiles

import pytest

from autotune.workload import Session, Turn, workload_named
from autotune.workload.room import CODE_CHARS_PER_TOK, PROSE_CHARS_PER_TOK

within_15_percent = 0.15


def sessions(name: str, n: int, context_tok: int | None = None) -> list[Session]:
    load = workload_named(name).sized(context_tok)
    return [load.session(number) for number in range(n)]


def added(turn: Turn) -> int:
    """Characters that a turn adds."""
    return sum(len(message["content"]) for message in turn.messages)


def prompts(found: list[Session], chars_per_tok: float) -> list[float]:
    """Tokens of every whole prompt."""
    lengths = []
    for session in found:
        n_chars = 0
        for turn in session.turns:
            n_chars += added(turn)
            lengths.append(n_chars / chars_per_tok)
            n_chars += len(turn.answer or "")
    return lengths


def p90(values: Sequence[float]) -> float:
    return quantiles(values, n=10)[8]


def close(value: float) -> object:
    return pytest.approx(value, rel=within_15_percent)


def test_agentic_sessions_grow_as_recorded_ones_do() -> None:
    found = sessions("agentic", 120, 131_072)
    later = [turn for session in found for turn in session.turns[1:]]
    assert median(added(turn) / CODE_CHARS_PER_TOK for turn in later) == close(650)
    answers = [turn.n_output_tok or 0 for session in found for turn in session.turns]
    assert median(answers) == close(216)
    assert median(len(t.answer or "") / CODE_CHARS_PER_TOK for t in later) == close(216)
    assert sum(n == 512 for n in answers) / len(answers) < 0.2
    assert 10 <= median(len(session.turns) for session in found) <= 20
    prompt_tok = prompts(found, CODE_CHARS_PER_TOK)
    assert max(prompt_tok) < 32_768 and p90(prompt_tok) > 18_000


def test_agentic_pauses_are_those_of_tools_and_people() -> None:
    later = [turn for session in sessions("agentic", 300, 8192) for turn in session.turns[1:]]
    tools = [turn.gap_s for turn in later if turn.gap_kind == "tool"]
    people = [turn.gap_s for turn in later if turn.gap_kind == "human"]
    assert len(tools) / len(later) == pytest.approx(0.865, abs=0.03)
    assert median(tools) == close(9.0)
    assert median(people) == pytest.approx(127.0, rel=0.25)  # few, and far apart
    assert max(people) <= 3600.0


def test_agentic_first_prompts_are_partly_shared() -> None:
    found = sessions("agentic", 60)
    system = {session.turns[0].messages[0]["content"] for session in found}
    assert len(system) == 1
    shared_tok = len(system.pop()) / CODE_CHARS_PER_TOK
    assert shared_tok == close(32_768 / 10)
    own = [len(session.turns[0].messages[1]["content"]) for session in found]
    assert median(own) / CODE_CHARS_PER_TOK == close(32_768 / 24)


@pytest.mark.parametrize("context_tok", [2_048, 4_096, 8_192])
def test_agentic_sessions_shrink_with_the_context(context_tok: int) -> None:
    found = sessions("agentic", 60, context_tok)
    assert median(len(session.turns) for session in found) >= 3
    assert median(prompts(found, CODE_CHARS_PER_TOK)) > context_tok / 5


def test_agentic_short_keeps_its_contexts_short() -> None:
    found = sessions("agentic-short", 200)
    assert {len(session.turns) for session in found} == {3, 4, 5, 6}
    prompt_tok = prompts(found, CODE_CHARS_PER_TOK)
    assert min(prompt_tok) > 700 and p90(prompt_tok) < 4_400 and max(prompt_tok) < 7_680
    assert {turn.max_output_tok for session in found for turn in session.turns} == {512}


def test_chat_has_the_lengths_of_the_azure_conversations() -> None:
    found = sessions("chat", 1_500)
    prompt_tok = prompts(found, PROSE_CHARS_PER_TOK)
    assert (median(prompt_tok), fmean(prompt_tok)) == (close(1_020), close(1_155))
    assert p90(prompt_tok) == close(2_734)
    answers = [turn.n_output_tok or 0 for session in found for turn in session.turns]
    assert (median(answers), fmean(answers), p90(answers)) == (close(129), close(211), close(424))
    assert {len(session.turns) for session in found} == {1, 2, 3}
    assert {turn.gap_kind for session in found for turn in session.turns} == {"human"}


def test_code_complete_has_the_lengths_of_the_azure_code_trace() -> None:
    found = sessions("code-complete", 1_500)
    prompt_tok = prompts(found, CODE_CHARS_PER_TOK)
    assert (median(prompt_tok), fmean(prompt_tok)) == (close(1_469), close(2_048))
    assert p90(prompt_tok) == close(5_188)
    answers = [session.turns[0].n_output_tok or 0 for session in found]
    assert (median(answers), p90(answers)) == (close(13), close(55))
    assert {len(session.turns) for session in found} == {1}


def starts(first: int, n: int) -> list[float]:
    load = workload_named("code-complete").sized(256)
    found = [load.session(number).start_s for number in range(first, first + n)]
    return [at for at in found if at is not None]


def test_code_completions_arrive_in_bursts() -> None:
    times = starts(0, 12_001)
    gaps = [later - before for before, later in pairwise(times)]
    assert min(gaps) >= 0
    assert fmean(gaps) == close(0.388)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(13.2, rel=0.2)


def test_a_late_arrival_is_known_without_those_before_it() -> None:
    assert starts(1_000_000_000, 2) == sorted(starts(1_000_000_000, 2))
    assert starts(1_000_000_000, 1)[0] == pytest.approx(0.388e9, rel=1e-5)
