"""The generated text is what it claims to be: Python that compiles, JSON that parses."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from statistics import fmean

import pytest

from autotune.workload import workload_named
from autotune.workload.text import documents, everyday, languages, output, prose, questions
from autotune.workload.text.passage import passage
from autotune.workload.text.pen import Pen, gerund, past, third
from autotune.workload.text.python import python, python_file

FENCED = re.compile(r"```python\n(.*?)\n```", re.DOTALL)
WRITERS: tuple[Callable[[Pen, int], str], ...] = (
    python, python_file, languages.typescript, languages.rust, languages.go, languages.sql,
    languages.yaml, languages.patch, output.log, output.stack_trace, output.runner_report,
    output.listing, output.repository_map, documents.document, prose.prose, prose.document,
    prose.review, prose.bullets, everyday.story, everyday.mail, everyday.notes, everyday.recipe,
    everyday.table, questions.question, questions.reply,
)  # fmt: skip


@pytest.mark.parametrize("n_chars", [1, 300, 2_000, 9_000])
def test_python_compiles(n_chars: int) -> None:
    for number in range(60):
        ast.parse(python_file(Pen(f"{number}"), n_chars))
        ast.parse(python(Pen(f"{number}"), n_chars))


@pytest.mark.parametrize("n_chars", [1, 500, 6_000])
def test_tool_documents_parse(n_chars: int) -> None:
    for number in range(60):
        assert isinstance(json.loads(documents.document(Pen(f"{number}"), n_chars)), dict)


def test_tool_schemas_are_those_of_chat_requests() -> None:
    for number in range(20):
        schema = documents.tool_schema(Pen(f"{number}"), "read_file", 3)
        function = json.loads(json.dumps(schema))["function"]
        parameters = function["parameters"]
        assert function["name"] == "read_file" and function["description"]
        assert set(parameters["required"]) <= set(parameters["properties"])


@pytest.mark.parametrize("name", ["agentic", "agentic-short"])
def test_what_sessions_quote_is_valid(name: str) -> None:
    n_python = n_json = 0
    for number in range(30):
        session = workload_named(name).session(number)
        texts = [m["content"] for turn in session.turns for m in turn.messages]
        for text in (*texts, *(turn.answer or "" for turn in session.turns)):
            for source in FENCED.findall(text):
                ast.parse(source)
                n_python += 1
            body = text.partition(">\n")[2].rpartition("\n</")[0]
            if body.startswith("{"):
                json.loads(body)
                n_json += 1
    assert n_python > 30 and n_json > 3


def test_the_system_prompt_declares_tools() -> None:
    system = workload_named("agentic").session(0).turns[0].messages[0]["content"]
    tools = [json.loads(line) for line in system.splitlines() if line.startswith('{"type"')]
    names = [tool["function"]["name"] for tool in tools]
    assert len(names) >= 4 and len(set(names)) == len(names) and "read_file" in names


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: f"{write.__module__}.{write.__name__}")
def test_a_writer_hits_the_length_on_average(write: Callable[[Pen, int], str]) -> None:
    lengths = [len(write(Pen(f"{number}"), 4_000)) for number in range(60)]
    assert fmean(lengths) == pytest.approx(4_000, rel=0.12)
    assert len({write(Pen(f"{number}"), 400) for number in range(40)}) == 40


def test_a_shorter_passage_is_the_start_of_a_longer_one() -> None:
    assert len(passage("one", 5_000)) == 5_000
    assert passage("one", 5_000).startswith(passage("one", 70))
    assert passage("one", 70) != passage("two", 70)
    assert passage("one", 0) == ""


@pytest.mark.parametrize(
    ("verb", "forms"),
    [
        ("match", ("matches", "matched", "matching")),
        ("carry", ("carries", "carried", "carrying")),
        ("relay", ("relays", "relayed", "relaying")),
        ("store", ("stores", "stored", "storing")),
    ],
)
def test_regular_verbs_are_inflected(verb: str, forms: tuple[str, str, str]) -> None:
    assert (third(verb), past(verb), gerund(verb)) == forms
