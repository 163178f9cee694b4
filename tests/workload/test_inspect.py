"""What an inspection counts, and what it warns of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.cli.bars import bar, picture
from autotune.workload import Session, Turn, workload_named
from autotune.workload.counting import Lengths, SeenIds
from autotune.workload.doubts import doubts
from autotune.workload.inspection import Inspection
from autotune.workload.lengths import CHARS_PER_TOK, Recorded, Requests

from .examples import asked

NUMBERS = st.lists(st.integers(0, 2_000_000), min_size=1, max_size=200)


def inspected(sessions: Iterable[Recorded]) -> Inspection:
    found = Inspection()
    for session in sessions:
        found.add(session)
    return found


def lengths_of(*prompts: tuple[int, list[int]], block_tok: int = 10, at_s: float = 0.0) -> Recorded:
    requests = Requests()
    for n_tok, ids in prompts:
        requests.add(n_tok, 50, ids, gap_s=2.0, gap_kind="tool")
    return requests.session(block_tok, "s", at_s)


@given(NUMBERS, st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_err_by_one_percent(numbers: list[int], q: float) -> None:
    lengths = Lengths()
    for number in numbers:
        lengths.add(number)
    exact = float(np.quantile(numbers, q, method="inverted_cdf"))
    assert abs(lengths.quantile(q) - exact) <= 0.01 * exact
    assert lengths.mean == pytest.approx(np.mean(numbers)) and lengths.highest == max(numbers)
    assert sum(lengths.by_doubling().values()) == lengths.n == len(numbers)


@given(st.lists(st.lists(st.integers(0, 2**27 - 1), max_size=9), max_size=9))
def test_low_ids_are_remembered_exactly(prompts: list[list[int]]) -> None:
    seen, known = SeenIds(), set[int]()
    for ids in prompts:
        n_known = next((i for i, number in enumerate(ids) if number not in known), len(ids))
        assert seen.add_all(ids) == n_known
        known.update(ids)


def test_few_high_ids_are_taken_for_known() -> None:
    rng, seen = Random(0), SeenIds()
    wrong = sum(seen.add_all([rng.getrandbits(63)]) for _ in range(100_000))
    assert wrong < 200  # 100,000 of 2^27 slots
    low_with_high = [5, 2**40]
    assert seen.add_all(low_with_high) == 0
    assert seen.add_all([5]) == 1 and seen.add_all([2**40]) == 1


def test_prefix_reuse_counts_leading_blocks_that_were_there() -> None:
    found = inspected([
        lengths_of((30, [1, 2, 3]), (40, [1, 2, 3, 4])),
        lengths_of((30, [1, 9, 3])),
        lengths_of((5, [1])),
    ])  # fmt: skip
    assert found.prefix_reuse == pytest.approx((0 + 30 + 10 + 5) / 105)
    assert (found.n_sessions, found.n_requests, found.gaps_ms["tool"].n) == (3, 4, 1)
    assert found.gaps_ms["tool"].mean == 2_000


def test_prefix_reuse_of_text_is_that_of_its_blocks() -> None:
    text = workload_named("agentic").session(0).turns[0].messages[0]["content"]
    long = (text * 9)[:25_600]
    turns = (Turn(tuple(asked(long)), 9, answer="ok"), Turn(tuple(asked("and?" * 64)), 9))
    alone = inspected([Session(turns)]).prefix_reuse
    assert alone == pytest.approx(0.5, abs=0.02)
    twice = inspected([Session(turns), Session(turns)]).prefix_reuse
    assert twice == pytest.approx(0.75, abs=0.02)


def test_lengths_of_text_are_estimated_and_named_so() -> None:
    turns = (Turn(tuple(asked("x" * 410)), 9, answer="y" * 82), Turn(tuple(asked("z" * 410)), 9))
    found = inspected([Session(turns)])
    assert found.n_estimated == {"input": 2, "output": 1}
    assert found.input_tok.highest == pytest.approx((410 * 2 + 82) / CHARS_PER_TOK, rel=0.15)
    assert found.output_tok.highest == 20


def test_recorded_lengths_come_before_estimates() -> None:
    turn = Turn(tuple(asked("x" * 400)), 9, answer="y", n_input_tok=7, n_output_tok=3)
    found = inspected([Session((turn,))])
    assert (found.input_tok.highest, found.output_tok.highest) == (7, 3)
    assert found.n_estimated == {"input": 0, "output": 0}


def test_arrivals_have_a_rate_and_a_variation() -> None:
    rng, at_s, sessions = Random(1), 0.0, []
    for _ in range(4_000):
        at_s += rng.expovariate(5.0)
        sessions.append(lengths_of((10, []), at_s=at_s))
    rng.shuffle(sessions)
    arrivals = inspected(sessions).arrivals()
    assert arrivals is not None
    assert arrivals[0] == pytest.approx(5, rel=0.05) and arrivals[1] == pytest.approx(1, abs=0.06)
    assert inspected(sessions[:2]).arrivals() is None


def warnings_of(sessions: Iterable[Recorded], context_tok: int = 100_000) -> str:
    return "\n".join(doubts(inspected(sessions), context_tok))


def chat(text: str, **extra: object) -> Session:
    return Session((Turn(tuple(asked(text)), 99, answer="a word " * 60),), extra=dict(extra))


def test_a_varied_workload_is_not_warned_of() -> None:
    load = workload_named("agentic")
    assert warnings_of(load.session(number) for number in range(100)) == ""


@pytest.mark.parametrize(
    ("sessions", "says"),
    [
        ([chat("Say yes or no. " * 200 + str(i)) for i in range(99)], "repetitive"),
        ([chat(f"question {i // 4}") for i in range(99)], "75 % of the first prompts are dupl"),
        ([chat(f"question {i}", temperature=0) for i in range(99)], "temperature 0"),
        ([chat("x")], "few sessions (1)"),
        ([lengths_of((200_000, [])) for _ in range(99)], "100 % of the prompts are longer than"),
        ([lengths_of((20, [])) for _ in range(99)], "length-only"),
        ([Session((Turn(tuple(asked(str(i))), 9, n_output_tok=4),)) for i in range(99)],
         "too short to measure"),
    ],
)  # fmt: skip
def test_what_makes_numbers_less_worth_is_said(sessions: list[Recorded], says: str) -> None:
    assert says in warnings_of(sessions)


def test_pictures_fit_half_a_terminal() -> None:
    lengths = Lengths()
    for power in range(24):
        for _ in range(1 + power * 50):
            lengths.add(2**power)
    rows = picture(lengths)
    assert len(rows) == 14 and max(map(len, rows)) <= 34
    assert rows[0].lstrip().startswith("< 2k") and rows[-1].lstrip().startswith("8M–")
    assert picture(Lengths()) == ["not recorded"]
    assert (bar(0), len(bar(1)), bar(1e-9)) == ("", 18, "▏")


INSPECT = """
import json, re, sys
from pathlib import Path
from autotune.workload.inspection import Inspection
from autotune.workload.readers import SessionFile
found = Inspection()
for session in SessionFile(Path(sys.argv[1])):
    found.add(session)
found.arrivals(), found.duplicate_share
# ru_maxrss would count the process that this one was forked from.
peak_kb = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(json.dumps({"n": found.n_sessions, "peak_mb": peak_kb / 1024}))
"""


def mooncake_file(path: Path, n_rows: int) -> Path:
    rng, n_ids = Random(n_rows), 1
    with path.open("w") as out:
        for i in range(n_rows):
            n_new = rng.randint(1, 20)
            ids = [0, *range(n_ids, n_ids + n_new)]
            n_ids += n_new
            out.write(
                f'{{"timestamp": {i * 300}, "input_length": {512 * len(ids) - 7}, '
                f'"output_length": {rng.randint(1, 900)}, "hash_ids": {ids}}}\n'
            )
    return path


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peak_mb = {}
    for n_rows in (20_000, 200_000):
        path = mooncake_file(tmp_path / f"{n_rows}.jsonl", n_rows)
        done = subprocess.run(
            [sys.executable, "-c", INSPECT, str(path)],
            capture_output=True, text=True, check=True, env=dict(os.environ),
        )  # fmt: skip
        told = json.loads(done.stdout)
        assert told["n"] == n_rows
        peak_mb[n_rows] = told["peak_mb"]
    assert peak_mb[200_000] < 150
    assert peak_mb[200_000] - peak_mb[20_000] < 40
