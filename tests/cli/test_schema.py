"""``autotune schema``, and what real commands print, against it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.documents import DIALECT, DOCUMENTS, schema_of

from ..json_schema import problems
from .commands import autotune, complaint, optimize_words
from .conftest import FinishedStudy


def printed(study: FinishedStudy, *words: str) -> Any:  # noqa: ANN401 (a JSON document)
    done = autotune(*words, cwd=study.directory)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def references(part: object) -> Iterator[str]:
    if isinstance(part, dict):
        yield from (value for key, value in part.items() if key == "$ref")
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_names_its_dialect_and_every_part_of_it_exists(name: str) -> None:
    schema = schema_of(name)
    assert schema["$schema"] == DIALECT and schema["title"] == f"autotune {name}"
    assert {ref.removeprefix("#/$defs/") for ref in references(schema)} <= schema["$defs"].keys()
    for part in schema["$defs"].values():
        assert part["description"] and "Attributes:" not in part["description"]
        if "properties" in part:
            assert set(part["required"]) <= part["properties"].keys()


def test_what_the_sources_say_of_a_key_stands_at_the_key() -> None:
    parts = schema_of("events")["$defs"]
    gain = parts["TrialEnded"]["properties"]["gain_pct"]
    assert gain["description"].startswith("of its configuration against the baseline, percent")
    assert parts["StudyEnded"]["properties"]["at"]["description"].endswith("UTC, RFC 3339.")
    assert parts["Phase"]["properties"]["itl_s"]["description"].endswith("of the gap before it.")


def test_the_command_lists_and_prints_them(tmp_path: Path) -> None:
    listed = autotune("schema", cwd=tmp_path)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(DOCUMENTS)
    shown = autotune("schema", "record", cwd=tmp_path)
    assert json.loads(shown.stdout) == json.loads(json.dumps(schema_of("record")))
    wrong = autotune("schema", "recrod", cwd=tmp_path)
    assert wrong.returncode == 2 and "did you mean 'record'?" in complaint(wrong)


def test_records_of_a_real_study_fit(finished: FinishedStudy) -> None:
    paths = sorted(finished.folder.glob("trials/*/record.json"))
    assert len(paths) == 3
    for path in paths:
        assert problems(json.loads(path.read_bytes()), schema_of("record")) == []


@pytest.mark.parametrize("name", ["show", "pareto", "explain"])
def test_what_reading_commands_print_fits(finished: FinishedStudy, name: str) -> None:
    assert problems(printed(finished, name, "--json"), schema_of(name)) == []


def test_what_optimize_prints_fits(finished: FinishedStudy, tmp_path: Path) -> None:
    """Of a study that goes on, and has nothing left to do."""
    shutil.copytree(finished.folder, tmp_path / "studies" / "s")
    done = autotune(*optimize_words("--json", trials=3), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert problems(document, schema_of("optimize")) == []
    assert document["stopped"] == "all 3 launches are used" and document["simulated"]
    front = printed(finished, "pareto", "--json")
    assert front == {name: value for name, value in document.items() if name != "stopped"}
