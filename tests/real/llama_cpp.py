"""Starts a real inference server, and reads what it counts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from autotune.core.trial import Phase, record_from
from autotune.measure import Endpoint
from autotune.workload import Message, Session, Turn
from autotune.workload.readers.canonical import line_of

_SCRIPT = Path(__file__).with_name("serve_smollm.py")
_THINGS = (
    "fox river baker mountain sailor clock garden engine teacher bridge winter lamp rabbit train "
    "violin kitchen planet market castle storm painter library desert whale"
).split()
_BEFORE = (
    "It was late, and the rain fell on the roof of the house and on the road to the sea, and in "
    "the house there was a man, and with him a dog, and they sat by the fire and heard the rain. "
)
"""Every slot keeps it; and its pairs of words are met again, so that n-gram drafts are made."""
OUTPUT_TOK = (12, 24)
"""Lengths of the answers of the workload."""


def opening(number: int) -> str:
    """The beginning of a text; no two of the first 500 are the same."""
    count = len(_THINGS)
    first, second = _THINGS[number % count], _THINGS[(number // count + number) % count]
    return f"{_BEFORE}The {first} and the {second}"


def write_openings(path: Path) -> None:
    """A workload of short texts to go on with, whose answers end where we say.

    Of several lengths: with one, all requests would begin and end together.
    """
    extra, (shortest, longest) = {"ignore_eos": True}, OUTPUT_TOK
    with path.open("wb") as file:
        for number in range(400):
            n_tok = shortest + 5 * number % (longest - shortest + 1)
            message: Message = {"role": "user", "content": opening(number)}
            file.write(line_of(Session((Turn((message,), n_tok),), extra=extra)))


class LlamaCpp:
    """The server in a process of its own.

    Args:
        arguments: of ``serve_smollm.py``.
    """

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, _SCRIPT, *self._arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url.startswith("http://127.0.0.1:"):
            self._end()
            raise AssertionError("the server did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.url, "SmolLM2-135M-Instruct")

    def counters(self) -> dict[str, float]:
        """Every counter of ``/metrics`` that has no labels, by its name without ``llamacpp:``."""
        text = httpx.get(f"{self.url}/metrics").text
        lines = re.findall(r"^llamacpp:(\w+) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in lines}


def autotune_measure(*jobs: tuple[LlamaCpp, Path], words: Sequence[str]) -> list[list[Phase]]:
    """The phases that ``autotune measure`` finds with each server and workload, all at once."""
    runs: list[subprocess.Popen[str]] = []
    with ExitStack() as stack:
        for server, workload in jobs:
            command = [sys.executable, "-m", "autotune", "measure", "--url", server.url]
            command += ["--workload", str(workload), "--json", *words]
            run = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            stack.enter_context(run)
            stack.callback(run.kill)
            runs.append(run)
        return [_phases_of(run) for run in runs]


def _phases_of(run: subprocess.Popen[str]) -> list[Phase]:
    out, err = run.communicate()
    assert run.returncode == 0, err
    record = record_from(json.loads(out))
    assert record is not None
    return list(record.phases)
