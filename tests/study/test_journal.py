from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from autotune.study.journal import KernelLock
from autotune.study.store import StudyStore

HOLD = """
import sys, time
from pathlib import Path
from autotune.study.journal import KernelLock
KernelLock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(60)
"""


def test_a_writer_that_was_killed_while_it_held_the_journal_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Path("studies/s/journal.log")  # relative, as users have it
    journal.parent.mkdir(parents=True)
    journal.touch()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(journal)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    lock = KernelLock(journal)
    assert lock.acquire()
    lock.release()


def test_a_lock_file_that_another_tool_left_behind_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optuna.samplers import RandomSampler

    monkeypatch.chdir(tmp_path)
    store = StudyStore("s")
    store.create(RandomSampler())
    Path("studies/s/journal.log.lock").symlink_to("studies/s/journal.log")
    study = store.create(RandomSampler())
    assert study.ask().number == 0


def test_releasing_twice_does_no_harm(tmp_path: Path) -> None:
    journal = tmp_path / "journal.log"
    lock = KernelLock(journal)
    lock.acquire()
    lock.release()
    lock.release()
