"""What holds for all tests."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from .browser import browser, complaints, page

__all__ = ["browser", "complaints", "page"]

# Before numpy is loaded, here and in what tests start: on cores that other tests keep busy, the
# threads of BLAS wait for each other, and small matrices take ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# No time limit for one example: other tests may keep the machine busy.
hypothesis.settings.register_profile("shared machine", deadline=None)
hypothesis.settings.load_profile("shared machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins the long ones first, those with a time limit of their own; ends with the lone ones.

    Begun last, one of three minutes would be waited for by all other workers. A lone one waits
    for the others to end theirs, and at the end there are none.
    """
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("alone") is not None:
        return 2
    return 0 if item.get_closest_marker("timeout") is not None else 1


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Lets the tests marked ``alone`` have the machine, and all others share it.

    All workers lock this very file. Outside of the test's time limit: to wait is not to be slow.
    """
    alone = item.get_closest_marker("alone") is not None
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        return (yield)
