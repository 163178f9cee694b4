from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import zlib

import pytest

from autotune.errors import WorkloadError
from autotune.workload import Session, Workload, workload_named
from autotune.workload.agentic import agentic, agentic_short

N_SESSIONS = 40


def user_texts(seed: int = 0, first: int = 0) -> list[str]:
    load = agentic(seed)
    numbers = range(first, first + N_SESSIONS)
    return [
        message["content"]
        for number in numbers
        for turn in load.session(number).turns
        for message in turn.messages
        if message["role"] == "user"
    ]


def system_prompt(load: Workload, number: int = 0) -> str:
    opening = load.session(number).turns[0].messages[0]
    assert opening["role"] == "system"
    return str(opening["content"])


def test_a_session_is_the_same_text_every_time() -> None:
    for number in (0, 7, 100_003):
        assert agentic(5).session(number) == agentic(5).session(number)


def test_a_session_does_not_depend_on_the_ones_before_it() -> None:
    load = agentic(0)
    for number in range(5):
        load.session(number)
    assert load.session(31) == agentic(0).session(31)


def test_a_session_is_the_same_text_in_every_process() -> None:
    program = (
        "import zlib; from autotune.workload.agentic import agentic; "
        "print(zlib.crc32(repr(agentic(3).session(9)).encode()))"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(told.stdout) == zlib.crc32(repr(agentic(3).session(9)).encode())


def test_another_seed_is_another_load() -> None:
    assert agentic(0).session(0) != agentic(1).session(0)
    assert system_prompt(agentic(0)) != system_prompt(agentic(1))
    assert not set(user_texts(0)) & set(user_texts(1))


def test_no_two_sessions_say_the_same() -> None:
    texts = user_texts()
    assert len(set(texts)) == len(texts)
    assert not set(texts) & set(user_texts(first=100_000))


def test_all_sessions_of_a_study_share_the_system_prompt() -> None:
    load = agentic(0)
    assert len({system_prompt(load, number) for number in range(10)}) == 1


def test_the_text_is_not_repetitive() -> None:
    joined = "\n".join(user_texts()).encode()
    assert len(zlib.compress(joined, 9)) / len(joined) > 0.15
    words = re.findall(r"\w+", joined.decode())
    grams = list(itertools.pairwise(itertools.pairwise(itertools.pairwise(words))))
    assert len(set(grams)) / len(grams) > 0.5


def test_sessions_have_the_documented_shape() -> None:
    load = agentic_short(0)
    sessions: list[Session] = [load.session(number) for number in range(N_SESSIONS)]
    assert {len(session.turns) for session in sessions} == {3, 4, 5, 6}
    for session in sessions:
        said = "".join(m["content"] for turn in session.turns for m in turn.messages)
        assert 3_000 < len(said) < 30_000  # about 1,000 to 6,000 tokens of 4 characters
        assert all(turn.messages and turn.max_output_tok == 512 for turn in session.turns)


def test_the_text_survives_json() -> None:
    for text in (system_prompt(agentic(0)), *user_texts()):
        assert json.loads(json.dumps({"content": text})) == {"content": text}
        assert text.encode().decode() == text


def test_a_workload_is_found_by_its_name() -> None:
    load = workload_named("agentic", seed=4)
    assert load.session(2) == agentic(4).session(2)
    assert (load.name, load.reference_output_tok, load.temperature) == ("agentic", 216, 0.6)


def test_an_unknown_workload_names_the_nearest_one() -> None:
    with pytest.raises(WorkloadError, match="named 'agentik': did you mean 'agentic'"):
        workload_named("agentik")
