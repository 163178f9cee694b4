"""Temporary folders are gone with their owner, also when it is killed in the middle of anything."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autotune.engine.scratch import Scratch

from .conftest import wait_until

OWNER = """
import sys, time
from autotune.engine.scratch import Scratch
print("begins", flush=True)
while True:
    with Scratch("autotune-test-") as scratch:
        (scratch.folder / "file").write_text("text")
        (scratch.folder / "inner").mkdir()
        time.sleep(0.03)
"""


def test_a_folder_lives_as_long_as_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Scratch("autotune-test-") as scratch:
        assert list(tmp_path.iterdir()) == [scratch.folder]
        assert scratch.folder.stat().st_mode & 0o777 == 0o700
        (scratch.folder / "file").write_text("text")
    assert list(tmp_path.iterdir()) == []
    scratch.close()


def test_a_path_too_long_for_a_socket_is_made_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("x" * 80)))
    with Scratch("autotune-test-", longest=70) as scratch:
        assert len(str(scratch.folder)) <= 70 and scratch.folder.is_dir()


@pytest.mark.parametrize("seed", range(6))
def test_an_owner_that_is_killed_leaves_no_folder(tmp_path: Path, seed: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, env={"TMPDIR": str(tmp_path)}
    ) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        time.sleep(random.Random(seed).uniform(0, 0.3))
        owner.kill()
    assert wait_until(lambda: not list(tmp_path.iterdir()))
    time.sleep(0.3)
    assert not list(tmp_path.iterdir())
