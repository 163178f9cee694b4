"""The built-in agentic workload: coding sessions of a few turns, each turn a tool result.

Shapes follow recorded coding-agent sessions scaled to short contexts: a shared system prompt, a
task, then turns that add a few hundred tokens each; answers end where the model ends them (median
216 tokens in the recordings).
"""

from __future__ import annotations

import math
from random import Random

from autotune.workload import text
from autotune.workload.model import Message, Session, Turn, Workload

_REFERENCE_OUTPUT_TOK = 216
_MAX_OUTPUT_TOK = 512
_TOOLS = ("read_file", "search", "run_tests", "list_directory", "apply_patch", "shell")


def agentic(seed: int = 0) -> Workload:
    """Coding sessions of 3 to 6 turns with tool results; contexts of 1,000 to 4,000 tokens."""
    system = _system_prompt(seed)

    def session(number: int, context_tok: int | None) -> Session:
        rng = Random(f"{seed}:{number}")
        n_turns = rng.randint(3, 6)
        opening = ({"role": "system", "content": system}, _user(_task(rng)))
        turns = [Turn(opening, _MAX_OUTPUT_TOK)]
        turns += [Turn((_user(_tool_turn(rng)),), _MAX_OUTPUT_TOK) for _ in range(n_turns - 1)]
        return Session(tuple(turns))

    return Workload("agentic", "coding agents", _REFERENCE_OUTPUT_TOK, 0.6, session)


def _system_prompt(seed: int) -> str:
    """The same for every session of a study, as an agent's instructions are: about 900 tokens."""
    rng = Random(f"system:{seed}")
    tools = "\n".join(
        f"- {name}({text.identifier(rng)}: str, {text.identifier(rng)}: int): {text.prose(rng, 2)}"
        for name in _TOOLS
    )
    return (
        "You are a careful software engineer working in a large repository. Use the tools, read "
        f"before you write, and keep changes small.\n\nTools:\n{tools}\n\nHouse rules:\n"
        + text.prose(rng, 10)
    )


def _user(content: str) -> Message:
    return {"role": "user", "content": content}


def _task(rng: Random) -> str:
    return (
        f"{text.prose(rng, rng.randint(2, 5))}\n\n```python\n{text.code(rng, rng.randint(1, 3))}\n"
        f"```\n\n{text.request(rng)}"
    )


def _tool_turn(rng: Random) -> str:
    """A tool result of about 250 tokens (lognormal, sigma 0.7), and sometimes a remark."""
    scale = math.exp(rng.gauss(0.0, 0.7))
    kind = rng.randrange(3)
    if kind == 0:
        body = text.log_lines(rng, max(2, round(6 * scale)))
    elif kind == 1:
        body = text.tool_result(rng, max(1, round(4 * scale)))
    else:
        body = text.code(rng, max(1, round(2 * scale)))
    remark = text.request(rng) if rng.random() < 0.3 else ""
    return f"<result tool={rng.choice(_TOOLS)}>\n{body}\n</result>\n{remark}".rstrip()
