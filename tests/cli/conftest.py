from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from .commands import autotune, optimize_words


@dataclass(frozen=True)
class FinishedStudy:
    """A study that ran to its end; tests only read it."""

    directory: Path
    run: subprocess.CompletedProcess[str]

    @property
    def folder(self) -> Path:
        return self.directory / "studies" / "s"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedStudy:
    directory = tmp_path_factory.mktemp("finished")
    run = autotune(*optimize_words(trials=3), cwd=directory)
    assert run.returncode == 0, run.stderr
    return FinishedStudy(directory, run)
