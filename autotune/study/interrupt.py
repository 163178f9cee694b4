"""Signals as exceptions, at moments where an exception does no harm."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

from autotune.errors import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_AFTER_S = 0.02


def _is_ignored(signum: signal.Signals) -> bool:
    return signal.getsignal(signum) is signal.SIG_IGN


def _sent_again(lost: sys.UnraisableHookArgs, otherwise: Callable[..., object]) -> None:
    """Sends a signal again whose exception came where Python can only drop it.

    In a finaliser, a callback of a weak reference or a hook of a fork, nobody could catch it.
    """
    if not isinstance(lost.exc_value, Interrupted):
        otherwise(lost)
        return
    again = threading.Timer(_AGAIN_AFTER_S, os.kill, (os.getpid(), lost.exc_value.signum))
    again.daemon = True
    again.start()


class Interrupts:
    """Turns SIGINT, SIGTERM and SIGHUP into ``Interrupted``, raised in the main thread.

    Inside ``shield`` a signal waits until the block is done, so that a record is never written
    halfway. Only one may be active, in the main thread.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._waiting: int | None = None

    @contextmanager
    def active(self) -> Iterator[Interrupts]:
        """Handles the signals inside the block and restores the old handlers after it.

        A SIGHUP that is ignored stays so: that is what ``nohup`` asks for.
        """
        signals = [s for s in _SIGNALS if s != signal.SIGHUP or not _is_ignored(s)]
        before = {signum: signal.signal(signum, self._on_signal) for signum in signals}
        hook = sys.unraisablehook
        sys.unraisablehook = partial(_sent_again, otherwise=hook)
        try:
            yield self
        finally:
            sys.unraisablehook = hook
            for signum, handler in before.items():
                signal.signal(signum, handler)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Holds signals back inside the block; a held one is raised when the block ends well."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if not self._depth and self._waiting is not None:
            signum, self._waiting = self._waiting, None
            raise Interrupted(signum)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self._depth:
            self._waiting = signum
        else:
            raise Interrupted(signum)
