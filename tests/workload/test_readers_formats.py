"""What each format means: units, histories, answers, blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import WorkloadError
from autotune.workload import Session
from autotune.workload.lengths import LengthSession, Recorded, prompts
from autotune.workload.readers import SessionFile
from autotune.workload.readers.grouping import OpenSessions

from .examples import BY_NAME, MOONCAKE, asked, lines, round_of, said


def read(folder: Path, form: str, text: str | None = None) -> list[Recorded]:
    return list(SessionFile(BY_NAME[form].write(folder, text), form))


def texts(folder: Path, form: str, text: str | None = None) -> list[Session]:
    sessions = read(folder, form, text)
    assert all(isinstance(session, Session) for session in sessions)
    return [session for session in sessions if isinstance(session, Session)]


def lengths(folder: Path, form: str, text: str | None = None) -> list[LengthSession]:
    sessions = read(folder, form, text)
    assert all(isinstance(session, LengthSession) for session in sessions)
    return [session for session in sessions if isinstance(session, LengthSession)]


def contents(session: Session) -> list[list[str]]:
    return [[message["content"] for message in turn.messages] for turn in session.turns]


# ---- chat logs ----------------------------------------------------------------------------------


def test_sharegpt_turns_hold_what_is_new_and_the_recorded_answer(tmp_path: Path) -> None:
    session = texts(tmp_path, "sharegpt")[1]
    assert session.session_id == "b7_2"
    assert contents(session) == [["Hello"], ["Write a haiku."], ["More"]]
    assert [turn.answer for turn in session.turns] == ["Hi!", "Snow…", None]
    assert {turn.max_output_tok for turn in session.turns} == {512}
    assert not any(turn.fresh for turn in session.turns)


def test_an_answer_to_nothing_is_left_out_and_two_in_a_row_are_one(tmp_path: Path) -> None:
    talk = [
        {"from": "gpt", "value": "before"}, {"from": "system", "value": "Be kind."},
        {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"},
        {"from": "bing", "value": "b"},
    ]  # fmt: skip
    session = texts(tmp_path, "sharegpt", json.dumps([{"conversations": talk}]))[0]
    assert contents(session) == [["Be kind.", "q"]]
    assert session.turns[0].messages[0]["role"] == "system"
    assert session.turns[0].answer == "a\n\nb"


def test_custom_rows_without_roles_alternate(tmp_path: Path) -> None:
    first, second = texts(tmp_path, "custom")
    assert contents(first) == [["a"]] and first.turns[0].answer == "b"
    assert contents(second) == [["c"]] and second.turns[0].answer is None


def test_agentic_traces_keep_the_recorded_prompt_length(tmp_path: Path) -> None:
    first, second = texts(tmp_path, "agentic-trace")
    assert [turn.n_input_tok for turn in first.turns] == [7312, 7890]
    assert second.turns[0].n_input_tok is None
    assert [s.session_id for s in (first, second)] == ["1", "2"]


# ---- bodies -------------------------------------------------------------------------------------


def test_a_body_is_one_turn_with_its_history(tmp_path: Path) -> None:
    first, second = texts(tmp_path, "openai")
    assert first.extra == {"temperature": 0.3} and first.turns[0].max_output_tok == 128
    assert contents(second) == [["Find x.", "x = 3", "And y?"]]
    assert second.turns[0].max_output_tok == 256 and second.extra == {}


def test_only_what_the_client_sets_itself_is_dropped_from_a_body(tmp_path: Path) -> None:
    body = {
        "messages": asked("x"), "model": "m", "stream": True, "stream_options": {}, "n": 3,
        "max_tokens": 5, "max_completion_tokens": 9, "tools": [{"type": "function"}], "top_p": 0.9,
        "seed": 1,
    }  # fmt: skip
    session = texts(tmp_path, "openai", lines(body))[0]
    assert session.extra == {"tools": [{"type": "function"}], "top_p": 0.9, "seed": 1}
    assert session.turns[0].max_output_tok == 9


def test_an_answer_at_the_end_of_a_body_is_recorded_not_sent(tmp_path: Path) -> None:
    body = {"messages": [*asked("x"), {"role": "assistant", "content": "y"}]}
    turn = texts(tmp_path, "openai", lines(body))[0].turns[0]
    assert (turn.messages, turn.answer) == (tuple(asked("x")), "y")


def test_a_batch_file_for_another_endpoint_is_refused(tmp_path: Path) -> None:
    row = {"custom_id": "e", "url": "/v1/embeddings", "body": {"input": "x"}}
    with pytest.raises(WorkloadError, match="url is /v1/embeddings"):
        texts(tmp_path, "openai-batch", lines(row))


# ---- prompt files -------------------------------------------------------------------------------


def test_guidellm_columns_become_turns(tmp_path: Path) -> None:
    first, second = texts(tmp_path, "guidellm")
    assert first.turns[0].max_output_tok == first.turns[0].n_output_tok == 128
    assert contents(second) == [["Be brief.", "Name a fish."], ["Another."]]
    assert [turn.max_output_tok for turn in second.turns] == [64, 32]


def test_guidellm_csv_says_the_same_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "prompts.csv"
    path.write_text(
        "prefix,prompt_0,output_tokens_count_0,prompt_1,output_tokens_count_1\n"
        'Be brief.,"Name a\n""fish"".",64,Another.,32\n'
        ",Alone,,,\n"
    )
    file = SessionFile(path)
    first, second = (session for session in file if isinstance(session, Session))
    assert file.format.name == "guidellm"
    assert contents(first) == [["Be brief.", 'Name a\n"fish".'], ["Another."]]
    assert contents(second) == [["Alone"]] and second.turns[0].max_output_tok == 512


def test_aiperf_times_are_milliseconds(tmp_path: Path) -> None:
    rows = [
        {"session_id": "a", "turns": [
            {"text": "x", "timestamp": 5_000}, {"texts": ["y", "z"], "delay": 2_000},
            {"text": "w", "timestamp": 9_500}, {"text": "v", "timestamp": 9_900}]},
        {"text": "u", "timestamp": 6_500, "role": "system"},
    ]  # fmt: skip
    first, second = texts(tmp_path, "aiperf", lines(*rows))
    assert [turn.gap_s for turn in first.turns] == [0, 2.0, 0, 0.4]
    assert contents(first)[1] == ["y\nz"]
    assert (first.start_s, second.start_s) == (0.0, 1.5)
    assert second.turns[0].messages[0]["role"] == "system"


# ---- lengths ------------------------------------------------------------------------------------


def test_mooncake_has_milliseconds_and_blocks_of_512(tmp_path: Path) -> None:
    rows = [MOONCAKE[0], {**MOONCAKE[1], "timestamp": 1234}]
    first, second = lengths(tmp_path, "mooncake", lines(*rows))
    assert (first.block_tok, first.start_s, second.start_s) == (512, 0.0, 1.234)
    assert (first.requests[0].n_input_tok, first.requests[0].n_output_tok) == (1100, 41)
    assert list(first.requests[0].blocks) == [0, 1, 2]


def test_stamps_on_a_coarse_grid_are_spread_within_their_cell(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 3_000 * cell, "input_length": 9, "output_length": 1}
        for cell in range(50) for _ in range(1 + cell % 7)
    ]  # fmt: skip
    sessions = lengths(tmp_path, "mooncake", lines(*rows))
    starts = [session.start_s or 0.0 for session in sessions]
    assert starts == sorted(starts) and len(set(starts)) == len(starts)
    for row, start_s in zip(rows, starts, strict=True):
        assert 0 <= start_s - row["timestamp"] / 1e3 < 3
    again = lengths(tmp_path, "mooncake", lines(*rows))
    assert [session.start_s for session in again] == starts


def test_fine_stamps_are_kept_as_they_are(tmp_path: Path) -> None:
    rows = [
        {"timestamp": at, "input_length": 9, "output_length": 1} for at in (7, 7, 19, 4_000, 4_000)
    ]
    sessions = lengths(tmp_path, "mooncake", lines(*rows))
    assert [session.start_s for session in sessions] == [0, 0, 0.012, 3.993, 3.993]


def test_mooncake_rows_of_a_session_are_its_turns(tmp_path: Path) -> None:
    rows = [
        {"session_id": "a", "timestamp": 0, "input_length": 600, "output_length": 9,
         "hash_ids": [1, 2]},
        {"session_id": "b", "timestamp": 500, "text_input": "Hello"},
        {"session_id": "a", "delay": 1_500, "input_length": 1100, "output_length": 9,
         "hash_ids": [1, 2, 3]},
        {"session_id": "b", "delay": 100, "messages": asked("Hello", "again"), "output_length": 7},
    ]  # fmt: skip
    first, second = read(tmp_path, "mooncake", lines(*rows))
    assert isinstance(first, LengthSession) and isinstance(second, Session)
    assert [request.gap_s for request in first.requests] == [0, 1.5]
    assert [list(ids) for ids in prompts(first)] == [[1, 2], [1, 2, 3]]
    assert (first.requests[1].n_kept, list(first.requests[1].blocks)) == (2, [3])
    assert contents(second) == [["Hello"], ["Hello", "again"]]
    assert [turn.fresh for turn in second.turns] == [False, True]
    assert second.start_s == 0.5 and second.turns[1].max_output_tok == 7


def test_more_blocks_than_the_prompt_holds_are_refused(tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}
    with pytest.raises(WorkloadError, match="2 hash_ids for 512 tokens"):
        lengths(tmp_path, "mooncake", lines(row))


def test_bailian_chats_are_chained_by_their_parent(tmp_path: Path) -> None:
    sessions = {session.session_id: session for session in lengths(tmp_path, "bailian")}
    chain = sessions["159"]
    assert (chain.block_tok, chain.start_s, sessions["160"].start_s) == (16, 0.0, 0.9)
    assert [r.gap_s for r in chain.requests] == pytest.approx([0, 32.3])
    assert [list(ids) for ids in prompts(chain)] == [[5, 6, 7], [5, 6, 7, 9]]
    assert chain.requests[1].gap_kind == "human"


def test_weka_sub_agents_are_sessions_beside_their_parent(tmp_path: Path) -> None:
    parent, agent = lengths(tmp_path, "weka")
    assert (parent.session_id, agent.session_id) == ("t1", "t1/agent_001")
    assert [r.gap_s for r in parent.requests] == [0, 9.1, 119.0]
    assert [r.gap_kind for r in parent.requests] == ["human", "tool", "human"]
    assert [r.n_kept for r in parent.requests] == [0, 3, 4]
    assert agent.requests[0].blocks[0] == parent.requests[0].blocks[0]
    assert parent.start_s is None


def test_weka_ids_of_different_files_are_different_blocks(tmp_path: Path) -> None:
    one = lengths(tmp_path, "weka")[0]
    two = lengths(tmp_path, "weka", BY_NAME["weka"].good.replace('"t1"', '"t2"'))[0]
    scoped = BY_NAME["weka"].good.replace('"local"', '"global"')
    assert not set(one.requests[0].blocks) & set(two.requests[0].blocks)
    assert list(lengths(tmp_path, "weka", scoped)[0].requests[0].blocks) == [1, 2, 3]


def test_weka_gaps_without_think_time_come_from_the_clock(tmp_path: Path) -> None:
    row = {"requests": [{"t": 1.0, "in": 70, "out": 1, "api_time": 2.5},
                        {"t": 10.0, "in": 80, "out": 1}]}  # fmt: skip
    session = lengths(tmp_path, "weka", json.dumps(row))[0]
    assert session.requests[1].gap_s == 6.5


def test_tracelab_prefixes_become_blocks(tmp_path: Path) -> None:
    sessions = {session.session_id: session for session in lengths(tmp_path, "tracelab")}
    first, second = prompts(sessions["s1"])
    other = next(prompts(sessions["s2"]))
    assert (len(first), len(second)) == (1300 // 128, 1500 // 128)
    assert first[:4] != first[4:8] and list(first[:2]) == list(other[:2])
    assert set(first[4:]).isdisjoint(other)
    assert second[:10] == first[:10] and second[10] not in first
    assert [r.gap_s for r in sessions["s1"].requests] == [0, 4.0]
    assert [r.gap_kind for r in sessions["s1"].requests] == ["human", "tool"]


def test_tracelab_rounds_are_put_in_order(tmp_path: Path) -> None:
    rows = [round_of("s", index, 1000 + index, 0, 9 * index) for index in (2, 0, 1)]
    session = lengths(tmp_path, "tracelab", lines(*rows))[0]
    assert [r.n_input_tok for r in session.requests] == [1000, 1001, 1002]


def test_azure_times_have_seven_decimals(tmp_path: Path) -> None:
    sessions = lengths(tmp_path, "azure")
    assert [s.start_s for s in sessions] == pytest.approx([0, 0.13, 0.17])
    assert [s.requests[0].n_output_tok for s in sessions] == [10, 8, 27]
    assert not any(s.requests[0].blocks for s in sessions)


def test_failures_of_burstgpt_are_left_out_and_counted(tmp_path: Path) -> None:
    file = SessionFile(BY_NAME["burstgpt"].write(tmp_path))
    assert [s.start_s for s in file] == [0, 40]
    assert file.n_skipped == 1


# ---- memory -------------------------------------------------------------------------------------


def test_open_sessions_close_the_one_that_waits_longest() -> None:
    opened: OpenSessions[str, str] = OpenSessions(held=1_300)
    assert list(opened.put("a", "A", 400)) == []
    assert list(opened.put("b", "B", 400)) == []
    assert list(opened.put("a", "A", 450)) == []
    assert list(opened.put("c", "C", 400)) == ["B"]
    assert opened.get("b") is None and opened.get("a") == "A"
    assert list(opened.rest()) == ["A", "C"]


def test_a_long_session_is_kept_as_differences(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"session_id": "a", "input_length": 512 * n, "output_length": 1, "hash_ids": [*range(n)]}
        for n in range(1, 400)
    ]
    session = lengths(tmp_path, "mooncake", lines(*rows))[0]
    assert sum(len(request.blocks) for request in session.requests) == 399


def test_our_own_form_is_checked(tmp_path: Path) -> None:
    for turn, says in (
        ({"messages": asked("x"), "max_output_tok": 0}, "max_output_tok must be at least 1"),
        ({"messages": asked("x"), "max_output_tok": 1, "gap_s": -1}, "gap_s must be at least 0"),
        ({"messages": asked("x"), "max_output_tok": 1, "n_output_tok": -1}, "n_output_tok must"),
        ({"messages": [{"content": "x"}], "max_output_tok": 1}, "an object with a role"),
    ):
        with pytest.raises(WorkloadError, match=says):
            texts(tmp_path, "sessions", lines({"turns": [turn]}))


def test_roles_of_chat_logs_are_known_by_many_names(tmp_path: Path) -> None:
    talk = [*said("q", "a"), {"from": "observation", "value": "42"}]
    session = texts(tmp_path, "sharegpt", json.dumps([{"conversations": talk}]))[0]
    assert [m["role"] for turn in session.turns for m in turn.messages] == ["user", "user"]
