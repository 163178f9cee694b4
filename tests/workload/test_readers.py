"""What every reader promises, for each format."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune.errors import WorkloadError
from autotune.workload import Session
from autotune.workload.inspection import Inspection
from autotune.workload.lengths import Corpus, LengthSession, Recorded, n_requests
from autotune.workload.readers import FORMATS, SessionFile
from autotune.workload.readers.canonical import line_of

from .examples import BY_NAME, EXAMPLES, Example

every_format = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.format)
LINED = [e for e in EXAMPLES if e.suffix == ".jsonl"]
lined_formats = pytest.mark.parametrize("example", LINED, ids=lambda example: example.format)


def read(path: Path, form: str | None = None) -> list[Recorded]:
    return list(SessionFile(path, form))


def whole(sessions: list[Recorded]) -> list[Session]:
    corpus = Corpus(0)
    return [corpus.session(s) if isinstance(s, LengthSession) else s for s in sessions]


def test_every_format_has_an_example() -> None:
    assert set(BY_NAME) == set(FORMATS)


@every_format
def test_the_format_is_told_from_the_first_row(example: Example, tmp_path: Path) -> None:
    assert SessionFile(example.write(tmp_path)).format.name == example.format


@every_format
def test_sessions_have_their_turns(example: Example, tmp_path: Path) -> None:
    sessions = read(example.write(tmp_path))
    assert sorted(map(n_requests, sessions)) == sorted(example.turns)
    for session in whole(sessions):
        for turn in session.turns:
            assert turn.messages and turn.max_output_tok >= 1 and turn.gap_s >= 0
            assert all(message["role"] for message in turn.messages)


@every_format
def test_reading_again_gives_the_same(example: Example, tmp_path: Path) -> None:
    path = example.write(tmp_path)
    assert read(path) == read(path)
    file = SessionFile(path)
    assert list(file) == list(file)


@every_format
def test_a_format_may_be_named(example: Example, tmp_path: Path) -> None:
    path = example.write(tmp_path)
    assert read(path, example.format) == read(path)


@every_format
def test_a_bad_row_is_told_with_file_and_line(example: Example, tmp_path: Path) -> None:
    path = example.write(tmp_path, example.bad)
    with pytest.raises(WorkloadError) as caught:
        read(path, example.format)
    assert caught.value.message.startswith(f"{path}, line {example.bad_line}: ")
    assert example.says in caught.value.message
    assert "\n" not in caught.value.message and "`" not in caught.value.message


@every_format
def test_reading_goes_on_after_a_bad_row_if_asked(example: Example, tmp_path: Path) -> None:
    found: list[WorkloadError] = []
    path = example.write(tmp_path, example.bad)
    list(SessionFile(path, example.format, on_bad=found.append))
    assert len(found) == 1


@every_format
@pytest.mark.parametrize("how", ["crlf", "bom", "blank lines", "gz", "no last newline"])
def test_the_wrapping_of_a_file_does_not_matter(example: Example, how: str, tmp_path: Path) -> None:
    plain = read(example.write(tmp_path))
    data = example.good.encode()
    path = tmp_path / f"{example.format}{example.suffix}"
    if how == "crlf":
        data = data.replace(b"\n", b"\r\n")
    elif how == "bom":
        data = b"\xef\xbb\xbf" + data
    elif how == "blank lines":
        data = data.rstrip(b"\n") + b"\n\n  \n"
    elif how == "no last newline":
        data = data.rstrip(b"\n")
    else:
        data, path = gzip.compress(data), path.with_name(f"{path.name}.gz")
    path.write_bytes(data)
    assert read(path) == plain


@lined_formats
def test_a_cut_off_last_line_is_told(example: Example, tmp_path: Path) -> None:
    text = example.good.rstrip("\n")
    path = example.write(tmp_path, text[:-3])
    n_lines = text.count("\n") + 1
    with pytest.raises(WorkloadError, match=f", line {n_lines}: the row is cut off"):
        read(path)


@pytest.mark.parametrize("form", ["sharegpt", "agentic-trace"])
def test_a_cut_off_array_is_told(form: str, tmp_path: Path) -> None:
    path = BY_NAME[form].write(tmp_path, BY_NAME[form].good[:-9])
    with pytest.raises(WorkloadError, match="cut off"):
        read(path)


@every_format
def test_sessions_survive_our_own_form(example: Example, tmp_path: Path) -> None:
    sessions = whole(read(example.write(tmp_path)))
    path = tmp_path / "ours.jsonl"
    path.write_bytes(b"".join(map(line_of, sessions)))
    assert read(path) == sessions


@pytest.mark.parametrize("form", [f for f in BY_NAME if f not in ("bailian", "tracelab", "weka")])
def test_reading_is_lazy(form: str, tmp_path: Path) -> None:
    """The first session comes before the file is read, and before what is wrong at its end."""
    example = BY_NAME[form]
    if example.suffix == ".json":
        opening, _, rest = example.good.rpartition("]")
        text = f"{opening}, " + ", ".join(["[]"] * 1_500_000) + f", }}{{ ]{rest}"
    elif example.suffix == ".csv":
        text = example.good + (example.good.splitlines()[1] + "\n") * 60_000 + "bad"
    else:
        text = example.good * (3_000_000 // len(example.good)) + "{bad"
    path = example.write(tmp_path, text)
    seen: list[int] = []
    stream: Iterator[Recorded] = iter(SessionFile(path, form, on_progress=seen.append))
    next(stream)
    assert seen[-1] <= 2 * 2**20 < path.stat().st_size


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("empty.jsonl", b"", "is empty"),
        ("blank.jsonl", b"\n \n", "is empty"),
        ("utf16.jsonl", '{"prompt": "x"}'.encode("utf-16"), "is UTF-16 text"),
        ("x.parquet", b"PAR1\x00\x00", "is a Parquet file"),
        ("latin.jsonl", '{"prompt": "é"}\n'.encode("latin-1"), "not UTF-8"),
        ("latin.csv", "prompt\né\n".encode("latin-1"), "line 2: not UTF-8"),
        ("latin.json", '[{"conversations": [{"from": "human", "value": "é"}]}]'.encode("latin-1"),
         "not UTF-8"),
        ("cut.jsonl.gz", gzip.compress(b'{"prompt": "x"}\n' * 99, mtime=0)[:-12],
         "damaged or cut off"),
        ("odd.jsonl", b'{"a": 1, "b": 2}\n', "no known format: its first row has 'a', 'b'"),
        ("text.txt", b"hello, world\n", "no known format: its first row has 'hello', 'world'"),
        ("none.json", b"[]", "no known format"),
        ("both.jsonl", b'{"prompt": "x", "text": "y"}\n', "several formats"),
        ("header.csv", b"TIMESTAMP,ContextTokens,GeneratedTokens\n", "holds no session"),
        ("short.csv", b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-01-01 00:00:00,3\n",
         "line 2: 2 cells where the header names 3"),
        ("other.csv", b"TIMESTAMP,ContextTokns,GeneratedTokens\n1,2,3\n", "no known format"),
        ("json_names.csv", b"text,messages,requests\n1,2,3\n", "no known format"),
        ("long.csv", b"prompt,output_tokens_count\nx,3,4\n", "line 2: 3 cells where the header"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)  # fmt: skip
def test_an_unreadable_file_is_told_in_one_sentence(
    name: str, data: bytes, says: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(WorkloadError) as caught:
        read(path)
    assert says in caught.value.message and str(path) in caught.value.message
    assert "\n" not in caught.value.message


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(EXAMPLES), st.sampled_from([None, *FORMATS]), st.randoms())
def test_no_damage_to_a_file_ends_in_anything_but_a_sentence(
    tmp_path: Path, example: Example, form: str | None, rng: Random
) -> None:
    values = list(re.finditer(r'(?<=: )("[^"]*"|-?[0-9.]+)|(?<=,)[^,\n]*(?=[,\n])', example.good))
    start, end = rng.choice(values).span()
    wrong = rng.choice(["null", "-1", "1.5", '"x"', "{}", "[[]]", "true", "1e999", "9" * 25, ""])
    path = example.write(tmp_path, example.good[:start] + wrong + example.good[end:])
    with contextlib.suppress(WorkloadError):
        for session in SessionFile(path, form or example.format):
            Inspection().add(session)


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "traffic.jsonl").write_text("{}")
    with pytest.raises(WorkloadError, match="there is no file") as caught:
        read(tmp_path / "trafic.jsonl")
    assert caught.value.hint == "did you mean 'traffic.jsonl'?"


def test_an_unknown_format_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no format 'moncake': did you mean 'mooncake'"):
        read(BY_NAME["mooncake"].write(tmp_path), "moncake")


def test_a_folder_of_weka_files_is_one_trace(tmp_path: Path) -> None:
    for name in ("b", "a"):
        text = BY_NAME["weka"].good.replace('"t1"', f'"{name}"')
        (tmp_path / f"{name}.json").write_text(text)
    ids = [s.session_id for s in read(tmp_path)]
    assert ids == ["a", "a/agent_001", "b", "b/agent_001"]


def test_a_folder_of_other_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="directory without JSON files"):
        read(tmp_path)
    BY_NAME["sharegpt"].write(tmp_path)
    with pytest.raises(WorkloadError, match="only weka traces"):
        read(tmp_path)


def test_a_key_that_is_nearly_right_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"chat_id": 1, "parent_chat_id": -1, "timestmp": 1.0}))
    with pytest.raises(WorkloadError, match="no 'timestamp': did you mean 'timestmp'"):
        read(path)
