"""A small file of each format; shapes as published, values invented."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def lines(*rows: Any) -> str:  # noqa: ANN401 (any JSON value)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def said(*texts: str) -> list[dict[str, str]]:
    return [
        {"from": "gpt" if place % 2 else "human", "value": text} for place, text in enumerate(texts)
    ]


def asked(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


@dataclass(frozen=True)
class Example:
    """A file of one format.

    Attributes:
        good: its text.
        turns: how many turns each session has.
        bad: the same with something wrong.
        bad_line: the line of that.
        says: part of the complaint.
    """

    format: str
    suffix: str
    good: str
    turns: tuple[int, ...]
    bad: str
    bad_line: int
    says: str

    def write(self, folder: Path, text: str | None = None) -> Path:
        path = folder / f"{self.format}{self.suffix}"
        path.write_bytes((self.good if text is None else text).encode())
        return path


CHATS = [
    {"id": "a1_0", "conversations": said("Why is the sky blue?", "Rayleigh scattering.")},
    {"id": "b7_2", "conversations": said("Hello", "Hi!", "Write a haiku.", "Snow…", "More")},
]
BODIES: list[dict[str, Any]] = [
    {"messages": asked("Summarise this."), "max_tokens": 128, "temperature": 0.3, "model": "m"},
    {"messages": [*asked("Find x."), {"role": "assistant", "content": "x = 3"}, *asked("And y?")]},
]
AGENT_TURNS = [
    [
        {"messages": asked("Fix the test.", "It is red."), "prompt_tokens": 7312},
        {"messages": asked("<result>ok</result>"), "prompt_tokens": 7890},
    ],
    [{"messages": asked("Rename it.")}],
]
QUESTIONS = [
    {"question_id": "9f", "category": "coding", "turns": ["Sort a list."]},
    {"question_id": "a0", "category": "rag", "turns": ["What is it?", "And why?"]},
]
PROMPTS = [
    {"prompt": "Tell me a story.", "output_tokens_count": 128},
    {"prefix": "Be brief.", "prompt_0": "Name a fish.", "output_tokens_count_0": 64,
     "prompt_1": "Another.", "output_tokens_count_1": 32},
]  # fmt: skip
AIPERF = [
    {"text": "Describe the sea.", "output_length": 128},
    {"session_id": "s1", "turns": [{"text": "Hi"}, {"text": "Go on", "delay": 2000}]},
]
MOONCAKE = [
    {"timestamp": 0, "input_length": 1100, "output_length": 41, "hash_ids": [0, 1, 2]},
    {"timestamp": 3000, "input_length": 1650, "output_length": 5, "hash_ids": [0, 1, 3, 4]},
    {"timestamp": 3000, "input_length": 90, "output_length": 3, "hash_ids": [5]},
]
BAILIAN = [
    {"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.1, "input_length": 48,
     "output_length": 13, "type": "text", "turn": 1, "hash_ids": [5, 6, 7]},
    {"chat_id": 160, "parent_chat_id": -1, "timestamp": 62.0, "input_length": 17,
     "output_length": 9, "type": "search", "turn": 1, "hash_ids": [20, 21]},
    {"chat_id": 171, "parent_chat_id": 159, "timestamp": 93.4, "input_length": 62,
     "output_length": 8, "type": "text", "turn": 2, "hash_ids": [5, 6, 7, 9]},
]  # fmt: skip
WEKA = {
    "id": "t1", "block_size": 64, "hash_id_scope": "local",
    "requests": [
        {"t": 0.0, "type": "n", "in": 200, "out": 16, "hash_ids": [1, 2, 3], "api_time": 6.1,
         "input_types": ["text"], "think_time": 0},
        {"t": 15.2, "type": "s", "in": 290, "out": 21, "hash_ids": [1, 2, 3, 4], "api_time": 5.8,
         "input_types": ["tool_result"], "think_time": 9.1},
        {"t": 40.0, "type": "subagent", "agent_id": "agent_001", "requests": [
            {"t": 0.5, "type": "n", "in": 70, "out": 4, "hash_ids": [1], "input_types": ["text"]}]},
        {"t": 140.0, "type": "n", "in": 330, "out": 9, "hash_ids": [1, 2, 3, 4, 5],
         "input_types": ["text"], "think_time": 119.0},
    ],
}  # fmt: skip


def round_of(session: str, index: int, total: int, prefix: int, second: int) -> dict[str, Any]:
    stamp = "2026-06-01T05:40:{:02d}.000Z".format
    event = "user_message" if index == 0 else "tool_result"
    return {
        "provider": "claude", "session_id": session, "round_index": index,
        "input_tokens_total": total, "prefix_tokens": prefix, "output_tokens": 30 + index,
        "timing_events": [{"event_type": event, "timestamp": stamp(second)},
                          {"event_type": "text", "timestamp": stamp(second + 4)}],
        "tools": [{"tool_name": "Bash", "tool_wall_latency_ms": 860}],
    }  # fmt: skip


TRACELAB = [
    round_of("s1", 0, 1300, 512, 1),
    round_of("s2", 0, 900, 256, 2),
    round_of("s1", 1, 1500, 1280, 9),
]
AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9000000,410,10
2023-11-16 18:17:04.0300001,300,8
2023-11-16 18:17:04.0700000,120,27
"""
BURST = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,12,8.4,ChatGPT,472,18,490,Conversation log\n"
    "45,,3.1,GPT-4,1087,230,1317,API log\n"
    "118,12,9.9,ChatGPT,735,0,735,Conversation log\n"
)
CANONICAL = [
    {"session_id": "x", "turns": [
        {"messages": asked("One"), "max_output_tok": 10, "answer": "1"},
        {"messages": asked("Two"), "max_output_tok": 10, "gap_s": 2.5, "gap_kind": "human"}],
     "extra": {"temperature": 0.7}, "licence": "MIT", "source": "made up"},
    {"turns": [{"messages": asked("Three"), "max_output_tok": 7}], "start_s": 1.5},
]  # fmt: skip


def batch(body: dict[str, Any]) -> dict[str, Any]:
    return {"custom_id": "r-1", "method": "POST", "url": "/v1/chat/completions", "body": body}


def without(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


EXAMPLES = (
    Example("sessions", ".jsonl", lines(*CANONICAL), (2, 1),
            lines(CANONICAL[0], {"turns": [{"messages": asked("x")}]}), 2, "max_output_tok"),
    Example("sharegpt", ".json", json.dumps(CHATS, indent=1), (1, 3),
            '[\n{"conversations": [{"from": "human", "value": "x"}]},\n'
            '{"conversations": [{"from": "humn", "value": "x"}]}]', 3, "did you mean 'human'"),
    Example("custom", ".jsonl", lines({"conversations": [{"content": "a"}, {"content": "b"}]},
                                      {"conversation": [{"value": "c"}]}), (1, 1),
            lines({"conversations": [{"content": "a"}]}, {"conversations": []}), 2, "nobody asks"),
    Example("openai", ".jsonl", lines(*BODIES), (1, 1),
            lines(BODIES[0], {"messages": []}), 2, "at least one message"),
    Example("openai-batch", ".jsonl", lines(*map(batch, BODIES)), (1, 1),
            lines(batch(BODIES[0]), {"custom_id": "r-2", "bdy": {}}), 2, "did you mean 'bdy'"),
    Example("agentic-trace", ".json", json.dumps({"metadata": {"a": [1]},
                                                  "conversations": AGENT_TURNS}), (2, 1),
            '{"metadata": {},\n "conversations": [\n [{"messages": []}]]}', 3, "at least one"),
    Example("spec-bench", ".jsonl", lines(*QUESTIONS), (1, 2),
            lines(QUESTIONS[0], {"question_id": "b", "turns": "x"}), 2, "turns must be a list"),
    Example("guidellm", ".jsonl", lines(*PROMPTS), (1, 2),
            lines(PROMPTS[0], {"prompt": 7}), 2, "prompt must be text, not 7"),
    Example("aiperf", ".jsonl", lines(*AIPERF), (1, 2),
            lines(AIPERF[0], {"text": "a", "output_length": 0}), 2, "at least 1"),
    Example("mooncake", ".jsonl", lines(*MOONCAKE), (1, 1, 1),
            lines(MOONCAKE[0], {"timestamp": 1, "input_length": "7", "output_length": 1}), 2,
            "input_length must be a whole number or null, not text"),
    Example("bailian", ".jsonl", lines(*BAILIAN), (1, 2),
            lines(BAILIAN[0], without(BAILIAN[1], "timestamp")), 2, "no 'timestamp'"),
    Example("weka", ".json", json.dumps(WEKA, indent=1), (3, 1),
            '{"id": "t1", "requests": [\n{"t": 0, "in": 5, "out": 1},\n{"t": 0, "in": 5}]}', 3,
            "no 'out'"),
    Example("tracelab", ".jsonl", lines(*TRACELAB), (1, 2),
            lines(TRACELAB[0], TRACELAB[1] | {"prefix_tokens": 901}), 2, "more than the whole"),
    Example("azure", ".csv", AZURE, (1, 1, 1), AZURE.replace("04.0300001", "half past"), 3,
            "must be a time"),
    Example("burstgpt", ".csv", BURST, (1, 1), BURST.replace("1087", "1087.5"), 3, "'1087.5'"),
)  # fmt: skip
BY_NAME = {example.format: example for example in EXAMPLES}
