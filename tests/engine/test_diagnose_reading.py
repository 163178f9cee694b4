"""Logs of any size and make are read in bounded memory, and what is no log is refused."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from autotune.core.trial import Bound, Failure, FailureKind
from autotune.engine.sglang.diagnose import diagnose_file, examine
from autotune.engine.sglang.logfile import read_lines
from autotune.engine.sglang.logtext import server_text
from autotune.errors import UsageError

from .corpus import FAILURES

MB = 1024 * 1024
QUIET = b'[2026-03-14 09:00:00] INFO:     10.0.0.1:80 - "POST /v1/completions HTTP/1.1" 200 OK\n'
CASE = next(case for case in FAILURES if case.name == "runtime_oom/first_long_prompt")
START, MARK, END = CASE.log.encode().partition(b"ready to roll!\n")


class Stream(io.RawIOBase):
    """Made while it is read, so that the test itself needs no memory for it."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size and (block := next(self._blocks, b"")):
            self._rest += block
        given, self._rest = self._rest[:size], self._rest[size:]
        return given


def long_log(noise: bytes, n_blocks: int) -> Iterator[bytes]:
    yield START + MARK
    for i in range(n_blocks):
        yield QUIET * 2000 + noise.replace(b"#", str(i).encode())
    yield END


NOISES = {
    "quiet": b"",
    "one warning again and again": b"[2026-03-14 09:00:00] Error in request: no #\n" * 200,
    "always another warning": b"".join(
        b"[2026-03-14 09:00:00] Error in request: %s\n"
        % bytes(97 + (i * k) % 26 for k in range(40))
        for i in range(200)
    ),
    "an endless line": b"Loading: 1%\r" * 20_000,
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES.keys())
def test_memory_is_bounded(noise: bytes) -> None:
    tracemalloc.start()
    try:
        lines = read_lines(Stream(long_log(noise, 150)), "the log")  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60 * MB
    found = examine(lines, -9)
    assert found is not None
    assert found.failure.kind is FailureKind.RUNTIME_OOM
    assert "3.06 GiB" in found.failure.evidence


def test_every_launch_of_a_long_log_keeps_its_start() -> None:
    service = MARK + QUIET * 20_000
    lines = read_lines(io.BytesIO((START + service) * 3 + END), "the log")
    assert sum("Load weight end" in line.text for line in lines) == 3
    numbers = [line.number for line in lines]
    assert numbers == sorted(numbers)
    found = examine(lines, None)
    assert found is not None and found.failure.stage == "serving"


def test_the_end_is_whole() -> None:
    lines = read_lines(io.BytesIO(START + MARK + QUIET * 40_000 + b"no newline at the end"), "x")
    assert lines[-1].text == "no newline at the end"
    n_lines = (START + MARK).count(b"\n") + 40_001
    assert [line.number for line in lines[-5000:]] == list(range(n_lines - 4999, n_lines + 1))


def test_gzip_is_read_all_its_members_and_even_when_cut_off() -> None:
    whole = gzip.compress(START + MARK) + gzip.compress(END)
    plain = read_lines(io.BytesIO(START + MARK + END), "x")
    assert read_lines(io.BytesIO(whole), "x") == plain
    assert read_lines(io.BytesIO(gzip.compress(CASE.log.encode())[:-200]), "x")


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\0\0\x03\0>\0\x01\0" * 40, "binary"),
        (bytes(range(256)) * 8, "binary"),
        ("log".encode("utf-16"), "UTF-16"),
        (b"\x1f\x8b" + b"nonsense" * 9, "damaged gzip"),
    ],
)
def test_what_is_no_text_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        read_lines(io.BytesIO(data), "the log")


def test_the_hole_that_log_rotation_leaves_is_skipped() -> None:
    data = b"\0" * 300_000 + CASE.log.encode()
    assert read_lines(io.BytesIO(data), "x") == read_lines(io.BytesIO(CASE.log.encode()), "x")


def test_broken_characters_and_torn_json_are_taken_as_they_are() -> None:
    lines = read_lines(io.BytesIO(b'{"log": "torn\n\xff\xfe line\n'), "x")
    assert [line.number for line in lines] == [1, 2]


def test_a_file_that_cannot_be_read_leaves_the_exit_status(tmp_path: Path) -> None:
    failure = diagnose_file(tmp_path / "absent", 1, False)
    assert failure.kind is FailureKind.CRASHED
    assert failure.evidence == "exit status 1; the log is empty"


@pytest.mark.parametrize(
    ("raw", "texts"),
    [
        ("", []),
        ("plain", ["plain"]),
        ("10%|█  | 1/9 [00:01<00:08]\r100%|███| 9/9 [00:09<00:00]Killed", ["Killed"]),
        ("\x1b[2K\x1b[1;31mred\x1b[0m", ["red"]),
        ('{"log":"a\\n","stream":"stderr","time":"t"}', ["a"]),
        ("[pod/a-0/b] 2026-01-01T00:00:00Z text", ["text"]),
        ("  File \"x.py\", line 3, in f", ["  File \"x.py\", line 3, in f"]),
        ("owl-0/server   File \"x.py\"", ["  File \"x.py\""]),
        ("[rank1]: Traceback (most recent call last):", ["Traceback (most recent call last):"]),
        ("venv/lib/x.py:53: UserWarning: w", ["venv/lib/x.py:53: UserWarning: w"]),
    ],
)  # fmt: skip
def test_the_text_of_the_server_is_found_in_a_line(raw: str, texts: list[str]) -> None:
    assert list(server_text(raw)) == texts


def test_a_bound_is_optional_in_json() -> None:
    old = b'{"kind":"crashed","stage":"load","evidence":"e","remedy":"r"}'
    assert msgspec.json.decode(old, type=Failure).bound is None
    bound = Bound("mem_fraction_static", "at_least", 0.942)
    failure = Failure(FailureKind.KV_DOES_NOT_FIT, "pool", "e", "r", bound)
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    assert str(bound) == "mem_fraction_static ≥ 0.942"
