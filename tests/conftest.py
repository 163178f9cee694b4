"""What holds for all tests."""

from __future__ import annotations

import pytest

from .browser import browser, complaints, page

__all__ = ["browser", "complaints", "page"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins the long ones first: those with a time limit of their own.

    Begun last, one of three minutes would be waited for by all other workers.
    """
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)
