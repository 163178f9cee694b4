"""Writes a server's output into a file of bounded size, each line with the time at which it came.

Runs as a process of its own, ``python recorder.py OUTPUT FILE``, between the server's output and
the file: the server never waits for a reader, the client that measures is not disturbed, and last
words are kept when the tuner is killed. Its stdin takes the tuner's orders, its stdout answers.

Standard library only, and started without site packages: it is up before the server is.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

HEAD_BYTES = 4 * 1024 * 1024
"""Kept of the start of a log: arguments, sizes, stages."""
TAIL_BYTES = 8 * 1024 * 1024
"""Kept of its end, at least."""
MOST_BYTES = 20 * 1024 * 1024
"""Size of the file at most."""

_BLOCK = 256 * 1024
_PIPE_BYTES = 1024 * 1024
_LONGEST_HELD = 64 * 1024
_HELD_S = 0.2
"""A line that has no end yet is written after so long: nothing in it may be cut in two before."""
_LINGER_S = 15.0
"""Without its tuner: the watchdog ends the server long before."""
_ANSWER_S = 2.0
_NOTE_BYTES = 128
_KEY = re.compile(rb"api_key['\"]?[=:] ?['\"]([^'\"\n]+)['\"]")
"""SGLang prints its resolved arguments at the start, API keys among them."""
_SHORTEST_SECRET = 4


class Recorder:
    """The tuner's end. Not thread-safe.

    Args:
        log: replaced if it exists.
        secrets: words that must not reach the file; each becomes as many asterisks.

    Attributes:
        output: a descriptor for the server to write to; see ``handed_over``.
    """

    def __init__(self, log: Path, secrets: Sequence[str] = ()) -> None:
        self._n_asked = 0
        self._unread = b""
        source, self.output = os.pipe()
        try:
            with log.open("w+b") as file:
                target = file.fileno()
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__, str(source), str(target)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    bufsize=0,
                    pass_fds=(source, target),
                    start_new_session=True,  # a Ctrl-C at the terminal must not reach it
                )
        except BaseException:
            os.close(self.output)
            raise
        finally:
            os.close(source)
        self._order("secrets", list(secrets))

    def handed_over(self) -> None:
        """Closes this process's own copy of ``output``: the server has it by now."""
        os.close(self.output)

    def note(self, text: str) -> None:
        """Adds a line of the tuner's own."""
        self._order("note", text)

    def catch_up(self) -> None:
        """Returns once all that the server has written by now is in the file, or after 2 s."""
        self._n_asked += 1
        self._order("answer", self._n_asked)
        answers, ends = self._process.stdout, time.monotonic() + _ANSWER_S
        assert answers is not None
        while not answers.closed:
            *known, self._unread = self._unread.split(b"\n")
            if known and int(known[-1]) >= self._n_asked:
                return
            left_s = max(0.0, ends - time.monotonic())
            if not select.select([answers], [], [], left_s)[0]:
                return
            told = os.read(answers.fileno(), 4096)
            if not told:  # somebody ended it
                return
            self._unread += told

    def close(self) -> None:
        """Writes what is left and ends. A second call does nothing."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None and answers is not None
        self._order("end", True)
        with suppress(OSError):
            orders.close()
        try:
            self._process.wait(_ANSWER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        answers.close()

    def _order(self, what: str, value: object) -> None:
        with suppress(OSError, ValueError):  # it has ended
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({what: value}).encode() + b"\n")


class BoundedFile:
    """A file that keeps its start and its end, and one line in between on what is left out.

    Args:
        descriptor: of an empty file, open for reading and writing.
    """

    def __init__(
        self,
        descriptor: int,
        *,
        head: int = HEAD_BYTES,
        tail: int = TAIL_BYTES,
        most: int = MOST_BYTES,
    ) -> None:
        self._file = descriptor
        self._head, self._tail, self._most = head, tail, most
        self._size = 0
        self._end_of_head = 0
        self._n_bytes = self._n_lines = 0

    def append(self, text: bytes) -> None:
        """Writes at the end. On a full disk the text is lost: a server goes on all the same."""
        for at in range(0, len(text), _BLOCK):
            block = text[at : at + _BLOCK]
            with suppress(OSError):
                if self._size + len(block) > self._most:
                    self._leave_out()
                self._size += os.pwrite(self._file, block, self._size)

    def _leave_out(self) -> None:
        """Moves the end towards the start; at every moment the file holds both."""
        if not self._end_of_head:
            self._end_of_head = self._line_before(self._head)
        to = self._end_of_head + _NOTE_BYTES
        first_left_out = to if self._n_bytes else self._end_of_head
        begin = self._line_after(self._size - self._tail)
        for at in range(first_left_out, begin, _BLOCK):
            block = os.pread(self._file, min(_BLOCK, begin - at), at)
            self._n_bytes += len(block)
            self._n_lines += block.count(b"\n")
        for at in range(begin, self._size, _BLOCK):
            block = os.pread(self._file, min(_BLOCK, self._size - at), at)
            to += os.pwrite(self._file, block, to)
        note = f"autotune: {self._n_lines:,} lines ({self._n_bytes:,} bytes) were left out here"
        line = (stamp() + note.encode()).ljust(_NOTE_BYTES - 1) + b"\n"
        os.pwrite(self._file, line, self._end_of_head)
        os.ftruncate(self._file, to)
        self._size = to

    def _line_before(self, at: int) -> int:
        """Where the last line that begins before ``at`` begins, unless it is a giant."""
        block = os.pread(self._file, min(_LONGEST_HELD, at), max(0, at - _LONGEST_HELD))
        return at - (len(block) - (block.rfind(b"\n") + 1)) if b"\n" in block else at

    def _line_after(self, at: int) -> int:
        return at + os.pread(self._file, _LONGEST_HELD, at).find(b"\n") + 1


class Lines:
    """Takes output as it comes and writes it line by line, with times and without secrets."""

    def __init__(self, file: BoundedFile) -> None:
        self._file = file
        self._hidden = [_KEY]
        self._held = b""
        self._in_line = False

    @property
    def holds(self) -> bool:
        """Whether a line without an end waits to be written."""
        return bool(self._held)

    def hide(self, secrets: Sequence[str]) -> None:
        """Puts asterisks for these words from now on."""
        words = [re.escape(s.encode()) for s in secrets if len(s) >= _SHORTEST_SECRET]
        self._hidden = [_KEY, *([re.compile(b"(" + b"|".join(words) + b")")] if words else [])]

    def take(self, output: bytes) -> None:
        held = self._held + output
        # The states of a progress bar are separated by carriage returns.
        end = max(held.rfind(b"\n"), held.rfind(b"\r")) + 1
        self._held = held[end:]
        if end:
            self._write(held[:end])
        if len(self._held) > _LONGEST_HELD:
            self.let_go()

    def let_go(self) -> None:
        """Writes a line that has no end yet."""
        held, self._held = self._held, b""
        if held:
            self._write(held)

    def note(self, text: str) -> None:
        self.let_go()
        newline = b"\n" if self._in_line else b""
        self._write(newline + b"autotune: " + text.encode() + b"\n")

    def _write(self, text: bytes) -> None:
        for pattern in self._hidden:
            text = pattern.sub(_masked, text)
        begin = stamp()
        body, end = (text[:-1], b"\n") if text.endswith(b"\n") else (text, b"")
        first = b"" if self._in_line else begin
        self._file.append(first + body.replace(b"\n", b"\n" + begin) + end)
        self._in_line = not end


def _masked(found: re.Match[bytes]) -> bytes:
    """The match with its group hidden; a line keeps its length."""
    start, stop = (at - found.start() for at in found.span(1))
    return found[0][:start] + b"*" * (stop - start) + found[0][stop:]


def stamp() -> bytes:
    """The time as log collectors write it, UTC, and a space."""
    now = time.time()
    form = f"%Y-%m-%dT%H:%M:%S.{int(now * 1000) % 1000:03d}Z "
    return time.strftime(form, time.gmtime(now)).encode()


def main(output: int, file: int) -> None:
    """Records until told to end, or until the tuner and the output have ended."""
    lines = Lines(BoundedFile(file))
    os.set_blocking(output, False)
    orders, waiting = b"", {0, output}
    ends: float | None = None
    while ends is None or (output in waiting and time.monotonic() < ends):
        limit_s = _HELD_S if lines.holds or ends is not None else None
        ready = select.select(waiting, [], [], limit_s)[0]
        if not ready:
            lines.let_go()
        if output in ready and _drain(output, lines, _BLOCK):
            waiting.remove(output)
        if 0 in ready:
            told = os.read(0, 65536)
            *complete, orders = (orders + told).split(b"\n")
            for order in complete:
                if _obey(json.loads(order), lines, output if output in waiting else None):
                    return
            if not told:
                waiting.remove(0)
                ends = time.monotonic() + _LINGER_S
    lines.let_go()


def _obey(order: dict[str, object], lines: Lines, output: int | None) -> bool:
    """Carries out one order; whether it was the last one."""
    match order:
        case {"secrets": list(secrets)}:
            lines.hide(secrets)
        case {"note": str(text)}:
            lines.note(text)
        case {"answer": int(number)}:
            _catch_up(output, lines)
            os.write(1, b"%d\n" % number)
        case {"end": _}:
            _catch_up(output, lines)
            return True
    return False


def _catch_up(output: int | None, lines: Lines) -> None:
    """Takes what was in the pipe at this moment: a pipe holds a limited number of bytes."""
    if output is not None:
        _drain(output, lines, _PIPE_BYTES)
    lines.let_go()


def _drain(output: int, lines: Lines, most: int) -> bool:
    """Takes so many bytes at most; whether the output has ended."""
    n_read = 0
    while n_read < most:
        try:
            block = os.read(output, _BLOCK)
        except BlockingIOError:
            return False
        if not block:
            return True
        lines.take(block)
        n_read += len(block)
    return False


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        main(int(sys.argv[1]), int(sys.argv[2]))
