"""Reads a server log of any size: what can matter of it, in bounded memory.

A log of hours under load is gigabytes of lines about batches and requests. Kept are its start, its
end, and every line in between that may tell of a stage or of trouble, with some lines around it.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from autotune.engine.sglang.logtext import server_text
from autotune.errors import UsageError

_BLOCK_BYTES = 128 * 1024
_HEAD_BYTES = 256 * 1024
_TAIL_BYTES = 1024 * 1024
_LONGEST_LINE = 64 * 1024
_BEFORE, _AFTER = 60, 25
_MOST_BYTES = 16 * 1024 * 1024
_MOST_SHAPES = 20_000
_MOST_ALIKE = 20
"""A warning that comes back a million times must not crowd out the one line that matters."""

_WORDS = (
    b"rror", b"xception", b"aceback", b"ailed", b"ut of ", b"OOM", b"oom-kill", b"atchdog",
    b"SIG", b"igquit", b"illed", b"ault", b"dumped", b"dead", b"parent=True", b"nbalanced",
    b"size mismatch", b"retract_decode", b"NCCL", b"not ready", b"racefully", b"[-h]",
    b"server_args=", b"Load weight", b"KV Cache", b"Capture ", b"fired up",
)  # fmt: skip
"""Every line of interest holds one of them. Plain searches go through a block in no time, and the
fewer they are the better. None may stand in the lines of ordinary batches and requests."""

_LAUNCH = b"server_args="
_WANTED = re.compile(b"|".join(re.escape(word) for word in _WORDS))
_MAY_MATTER = re.compile("|".join(re.escape(word.decode()) for word in _WORDS))
_VARYING = re.compile(rb"0x[0-9a-f]+|[0-9a-f]{6,}|\d+")
_GZIP = b"\x1f\x8b"
_CONTROL = bytes(code for code in range(32) if code not in b"\t\n\r\x0c\x1b\x08\x00")


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the server; ``number`` counts the lines of the file from 1."""

    number: int
    text: str


def may_matter(text: str) -> bool:
    """Whether a line can be of interest at all: a cheap look before the dear ones."""
    return _MAY_MATTER.search(text) is not None


def as_lines(log: str | Iterable[str]) -> list[LogLine]:
    """The lines of a text, or of raw lines, without what log collectors add to them."""
    raw = log.split("\n") if isinstance(log, str) else log
    return [LogLine(i, text) for i, each in enumerate(raw, start=1) for text in server_text(each)]


def read_log(path: Path) -> str:
    """The first 256 kB and the last 1 MB of a log; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            size = file.seek(0, 2)
            file.seek(max(len(head), size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
            skipped = size - len(head) - len(tail)
    except OSError:
        return ""
    middle = f"\n... {skipped} bytes left out ...\n".encode() if skipped > 0 else b""
    return (head + middle + tail).decode(errors="replace")


def read_lines(file: BinaryIO, name: str) -> list[LogLine]:
    """The lines that can matter of a log, which may be compressed with gzip.

    A hole in the numbers is a place where only ordinary lines were left out.

    Args:
        file: open for reading bytes; a pipe will do.
        name: what the user calls it.

    Raises:
        UsageError: it holds no text.
    """
    sieve = _Sieve()
    for block in _blocks(file, name):
        sieve.take(block)
    return sieve.lines()


def _blocks(file: BinaryIO, name: str) -> Iterator[bytes]:
    first = file.read(_BLOCK_BYTES)
    plain = _unzipped(first, file, name) if first.startswith(_GZIP) else _plain(first, file)
    for i, block in enumerate(plain):
        if i == 0:
            _check_text(block, name)
        # logrotate's copytruncate leaves a hole of zeros in a file that is still written.
        yield block.replace(b"\0", b"") if b"\0" in block else block


def _plain(block: bytes, file: BinaryIO) -> Iterator[bytes]:
    while block:
        yield block
        block = file.read(_BLOCK_BYTES)


def _unzipped(packed: bytes, file: BinaryIO, name: str) -> Iterator[bytes]:
    """What a gzip file holds, all its members; one that is cut off ends where it ends."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        while packed:
            yield unzip.decompress(packed, _BLOCK_BYTES)
            packed = unzip.unconsumed_tail
            if unzip.eof:
                packed = unzip.unused_data
                unzip = zlib.decompressobj(wbits=31)
            packed = packed or file.read(_BLOCK_BYTES)
    except zlib.error as error:
        raise UsageError(f"{name} is a damaged gzip file: {error}") from error


def _check_text(block: bytes, name: str) -> None:
    sample = block.strip(b"\0")[:8192]
    if sample.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UsageError(
            f"{name} is UTF-16 text, not UTF-8",
            hint=f"convert it: iconv -f UTF-16 -t UTF-8 {name}",
        )
    n_control = len(sample) - len(sample.translate(None, _CONTROL))
    if b"\0" in sample or n_control > len(sample) / 20:
        raise UsageError(f"{name} is a binary file, not the text of a log")


class _Block:
    """Whole lines of the file, the first of which has the number ``first``."""

    def __init__(self, first: int, text: bytes) -> None:
        self.first = first
        self.text = text
        self.n_lines = text.count(b"\n") + 1
        self._lines: list[bytes] = []

    def lines(self) -> list[bytes]:
        """Split when they are asked for: most blocks hold nothing of interest."""
        if not self._lines:
            self._lines = self.text.split(b"\n")
        return self._lines


@dataclass(slots=True)
class _Sieve:
    """Takes a log block by block and keeps what can matter."""

    _kept: list[tuple[int, bytes]] = field(default_factory=list)
    _kept_bytes: int = 0
    _recent: deque[_Block] = field(default_factory=deque)
    _recent_bytes: int = 0
    _rest: bytes = b""
    _next: int = 1
    _n_bytes: int = 0
    _owed: int = 0
    _alike: Counter[bytes] = field(default_factory=Counter)

    def take(self, block: bytes) -> None:
        lines, newline, rest = (self._rest + block).rpartition(b"\n")
        # One endless line, as of a progress bar: its start and its end will do.
        self._rest = rest if len(rest) <= 2 * _LONGEST_LINE else _cut(rest)
        if newline:
            self._sift(_Block(self._next, lines))

    def lines(self) -> list[LogLine]:
        """What was kept, and the whole end of the file."""
        if self._rest:
            self._sift(_Block(self._next, self._rest))
            self._rest = b""
        while self._recent and self._kept and self._kept[-1][0] >= self._recent[0].first:
            self._kept.pop()
        for block in self._recent:
            self._keep(block, range(block.n_lines))
        return [
            LogLine(number, text)
            for number, raw in self._kept
            for text in server_text(raw.decode(errors="replace"))
        ]

    def _sift(self, block: _Block) -> None:
        if self._n_bytes < _HEAD_BYTES:
            self._keep(block, range(block.n_lines))
        else:
            self._keep(block, range(self._owed))
            self._owed = max(0, self._owed - block.n_lines)
            if any(word in block.text for word in _WORDS):
                self._keep_wanted(block)
        self._n_bytes += len(block.text)
        self._next += block.n_lines
        self._recent.append(block)
        self._recent_bytes += len(block.text)
        while self._recent_bytes - len(self._recent[0].text) >= _TAIL_BYTES:
            self._recent_bytes -= len(self._recent.popleft().text)

    def _keep_wanted(self, block: _Block) -> None:
        for i, line in enumerate(block.lines()):
            if not _WANTED.search(line) or self._kept_bytes >= _MOST_BYTES:
                continue
            shape = _VARYING.sub(b"#", line[:240])
            if self._alike[shape] >= _MOST_ALIKE or len(self._alike) >= _MOST_SHAPES:
                continue
            self._alike[shape] += 1
            if _LAUNCH in line:
                # Another launch: its start is kept as that of the file.
                self._n_bytes = 0
                self._keep(block, range(i - _BEFORE, block.n_lines))
            if i < _BEFORE and self._recent:
                before = self._recent[-1]
                self._keep(before, range(before.n_lines - _BEFORE + i, before.n_lines))
            self._keep(block, range(i - _BEFORE, i + _AFTER))
            self._owed = max(0, i + _AFTER - block.n_lines)

    def _keep(self, block: _Block, wanted: range) -> None:
        last = self._kept[-1][0] if self._kept else 0
        start = max(wanted.start, last + 1 - block.first, 0)
        for i in range(start, min(wanted.stop, block.n_lines)):
            line = _cut(block.lines()[i])
            self._kept.append((block.first + i, line))
            self._kept_bytes += len(line)


def _cut(line: bytes) -> bytes:
    """A line of a sane length; of a longer one its start and its end, as two."""
    if len(line) <= _LONGEST_LINE:
        return line
    return line[: _LONGEST_LINE // 2] + b"\r" + line[-_LONGEST_LINE // 2 :]
