"""The corpus of server logs under ``logs``: written for these tests, one file per case.

A file has a header (what must be found), a line ``---``, and the log. In the log ``␍`` stands for
a carriage return and ``␛`` for an escape, so that the files can be read and edited.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

LOGS = Path(__file__).parent / "logs"


@dataclass(frozen=True)
class LogCase:
    name: str
    header: dict[str, str]
    log: str

    @property
    def kind(self) -> str | None:
        kind = self.header["kind"]
        return None if kind == "none" else kind

    @property
    def exit_status(self) -> int | None:
        text = self.header.get("exit")
        return int(text) if text else None

    @property
    def bound(self) -> str | None:
        text = self.header.get("bound")
        return text.replace(">=", "≥").replace("<=", "≤") if text else None


def read_case(path: Path) -> LogCase:
    head, _, log = path.read_text(encoding="utf-8").partition("\n---\n")
    header = dict(line.split(": ", 1) for line in head.splitlines())
    log = log.replace("␍", "\r").replace("␛", "\x1b")
    return LogCase(str(path.relative_to(LOGS).with_suffix("")), header, log)


CASES = [read_case(path) for path in sorted(LOGS.rglob("*.txt"))]
FAILURES = [case for case in CASES if case.kind is not None]
HEALTHY = [case for case in CASES if case.kind is None]
