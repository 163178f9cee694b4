"""A file as a workload: sampled, held out, cut to a context, the same for the same seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.errors import WorkloadError
from autotune.workload import Session, Turn, Workload, workload_named
from autotune.workload.fitting import fitted, n_chars
from autotune.workload.from_file import draw
from autotune.workload.lengths import CHARS_PER_TOK

from .examples import BY_NAME, asked, lines


def length_file(folder: Path, n: int, *, n_input_tok: int = 600, n_output_tok: int = 40) -> str:
    path = folder / "trace.jsonl"
    row = {"input_length": n_input_tok, "output_length": n_output_tok}
    path.write_text(lines(*({"timestamp": i, **row, "hash_ids": [0]} for i in range(n))))
    return str(path)


def chat_file(folder: Path, *bodies: dict[str, object]) -> str:
    path = folder / "chat.jsonl"
    path.write_text(lines(*bodies))
    return str(path)


def ids(load: Workload) -> list[str]:
    return [load.session(number).session_id for number in range(load.n_sessions or 0)]


def test_a_third_of_the_sessions_is_held_out(tmp_path: Path) -> None:
    load = workload_named(length_file(tmp_path, 100))
    assert (load.n_sessions, load.n_held_out) == (70, 30)
    seen, kept = set(ids(load)), set(ids(load.held_out()))
    assert len(seen) == 70 and len(kept) == 30 and not seen & kept
    assert load.session(70) == load.session(0)


def test_one_session_is_not_held_out(tmp_path: Path) -> None:
    load = workload_named(length_file(tmp_path, 1))
    assert (load.n_sessions, load.n_held_out) == (1, 0)


def test_the_seed_alone_decides_order_and_text(tmp_path: Path) -> None:
    path = length_file(tmp_path, 50)
    first, again, other = (workload_named(path, seed=seed) for seed in (1, 1, 2))
    assert ids(first) == ids(again) != ids(other)
    assert first.session(3) == again.session(3)
    assert ids(first) != sorted(ids(first), key=int)


def test_a_sample_gives_every_session_the_same_chance() -> None:
    turn = Turn(tuple(asked("x")), 1)
    n_times = [0] * 40
    for seed in range(600):
        sessions = [Session((turn,), session_id=str(i)) for i in range(40)]
        kept = draw(sessions, seed, max_sessions=10)
        assert (len(kept.sessions), kept.n_seen) == (10, 40)
        for session in kept.sessions:
            n_times[int(session.session_id)] += 1
    assert min(n_times) > 110 and max(n_times) < 195  # 150 ± 4 standard deviations


def test_a_sample_of_long_sessions_is_smaller_but_as_fair() -> None:
    turn = Turn(tuple(asked("x" * 10_000)), 1)
    n_times = [0] * 40
    for seed in range(400):
        sessions = (Session((turn,), session_id=str(i)) for i in range(40))
        kept = draw(sessions, seed, max_bytes=110_000).sessions
        assert 4 <= len(kept) <= 10
        for session in kept:
            n_times[int(session.session_id)] += 1
    early, late = sum(n_times[:20]), sum(n_times[20:])
    assert 0.85 < early / late < 1.15


def test_a_replay_has_the_recorded_rate(tmp_path: Path) -> None:
    path = length_file(tmp_path, 1_000)  # one millisecond apart
    for load, n in ((workload_named(path), 700), (workload_named(path).held_out(), 300)):
        starts = sorted(load.session(number).start_s or 0.0 for number in range(n))
        assert n / (starts[-1] - starts[0]) == pytest.approx(1_000, rel=0.02)


def test_the_reference_turn_is_the_median_recorded_answer(tmp_path: Path) -> None:
    assert workload_named(length_file(tmp_path, 9, n_output_tok=77)).reference_output_tok == 77
    answered: dict[str, object] = {
        "messages": [*asked("x"), {"role": "assistant", "content": "y" * 410}]
    }
    assert workload_named(chat_file(tmp_path, answered)).reference_output_tok == 100
    chat = chat_file(tmp_path, {"messages": asked("x")})
    assert workload_named(chat).reference_output_tok == 216


@pytest.mark.parametrize(
    ("temperatures", "expected"),
    [([0.2, 0.2], 0.2), ([0, 0], 0.0), ([0.2, 0.9], 0.6), ([None, None], 0.6), ([0.2, None], 0.6)],
)
def test_the_temperature_is_that_of_the_rows_if_they_agree(
    temperatures: list[float | None], expected: float, tmp_path: Path
) -> None:
    bodies: list[dict[str, object]] = [
        {"messages": asked("x")} | ({} if t is None else {"temperature": t}) for t in temperatures
    ]
    assert workload_named(chat_file(tmp_path, *bodies)).temperature == expected


def test_notes_say_what_the_text_is(tmp_path: Path) -> None:
    assert workload_named(length_file(tmp_path, 3)).notes == (
        "length-only: the text comes from the built-in corpus",
        "arrival times are compressed to the recorded rate of the whole file",
    )
    assert workload_named(chat_file(tmp_path, {"messages": asked("x")})).notes == ()
    assert "1 failed requests" in workload_named(str(BY_NAME["burstgpt"].write(tmp_path))).notes[2]


@pytest.mark.parametrize("context_tok", [64, 300, 2_048])
def test_every_session_is_cut_to_the_context(context_tok: int, tmp_path: Path) -> None:
    path = length_file(tmp_path, 4, n_input_tok=5_000, n_output_tok=3_000)
    load = workload_named(path).sized(context_tok)
    for number in range(4):
        turn = load.session(number).turns[0]
        n_tok = len(turn.messages[0]["content"]) / CHARS_PER_TOK
        assert n_tok >= 1 and n_tok + turn.max_output_tok <= context_tok


def test_a_session_ends_before_the_turn_that_does_not_fit() -> None:
    turns = tuple(Turn(tuple(asked("x" * 300)), 50, answer="y" * 150) for _ in range(9))
    session = Session(turns)
    assert fitted(session, None) == session
    assert [len(fitted(session, n).turns) for n in (100_000, 400, 340, 160)] == [9, 2, 2, 1]


@pytest.mark.parametrize("context_tok", [64, 500])
def test_a_text_too_long_loses_its_middle(context_tok: int) -> None:
    messages = ({"role": "system", "content": "Be kind."}, *asked("a" * 9_000 + "b" * 9_000))
    cut = fitted(Session((Turn(messages, 9_999),)), context_tok).turns[0]
    assert cut.max_output_tok == context_tok // 4
    assert n_chars(cut.messages) / 3 + cut.max_output_tok <= context_tok
    assert cut.messages[0]["content"] == "Be kind."
    text = cut.messages[1]["content"]
    assert text.startswith("aa") and text.endswith("bb") and "[…]" in text


def test_a_path_is_a_file_and_a_word_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("traffic").write_text(lines({"prompt": "x"}))
    assert workload_named("traffic").title == "guidellm file"
    with pytest.raises(WorkloadError, match="no workload named 'trafic'") as caught:
        workload_named("trafic")
    assert "a file of sessions works too" in caught.value.hint
    with pytest.raises(WorkloadError, match=r"there is no file trafic\.jsonl"):
        workload_named("trafic.jsonl")


def test_a_bad_row_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"prompt": "x"}) + "\n{]\n")
    with pytest.raises(WorkloadError, match=r"x\.jsonl, line 2: not JSON at column 2"):
        workload_named(str(path))
