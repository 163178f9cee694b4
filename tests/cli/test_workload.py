"""``autotune workload``: list, inspect, convert, check."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from autotune.workload.readers import FORMATS

from ..workload.examples import BY_NAME, lines
from .commands import autotune, complaint


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name in ("mooncake", "sharegpt", "azure", "openai"):
        BY_NAME[name].write(tmp_path)
    bad = [{"prompt": 1}] * 25
    (tmp_path / "bad.jsonl").write_text(lines({"prompt": "x"}, *bad, {"prompt": "y"}))
    return tmp_path


def test_list_names_the_workloads_and_the_formats(here: Path) -> None:
    done = autotune("workload", "list", cwd=here)
    assert done.returncode == 0, done.stderr
    words = {line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")}
    assert {"agentic", *FORMATS} <= words
    assert max(map(len, done.stdout.splitlines())) <= 90


@pytest.mark.parametrize("name", ["agentic", "mooncake.jsonl", "sharegpt.json", "azure.csv"])
def test_inspect_fits_a_terminal(name: str, here: Path) -> None:
    done = autotune("workload", "inspect", name, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 82
    for word in ("sessions", "input tokens", "prefix reuse", "█"):
        assert word in done.stdout


def test_inspect_says_what_is_an_estimate_and_what_to_mind(here: Path) -> None:
    chat = autotune("workload", "inspect", "sharegpt.json", cwd=here).stdout
    assert "estimate" in chat and "few sessions (2)" in chat
    trace = autotune("workload", "inspect", "azure.csv", cwd=here).stdout
    assert "estimate" not in trace and "length-only" in trace


def test_inspect_as_json(here: Path) -> None:
    done = autotune(
        "workload", "inspect", "mooncake.jsonl", "--json", "--context", "1000", cwd=here
    )
    told = json.loads(done.stdout)
    assert (told["n_sessions"], told["n_requests"], told["format"]) == (3, 3, "mooncake")
    assert told["input_tok"]["max"] == 1650 and told["input_tok"]["n_estimated"] == 0
    assert told["prefix_reuse"] == pytest.approx(1024 / 2840)
    assert any("longer than 1,000 tokens" in text for text in told["warnings"])


def test_what_is_converted_reads_back_as_the_same(here: Path) -> None:
    words = ("workload", "convert", "mooncake.jsonl", "--seed", "4")
    done = autotune(*words, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("mooncake.sessions.jsonl: 3 sessions from mooncake.jsonl")
    first = (here / "mooncake.sessions.jsonl").read_bytes()
    done = autotune("workload", "convert", "mooncake.sessions.jsonl", "-o", "again", cwd=here)
    assert (here / "again").read_bytes() == first, done.stderr
    assert sorted(p.name for p in here.iterdir() if p.name.startswith(".")) == []


def test_convert_writes_no_more_than_asked_and_overwrites_only_if_told(here: Path) -> None:
    words = ("workload", "convert", "sharegpt.json", "-o", "out.jsonl", "--limit", "1")
    assert autotune(*words, cwd=here).returncode == 0
    assert (here / "out.jsonl").read_text().count("\n") == 1
    refused = autotune(*words, cwd=here)
    assert refused.returncode == 3 and "out.jsonl is there already" in complaint(refused)
    assert autotune(*words, "--force", cwd=here).returncode == 0


def test_a_conversion_that_fails_leaves_nothing(here: Path) -> None:
    before = sorted(here.iterdir())
    done = autotune("workload", "convert", "bad.jsonl", cwd=here)
    assert done.returncode == 3 and "bad.jsonl, line 2" in complaint(done)
    assert sorted(here.iterdir()) == before


def test_check_counts_what_is_sound(here: Path) -> None:
    (here / "x.json.gz").write_bytes(gzip.compress((here / "sharegpt.json").read_bytes()))
    done = autotune("workload", "check", "x.json.gz", cwd=here)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ok: 2 sessions, 4 requests, format sharegpt\n"


def test_check_lists_the_first_bad_rows(here: Path) -> None:
    done = autotune("workload", "check", "bad.jsonl", cwd=here)
    assert done.returncode == 3
    told = done.stdout.splitlines()
    assert len(told) == 20
    assert told[0] == "bad.jsonl, line 2: prompt must be text, not 1"
    assert "bad.jsonl has 25 bad rows, the first 20 are listed" in complaint(done)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("inspect", "agentik"), 3, "did you mean 'agentic'"),
        (("inspect", "mooncke.jsonl"), 3, "did you mean 'mooncake.jsonl'"),
        (("inspect", "agentic.jsonl"), 3, "there is no file"),
        (("inspect", "."), 3, "only weka traces"),
        (("inspect", "mooncake.jsonl", "--format", "moncake"), 3, "did you mean 'mooncake'"),
        (("inspect", "mooncake.jsonl", "--format", "azure"), 3, "JSON, not a table"),
        (("inspect", "azure.csv", "--format", "burstgpt"), 3, "no column 'Timestamp'"),
        (("check", "openai.jsonl", "--format", "sharegpt"), 3, "has 2 bad rows"),
        (("convert", "mooncake.jsonl", "-o", "no/x"), 3, "there is no folder no"),
        (("convert", "mooncake.jsonl", "--limit", "0"), 2, "--limit"),
        (("inspct", "x"), 2, "inspct"),
        ((), 2, "list"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    words: tuple[str, ...], code: int, says: str, here: Path
) -> None:
    done = autotune("workload", *words, cwd=here)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
