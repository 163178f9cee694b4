"""Chat logs with their text: ShareGPT, SGLang's ``custom`` and ``agentic-trace``, Spec-Bench.

SGLang reads of the first two only the first question and answer; here the whole conversation is
played. Sources: ``sglang/benchmark/datasets`` for the first three, SPEED-Bench and Spec-Bench for
the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from autotune.workload.lengths import Recorded
from autotune.workload.model import Message, Session, Turn
from autotune.workload.readers.complaint import BadRow
from autotune.workload.readers.dialogue import (
    MAX_OUTPUT_TOK,
    check_messages,
    role_of,
    turns_of,
    user,
)
from autotune.workload.readers.driver import each
from autotune.workload.readers.source import Source
from autotune.workload.readers.units import Count, SomeId


class _Said(msgspec.Struct):
    speaker: str | None = msgspec.field(default=None, name="from")
    role: str | None = None
    value: str | None = None
    content: str | None = None


class _Conversation(msgspec.Struct):
    id: SomeId = ""
    conversations: list[_Said] | None = None
    conversation: list[_Said] | None = None


_conversation = msgspec.json.Decoder(_Conversation)


def conversations(source: Source) -> Iterator[Recorded]:
    """ShareGPT and ``custom``: lists of what was said; without roles, by turns from the user on."""
    return each(source, _conversation, _from_conversation)


def _from_conversation(row: _Conversation, line: int) -> Session:
    said = row.conversations if row.conversations is not None else row.conversation
    if said is None:
        raise BadRow("there is no 'conversations'")
    messages = [_message(item, place) for place, item in enumerate(said)]
    return Session(turns_of(messages), session_id=str(row.id or line))


def _message(said: _Said, place: int) -> Message:
    content = said.value if said.value is not None else said.content
    if content is None:
        raise BadRow(f"conversations[{place}] has neither 'value' nor 'content'")
    name = said.speaker or said.role
    by_place = "assistant" if place % 2 else "user"
    return {"role": role_of(name) if name else by_place, "content": content}


class _AgentTurn(msgspec.Struct):
    messages: list[dict[str, Any]]
    prompt_tokens: Count | None = None


_agent_turns = msgspec.json.Decoder(list[_AgentTurn])


def agentic_trace(source: Source) -> Iterator[Recorded]:
    """One object whose ``conversations`` are lists of turns; answers are not recorded."""
    for number, (line, raw) in enumerate(source.elements("conversations"), start=1):
        session = source.guarded(line, raw, _agent_turns, _from_agent_turns)
        if session is not None:
            yield msgspec.structs.replace(session, session_id=str(number))


def _from_agent_turns(rows: list[_AgentTurn], _line: int) -> Session:
    if not rows:
        raise BadRow("a conversation has no turn")
    turns = tuple(
        Turn(check_messages(row.messages), MAX_OUTPUT_TOK, n_input_tok=row.prompt_tokens)
        for row in rows
    )
    return Session(turns)


class _Question(msgspec.Struct):
    turns: list[str]
    question_id: SomeId = ""
    category: str = ""


_question = msgspec.json.Decoder(_Question)


def spec_bench(source: Source) -> Iterator[Recorded]:
    """Questions for measuring acceptance; the turns of a row follow each other."""
    return each(source, _question, _from_question)


def _from_question(row: _Question, line: int) -> Session:
    if not row.turns:
        raise BadRow("turns must name at least one question")
    turns = tuple(Turn((user(said),), MAX_OUTPUT_TOK) for said in row.turns)
    return Session(turns, session_id=str(row.question_id or line), source=row.category)
