"""Every log of the corpus is understood, whatever wraps it and however long it is."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable

import pytest

from autotune.core.trial import FailureKind
from autotune.engine.sglang.diagnose import Diagnosis, examine
from autotune.engine.sglang.logfile import as_lines, may_matter, read_lines

from .corpus import CASES, FAILURES, HEALTHY, LogCase

FROM_A_LOG = set(FailureKind) - {
    FailureKind.CLIENT_SATURATED,
    FailureKind.TOO_NOISY,
    FailureKind.INTERRUPTED,
}
MASKED = "kubernetes", "colours", "docker"


def read(log: str | bytes, exit_status: int | None) -> Diagnosis | None:
    data = log.encode() if isinstance(log, str) else log
    return examine(read_lines(io.BytesIO(data), "the log"), exit_status)


def check(found: Diagnosis | None, case: LogCase) -> None:
    assert found is not None
    failure = found.failure
    assert (failure.kind, failure.stage) == (case.kind, case.header["stage"])
    assert case.header["evidence"] in failure.evidence
    assert (str(failure.bound) if failure.bound else None) == case.bound
    assert failure.remedy and "{" not in failure.remedy


def test_the_corpus_is_large_and_has_every_kind() -> None:
    assert len(FAILURES) >= 60 and len(HEALTHY) >= 20
    assert {case.kind for case in FAILURES} == {kind.value for kind in FROM_A_LOG}


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
def test_a_failure_is_found(case: LogCase) -> None:
    check(read(case.log, case.exit_status), case)


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
def test_the_line_of_the_evidence_is_told(case: LogCase) -> None:
    found = read(case.log, case.exit_status)
    assert found is not None
    if found.line is not None:
        wanted = case.header["evidence"]
        text = case.log.split("\n")[found.line - 1]
        assert wanted in text or json.dumps(wanted)[1:-1] in text


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: case.name)
@pytest.mark.parametrize("exit_status", [None, 0])
def test_a_healthy_log_shows_no_failure(case: LogCase, exit_status: int | None) -> None:
    assert read(case.log, exit_status) is None


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: case.name)
@pytest.mark.parametrize("exit_status", [-9, 137, 1])
def test_an_exit_status_alone_blames_nothing(case: LogCase, exit_status: int) -> None:
    found = read(case.log, exit_status)
    assert found is not None
    assert found.failure.kind is FailureKind.CRASHED
    assert found.line is None
    assert "OOM" not in found.failure.remedy


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
def test_every_evidence_passes_the_sieve_of_long_logs(case: LogCase) -> None:
    found = read(case.log, case.exit_status)
    assert found is not None
    assert found.line is None or may_matter(found.failure.evidence)


DOCKER = "2026-03-14T07:00:00.000000001Z "


def in_json(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stdout", "time": DOCKER.strip()})


WRAPPERS: dict[str, Callable[[str], str]] = {
    "docker -t": lambda line: DOCKER + line,
    "docker json": in_json,
    "kubectl --prefix": lambda line: f"[pod/owl-0/server] {line}",
    "kubectl --prefix --timestamps": lambda line: f"[pod/owl-0/server] {DOCKER}{line}",
    "pod/container": lambda line: f"owl-0/server {line}",
    "containerd": lambda line: f"2026-03-14T07:00:00.1+00:00 stderr F {line}",
    "compose": lambda line: f"owl-server-1  | {line}",
    "journald": lambda line: f"Mar 14 07:00:00 gpu-07 bash[99]: {line}",
    "ray": lambda line: f"(Worker pid=812, ip=10.0.0.3) {line}",
    "colours": lambda line: f"\x1b[1;31m{line}\x1b[0m",
    "carriage return": lambda line: f"{line}\r",
    "srun": lambda line: f"3: {line}",
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS.keys())
def test_what_collectors_add_changes_nothing(wrap: Callable[[str], str]) -> None:
    for case in CASES:
        if case.name.endswith(MASKED) or case.log.startswith(("{", "Mar ", "2026", "[pod")):
            continue
        wrapped = "\n".join(wrap(line) if line else "" for line in case.log.split("\n"))
        found = read(wrapped, case.exit_status)
        if case.kind is None:
            assert found is None, case.name
        else:
            check(found, case)


FILLER = (
    "[2026-03-14 07:30:00 TP0] Decode batch, #running-req: 12, #token: 9120, token usage: 0.2, "
    "cuda graph: True, gen throughput (token/s): 612.1, #queue-req: 0\n"
)


@pytest.mark.parametrize("kind", ["runtime_oom", "watchdog", "nccl", "crashed"])
def test_hours_of_service_before_the_end_change_nothing(kind: str) -> None:
    for case in FAILURES:
        if case.kind != kind or "ready to roll" not in case.log or case.log.startswith(("{", "M")):
            continue
        if case.log.startswith("2026"):
            continue
        head, mark, tail = case.log.partition("ready to roll!\n")
        log = head + mark + FILLER * 12_000 + tail
        found = read(gzip.compress(log.encode(), 1), case.exit_status)
        check(found, case)
        assert found is not None
        if found.line is not None:
            assert case.header["evidence"] in log.split("\n")[found.line - 1]


def test_a_failure_far_from_both_ends_is_found() -> None:
    """A server that hangs after its first rank has died may go on writing for hours."""
    dead = next(case for case in FAILURES if case.name == "runtime_oom/first_long_prompt").log
    quiet = '[2026-03-14 09:00:00] INFO:     10.0.0.1:80 - "GET /metrics HTTP/1.1" 500\n'
    log = dead + quiet * 60_000
    found = read(log, -9)
    assert found is not None
    assert found.failure.kind is FailureKind.RUNTIME_OOM
    assert "3.06 GiB" in found.failure.evidence


def test_text_and_file_agree() -> None:
    for case in CASES:
        assert examine(as_lines(case.log), case.exit_status) == read(case.log, case.exit_status)
