"""What holds for all tests."""

from __future__ import annotations

import os

import pytest

from .browser import browser, complaints, page

__all__ = ["browser", "complaints", "page"]

# Before numpy is loaded, here and in what tests start: on cores that other tests keep busy, the
# threads of BLAS wait for each other, and small matrices take ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins the long ones first: those with a time limit of their own.

    Begun last, one of three minutes would be waited for by all other workers.
    """
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)
