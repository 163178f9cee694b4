"""The built-in agentic workloads: coding sessions whose turns are mostly tool results.

``agentic`` follows 710 recorded sessions of a coding agent (kv-cache-tester traces, Apache-2.0),
scaled to the server's context: a prefix that all sessions share, a task, then turns that add a few
hundred tokens each. LN(m, s) is lognormal with median m: 45 turns (s 1.2) as far as the context
holds them, 650 tokens of growth per turn (1.13), 216 tokens per answer (0.85), 9 s (1.0) until a
tool has answered and 127 s (1.7) until a person has. Answers end at 512 tokens, which one recorded
answer in seven exceeds: longer ones make a measurement slower and less certain. ``agentic-short``
has contexts of 1,000 to 4,000 tokens and 3 to 6 turns, for quick runs and small cards.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from autotune.workload.model import GapKind, Message, Session, Turn, Workload
from autotune.workload.room import Room, chars_of
from autotune.workload.text import languages, output, prose
from autotune.workload.text.documents import document, tool_schema
from autotune.workload.text.pen import Pen, fill
from autotune.workload.text.python import python, python_file

_REFERENCE_OUTPUT_TOK = 216
_OUTPUT_SIGMA = 0.85
_FEWEST_OUTPUT_TOK = 12
_TOOL_FRAC = 0.865
"""Share of the turns after the first that bring a tool result."""
_TOOL_GAP_S = (9.0, 1.0)
_HUMAN_GAP_S = (127.0, 1.7)
_LONGEST_GAP_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Shape:
    """Sizes in tokens at the full context; pairs are a median and the sigma of a lognormal.

    Attributes:
        context_tok: no session is made longer, whatever the server takes.
        prefix_tok: system prompt with tools and repository map, the same for all sessions.
        opening_tok: the first message of a session.
        growth_tok: each later message.
        n_turns: how many turns a session would have if the context held them.
        max_output_tok: cap of an answer.
    """

    name: str
    title: str
    context_tok: int
    prefix_tok: int
    opening_tok: tuple[float, float]
    growth_tok: tuple[float, float]
    n_turns: Callable[[Pen], int]
    max_output_tok: int


# Recorded first prompts share 15,000 of a median 24,500 tokens, in contexts of 130,000 and more.
_LONG = _Shape(
    name="agentic",
    title="coding agents, contexts up to 32k",
    context_tok=32_768,
    prefix_tok=3_277,
    opening_tok=(1_365.0, 0.6),
    growth_tok=(650.0, 1.13),
    n_turns=lambda pen: max(2, round(pen.lognormal(45.0, 1.2))),
    max_output_tok=512,
)
_SHORT = _Shape(
    name="agentic-short",
    title="coding agents, contexts of 1k to 4k",
    context_tok=8_192,
    prefix_tok=670,
    opening_tok=(380.0, 0.35),
    growth_tok=(225.0, 0.75),
    n_turns=lambda pen: pen.number(3, 6),
    max_output_tok=512,
)


def agentic(seed: int = 0) -> Workload:
    """Long coding sessions, as recorded ones scaled to at most 32,768 tokens."""
    return _workload(_LONG, seed)


def agentic_short(seed: int = 0) -> Workload:
    """Coding sessions of 3 to 6 turns; contexts of 1,000 to 4,000 tokens."""
    return _workload(_SHORT, seed)


def _workload(shape: _Shape, seed: int) -> Workload:
    def session(number: int, context_tok: int | None) -> Session:
        limit = min(context_tok or shape.context_tok, shape.context_tok)
        return _session(shape, seed, number, limit)

    return Workload(shape.name, shape.title, _REFERENCE_OUTPUT_TOK, 0.6, session)


def _session(shape: _Shape, seed: int, number: int, context_tok: int) -> Session:
    pen = Pen(f"{shape.name}:{seed}:{number}")
    scale = context_tok / shape.context_tok
    max_output_tok = min(shape.max_output_tok, max(1, context_tok // 8))
    room = Room(context_tok, max_output_tok)
    system = _system_prompt(shape.name, seed, chars_of(scale * shape.prefix_tok))
    task = _task(pen, _n_chars(pen, shape.opening_tok, scale, context_tok / 6))
    room.take(system, task)
    turns = [_turn(pen, ({"role": "system", "content": system}, _user(task)), max_output_tok)]
    for _ in range(shape.n_turns(pen) - 1):
        kind: GapKind = "tool" if pen.chance(_TOOL_FRAC) else "human"
        said = _SAYS[kind](pen, _n_chars(pen, shape.growth_tok, scale, context_tok / 8))
        answer = turns[-1].answer or ""
        if not room.fits(answer, said):
            break
        room.take(answer, said)
        turns.append(_turn(pen, (_user(said),), max_output_tok, kind))
    return Session(tuple(turns))


def _turn(
    pen: Pen, messages: tuple[Message, ...], max_output_tok: int, kind: GapKind | None = None
) -> Turn:
    """A turn with its recorded answer; ``kind`` is None for the first one, which nobody awaits."""
    n_tok = round(pen.lognormal(_REFERENCE_OUTPUT_TOK, _OUTPUT_SIGMA))
    n_tok = min(max_output_tok, max(_FEWEST_OUTPUT_TOK, n_tok))
    return Turn(
        messages,
        max_output_tok,
        gap_s=0.0 if kind is None else round(min(_LONGEST_GAP_S, pen.lognormal(*_GAP_S[kind])), 2),
        gap_kind=kind or "human",
        answer=_answer(pen, chars_of(n_tok)),
        n_output_tok=n_tok,
    )


def _n_chars(pen: Pen, length_tok: tuple[float, float], scale: float, most_tok: float) -> int:
    median_tok, sigma = length_tok
    return chars_of(min(most_tok, pen.lognormal(median_tok * scale, sigma)))


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


@lru_cache(maxsize=8)  # the sessions of a study share it
def _system_prompt(name: str, seed: int, n_chars: int) -> str:
    """Instructions, tools and a map of the repository, as an agent is given them."""
    pen = Pen(f"system:{name}:{seed}")
    head = f"{pen.pick(_INSTRUCTIONS)} {prose.prose(pen, n_chars // 12)}"
    names = iter(_TOOLS)

    def tool() -> str:
        return json.dumps(tool_schema(pen, next(names, pen.function()), pen.number(1, 4)))

    tools = fill(tool, n_chars // 2, "\n")
    rest = n_chars - len(head) - len(tools)
    if rest < 120:
        return f"{head}\n\nTools:\n{tools}"
    tree = output.repository_map(pen, rest)
    return f"{head}\n\nTools:\n{tools}\n\nRepository:\n{tree}"


def _task(pen: Pen, n_chars: int) -> str:
    """What a session begins with: a report, the source it speaks of, and what is wanted."""
    asked = prose.wish(pen)
    report = prose.prose(pen, n_chars * 2 // 5)
    source = python(pen, max(1, n_chars - len(asked) - len(report) - 16))
    return f"{report}\n\n```python\n{source}\n```\n\n{asked}"


def _tool_says(pen: Pen, n_chars: int) -> str:
    name, write = pen.pick(_RESULTS if n_chars > _BRIEF_CHARS else _BRIEF_RESULTS)
    return f'<tool_result name="{name}">\n{write(pen, max(1, n_chars - 45))}\n</tool_result>'


def _human_says(pen: Pen, n_chars: int) -> str:
    asked = prose.wish(pen)
    left = n_chars - len(asked)
    if left < 60:
        return asked
    write = pen.pick(_PASTED) if left > _BRIEF_CHARS else prose.prose
    return f"{write(pen, left)}\n\n{asked}"


def _answer(pen: Pen, n_chars: int) -> str:
    """What the agent said: a remark, then mostly a call of a tool or some source."""
    shape = pen.draw()
    if n_chars < 480 or shape < 0.25:
        return prose.thought(pen, n_chars)
    remark = prose.thought(pen, n_chars // 3)
    left = max(1, n_chars - len(remark) - 20)
    if shape < 0.6 or n_chars < _BRIEF_CHARS:
        return f"{remark}\n\n```python\n{python(pen, left)}\n```"
    if shape < 0.85:
        return f"{remark}\n\n```diff\n{languages.patch(pen, left)}\n```"
    return f"{remark}\n\n{prose.bullets(pen, left)}"


_TOOLS = (
    "read_file", "search", "run_tests", "list_directory", "apply_patch", "shell", "fetch_issue",
    "query_database", "http_request", "read_log", "find_references", "git_diff", "open_page",
    "rename_symbol", "run_linter", "profile",
)  # fmt: skip
_INSTRUCTIONS = (
    "You are a careful software engineer who works in a large repository with the tools below.",
    "You maintain this code base together with a person. Read before you write.",
    "You are an engineer on call. Use the tools, one at a time, and say what you learn from each.",
)
_RESULTS = (
    ("read_file", python_file), ("read_file", python_file), ("read_file", languages.typescript),
    ("read_file", languages.rust), ("read_file", languages.go), ("read_file", languages.sql),
    ("read_file", languages.yaml), ("git_diff", languages.patch), ("search", document),
    ("http_request", document), ("fetch_issue", document), ("run_tests", output.runner_report),
    ("shell", output.stack_trace), ("read_log", output.log), ("read_log", output.log),
    ("list_directory", output.listing), ("open_page", prose.document), ("shell", prose.review),
)  # fmt: skip
_BRIEF_CHARS = 800
"""Below this a whole definition or traceback would be too long."""
_BRIEF_RESULTS = (
    ("read_log", output.log), ("list_directory", output.listing), ("search", document),
    ("http_request", document), ("open_page", prose.prose), ("read_file", languages.yaml),
    ("fetch_issue", prose.prose), ("shell", prose.bullets), ("read_file", python),
)  # fmt: skip
_PASTED = (prose.prose, prose.bullets, output.log, output.stack_trace, python, prose.review)
_SAYS = {"tool": _tool_says, "human": _human_says}
_GAP_S = {"tool": _TOOL_GAP_S, "human": _HUMAN_GAP_S}
