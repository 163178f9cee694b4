"""Recorded dialogues as turns: what is sent, and what was answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autotune.errors import nearest
from autotune.workload.model import Message, Turn
from autotune.workload.readers.complaint import BadRow

MAX_OUTPUT_TOK = 512
"""Cap of an answer where the file names none; most answers end before."""

_ROLES = {
    "human": "user", "user": "user", "prompter": "user", "tool": "user", "function": "user",
    "observation": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant",
    "bing": "assistant", "bard": "assistant", "model": "assistant", "system": "system",
}  # fmt: skip
"""Roles of chat logs. Tool results become user messages: without the ids of their calls, which the
logs do not have, chat templates refuse the role ``tool``."""


def role_of(name: str) -> str:
    """The role that a chat log calls ``name``."""
    try:
        return _ROLES[name.strip().lower()]
    except KeyError:
        raise BadRow(f"{name!r} is no role: {nearest(name, _ROLES)}") from None


def turns_of(said: Iterable[Message]) -> tuple[Turn, ...]:
    """A dialogue as turns of new messages, each with the recorded answer.

    An answer before anything was asked is left out; two in a row are one. Questions after the last
    answer are a turn without one.
    """
    turns: list[Turn] = []
    asked: list[Message] = []
    answered: list[str] = []
    for message in said:
        if message["role"] == "assistant":
            if asked:
                answered.append(str(message["content"]))
            continue
        if answered:
            turns.append(Turn(tuple(asked), MAX_OUTPUT_TOK, answer="\n\n".join(answered)))
            asked, answered = [], []
        asked.append(message)
    if asked:
        answer = "\n\n".join(answered) if answered else None
        turns.append(Turn(tuple(asked), MAX_OUTPUT_TOK, answer=answer))
    if not turns:
        raise BadRow("nobody asks anything in this conversation")
    return tuple(turns)


def check_messages(messages: Any) -> tuple[Message, ...]:  # noqa: ANN401 (from JSON)
    """Chat messages as they are sent: at least one, each with a role."""
    if not isinstance(messages, list) or not messages:
        raise BadRow("messages must be a list with at least one message")
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRow(f"messages[{place}] must be an object with a role")
        if "content" not in message and "tool_calls" not in message:
            raise BadRow(f"messages[{place}] has no content")
    return tuple(messages)


def user(content: str) -> Message:
    return {"role": "user", "content": content}
