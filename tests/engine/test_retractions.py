"""Requests thrown out of the batch, counted in a log that grows."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.engine.sglang.retractions import RetractionLog

OLD = "Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.4012 -> 0.9120"
NEW = "KV cache pool is full. Retract requests. #retracted_reqs: 2, #new_tokens_gained: 2048"
AT = "2026-12-02 19:34:48"


@pytest.mark.parametrize(
    ("lines", "n"),
    [
        ([], 0),
        ([f"[{AT}] {NEW}"], 2),
        ([f"[{AT} TP0] {OLD}", f"[{AT} TP0] {OLD}"], 2),
        ([f"2026-12-02T19:34:48.100Z [{AT}] {NEW}"], 2),
        # The ranks of one replica run the same batch, and each writes.
        ([f"[{AT} TP{rank}] {NEW}" for rank in range(4)], 2),
        ([f"[{AT} DP{rank} TP{rank}] {NEW}" for rank in range(4)], 8),
        ([f"[{AT} DP{replica} TP{rank}] {NEW}" for replica in (0, 1) for rank in (0, 1)], 4),
        ([f"[{AT}] Decode batch, #running-req: 9, #queue-req: 1"], 0),
    ],
)
def test_each_request_counts_once(tmp_path: Path, lines: list[str], n: int) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(line + "\n" for line in lines))
    assert RetractionLog(log).count() == n


def test_what_is_new_is_added_once_its_line_is_complete(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    counted = RetractionLog(log)
    assert counted.count() == 0
    line = f"[{AT}] {NEW}\n"
    log.write_text(line + line[:70])
    assert counted.count() == counted.count() == 2
    log.write_text(line + line)
    assert counted.count() == 4
    log.write_text("its middle was left out\n")
    assert counted.count() == 4
