"""A file of rows: opened once, read once in bounded memory, every complaint with its line."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import msgspec

from autotune.errors import WorkloadError, nearest
from autotune.workload.readers.complaint import BadRow, BadText, reason_of
from autotune.workload.readers.scan import array_elements

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")
Made = TypeVar("Made")

MAX_ROW_BYTES = 64 * 2**20
"""The longest row that is read; what is longer is no row of text."""
MAX_DOCUMENT_BYTES = 256 * 2**20
"""The longest file that is one session."""
_UTF8_MARK = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_OTHER_KINDS = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a ZIP archive",
    b"\x28\xb5\x2f\xfd": "Zstandard data",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
    b"\x93NUM": "a NumPy file",
}


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _raise(error: WorkloadError) -> None:
    raise error


class Source:
    """One file, plain or gzip.

    Args:
        path: the file.
        on_bad: takes each bad row; the default raises it, so that reading ends there.
        on_progress: takes the bytes of the file that are read so far, now and then.
    """

    def __init__(
        self,
        path: Path,
        *,
        on_bad: Callable[[WorkloadError], None] = _raise,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self.path = path
        self.n_skipped = 0
        """Rows that the format itself says to leave out, such as failed requests."""
        self._on_bad = on_bad
        self._on_progress = on_progress

    def error(self, line: int, reason: str, hint: str = "") -> WorkloadError:
        return WorkloadError(f"{self.path}, line {line}: {reason}", hint=hint)

    def reject(self, line: int, bad: BadRow) -> None:
        """Says that this row cannot be used; returns where reading goes on all the same."""
        self._on_bad(self.error(line + bad.n_lines_down, bad.reason, bad.hint))

    @property
    def is_json(self) -> bool:
        """Whether the file begins as JSON does; else it is taken for a table."""
        return self.head(4096).lstrip()[:1] in (b"{", b"[")

    def head(self, n_bytes: int) -> bytes:
        """The first bytes, unpacked, without a byte order mark."""
        with self._opened() as stream:
            return stream.read(n_bytes).removeprefix(_UTF8_MARK)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines that are not blank, with their numbers from 1."""
        number = 0
        with self._opened() as stream:
            while line := stream.readline(MAX_ROW_BYTES + 1):
                number += 1
                if number == 1:
                    line = line.removeprefix(_UTF8_MARK)
                if len(line) > MAX_ROW_BYTES:
                    raise self.error(number, f"longer than {MAX_ROW_BYTES // 2**20} MiB")
                if not line.isspace():
                    yield number, line

    def records(self) -> Iterator[tuple[int, bytes]]:
        """The JSON values of the file: its lines, or the elements of its one array."""
        if self.head(4096).lstrip()[:1] == b"[":
            yield from self.elements(None)
        else:
            yield from self.lines()

    def documents(self) -> Iterator[tuple[int, bytes]]:
        """Like ``records``; a file that is one object over many lines is one record."""
        first = next(self.lines(), (1, b""))[1]
        if first.lstrip()[:1] == b"[" or _is_json(first):
            yield from self.records()
            return
        document = self.head(MAX_DOCUMENT_BYTES + 1)
        if len(document) > MAX_DOCUMENT_BYTES:
            raise self.error(1, f"one object of more than {MAX_DOCUMENT_BYTES // 2**20} MiB")
        yield 1, document

    def elements(self, key: str | None) -> Iterator[tuple[int, bytes]]:
        """The elements of an array: of the file itself, or under ``key`` of its one object."""
        with self._opened() as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="\n")
            try:
                for line, element in array_elements(text.read, key, MAX_ROW_BYTES):
                    yield line, element.encode()
            except BadText as bad:
                raise self.error(bad.line, bad.reason, bad.hint) from None
            except UnicodeDecodeError:
                raise WorkloadError(f"{self.path} is not UTF-8 text") from None
            finally:
                text.detach()

    def guarded(
        self,
        line: int,
        raw: bytes,
        decoder: msgspec.json.Decoder[T],
        make: Callable[[T, int], Made],
    ) -> Made | None:
        """What ``make`` makes of a record; None where the record is rejected."""
        try:
            return make(decoder.decode(raw), line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.reject(line, reason_of(error, raw))
        except BadRow as bad:
            self.reject(line, bad)
        return None

    def table(self, columns: Sequence[str] = ()) -> Iterator[tuple[int, Mapping[str, str]]]:
        """The rows of a CSV file with a header line, in which these columns must be."""
        if self.is_json:
            raise self.error(1, "this is JSON, not a table with a header")
        csv.field_size_limit(MAX_ROW_BYTES)
        reader = csv.DictReader(self._text_lines(), strict=True)
        while True:
            try:
                row = next(reader, None)
            except csv.Error as error:
                raise self.error(reader.line_num, f"not CSV: {error}") from None
            names = reader.fieldnames or ()
            self._check_header(names, columns)
            if row is None:
                return
            wanted = len(names)
            n_cells = sum(value is not None for value in row.values()) - (None in row)
            if None in row or n_cells < wanted:
                n_found = n_cells + len(row.get(None, ()))
                reason = f"{n_found} cells where the header names {wanted}"
                self.reject(reader.line_num, BadRow(reason))
            else:
                yield reader.line_num, row

    def _check_header(self, names: Sequence[str], columns: Sequence[str]) -> None:
        for column in columns:
            if column not in names:
                raise self.error(1, f"there is no column {column!r}: {nearest(column, names)}")

    def _text_lines(self) -> Iterator[str]:
        expected = 1
        for number, line in self.lines():
            yield from ["\n"] * (number - expected)  # keeps the line numbers of csv in step
            expected = number + 1
            try:
                yield line.decode()
            except UnicodeDecodeError:
                raise self.error(number, "not UTF-8 text") from None

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        try:
            with self.path.open("rb") as raw:
                start = raw.read(4)
                raw.seek(0)
                self._refuse(start)
                packed = start.startswith(_GZIP)
                unpacked = gzip.GzipFile(fileobj=raw) if packed else raw
                counted = _Counted(unpacked, raw, self._on_progress)
                yield io.BufferedReader(counted, buffer_size=2**20)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise WorkloadError(f"{self.path}: the gzip data is damaged or cut off") from None
        except FileNotFoundError:
            raise WorkloadError(f"there is no file {self.path}", hint=self._neighbour()) from None
        except IsADirectoryError:
            raise WorkloadError(f"{self.path} is a directory, not a file of sessions") from None
        except PermissionError:
            raise WorkloadError(f"{self.path} may not be read") from None

    def _refuse(self, start: bytes) -> None:
        if not start:
            raise WorkloadError(f"{self.path} is empty")
        for magic, kind in _OTHER_KINDS.items():
            if start.startswith(magic):
                raise WorkloadError(
                    f"{self.path} is {kind}",
                    hint="JSON, JSON lines and CSV in UTF-8 are read, also as .gz",
                )

    def _neighbour(self) -> str:
        folder = self.path.parent
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        close = nearest(self.path.name, names)
        return close if close.startswith("did you mean") else ""


class _Counted(io.RawIOBase):
    """Passes reads on and tells how far the file on disk is read."""

    def __init__(
        self,
        unpacked: IO[bytes] | gzip.GzipFile,
        raw: IO[bytes],
        tell: Callable[[int], None] | None,
    ) -> None:
        self._unpacked = unpacked
        self._raw = raw
        self._tell = tell

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer)
        data = self._unpacked.read(len(view))
        view[: len(data)] = data
        if self._tell is not None:
            self._tell(self._raw.tell())
        return len(data)
