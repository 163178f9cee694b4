"""What holds for every built-in workload: determinism, room, variety."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
import zlib

import pytest

from autotune.workload import Session, Workload, workload_named
from autotune.workload.named import _BUILT_IN

NAMES = tuple(_BUILT_IN)
every = pytest.mark.parametrize("name", NAMES)
CONTEXTS = (None, 2_048, 4_096, 8_192, 32_768, 131_072)


def sessions(load: Workload, n: int = 40, first: int = 0) -> list[Session]:
    return [load.session(number) for number in range(first, first + n)]


def said(session: Session) -> list[str]:
    """What is sent, without the answers and without what all sessions share."""
    messages = [message for turn in session.turns for message in turn.messages]
    return [str(message["content"]) for message in messages if message["role"] != "system"]


def everything(session: Session) -> str:
    return "\n".join([*said(session), *(turn.answer or "" for turn in session.turns)])


@every
def test_a_session_depends_on_nothing_but_seed_number_and_context(name: str) -> None:
    load = workload_named(name, seed=3).sized(8_192)
    for number in (0, 7, 100_003):
        assert load.session(number) == workload_named(name, seed=3).sized(8_192).session(number)
    sessions(load, 5)
    assert load.session(31) == workload_named(name, seed=3).sized(8_192).session(31)


def test_sessions_are_the_same_text_in_every_process() -> None:
    def told(names: tuple[str, ...]) -> list[int]:
        return [
            zlib.crc32(repr(workload_named(name, seed=3).session(9)).encode()) for name in names
        ]

    program = (
        "import sys, zlib; from autotune.workload import workload_named as named; "
        "print([zlib.crc32(repr(named(n, seed=3).session(9)).encode()) for n in sys.argv[1:]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *NAMES], capture_output=True, check=True, text=True
    )
    assert json.loads(done.stdout) == told(NAMES)


@every
def test_another_seed_and_the_held_out_sessions_are_other_text(name: str) -> None:
    load = workload_named(name)
    sets = [
        {text for session in sessions(one) for text in said(session)}
        for one in (load, workload_named(name, seed=1), load.held_out())
    ]
    for one, other in itertools.combinations(sets, 2):
        assert one and not one & other


@every
def test_no_two_sessions_say_the_same(name: str) -> None:
    texts = [t for first in (0, 100_000) for s in sessions(workload_named(name), 60, first)
             for t in said(s)]  # fmt: skip
    assert len(set(texts)) == len(texts)


@every
@pytest.mark.parametrize("context_tok", CONTEXTS)
def test_every_prompt_and_its_answer_fit_at_three_characters_a_token(
    name: str, context_tok: int | None
) -> None:
    for session in sessions(workload_named(name).sized(context_tok), 60):
        n_chars = 0
        for turn in session.turns:
            n_chars += sum(len(message["content"]) for message in turn.messages)
            assert n_chars / 3.0 + turn.max_output_tok < (context_tok or 32_768)
            n_chars += len(turn.answer or "")


@every
@pytest.mark.parametrize("context_tok", [None, 2_048])
def test_turns_are_well_formed(name: str, context_tok: int | None) -> None:
    for session in sessions(workload_named(name).sized(context_tok)):
        assert session.turns and session.turns[0].gap_s == 0.0
        for place, turn in enumerate(session.turns):
            roles = [message["role"] for message in turn.messages]
            assert roles in ((["system", "user"], ["user"]) if place == 0 else (["user"],))
            assert all(message["content"].strip() for message in turn.messages)
            assert turn.answer and turn.n_output_tok is not None and not turn.fresh
            assert 0 < turn.n_output_tok <= turn.max_output_tok
            assert place == 0 or turn.gap_s > 0


@every
@pytest.mark.parametrize("context_tok", [1, 16, 300])
def test_even_a_hopeless_context_gets_a_session(name: str, context_tok: int) -> None:
    for session in sessions(workload_named(name).sized(context_tok), 10):
        assert session.turns[0].messages[-1]["content"] and session.turns[0].max_output_tok >= 1


def squeezed(text: str) -> float:
    raw = text.encode()
    return len(zlib.compress(raw, 9)) / len(raw)


@every
def test_the_text_is_not_repetitive(name: str) -> None:
    texts = [everything(session) for session in sessions(workload_named(name), 30)]
    assert min(squeezed(text) for text in texts) > 0.25
    joined = "\n".join(texts)
    assert squeezed(joined) > 0.22
    words = re.findall(r"\w+", joined)
    for length, least in ((4, 0.8), (8, 0.9)):
        grams = list(zip(*(words[i:] for i in range(length)), strict=False))
        assert len(set(grams)) / len(grams) > least


@every
def test_the_text_survives_json(name: str) -> None:
    for session in sessions(workload_named(name), 10):
        text = everything(session)
        assert json.loads(json.dumps(text)) == text
        assert text.encode().decode() == text


@every
def test_a_session_is_written_much_faster_than_it_is_played(name: str) -> None:
    """It happens in the process that measures; a request takes seconds."""
    load = workload_named(name)
    load.session(0)

    def cost_s() -> float:
        began = time.process_time()
        sessions(load, 20)
        return (time.process_time() - began) / 20

    assert min(cost_s() for _ in range(3)) < 0.025
