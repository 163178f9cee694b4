"""The event loop that measures: uvloop where it is installed, else asyncio's own.

uvloop (the extra ``fast``) takes 2 to 5 µs of CPU less for each streamed event; what is measured is
the same (``benchmarks``).
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from autotune.errors import Interrupted

T = TypeVar("T")
Handler = Callable[[int, FrameType | None], Any]
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end on a loop of its own.

    A signal that the program handles ends the coroutine first, and is handled then: an exception
    from a handler in the middle of a loop's own code leaves transports half open, and uvloop would
    only write it to a log.
    """
    came: list[int] = []
    handlers = _handlers()
    try:
        with asyncio.Runner(loop_factory=_factory()) as runner:
            result = runner.run(_heeding(work, handlers, came))
        if not came:  # else the work ended just before it could be cut off
            return result
    except asyncio.CancelledError:
        if not came:
            raise
    signal.raise_signal(came[0])
    raise Interrupted(came[0])  # the handler let it pass, but the work is cut off


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _handlers() -> dict[int, Handler]:
    """The program's own handlers. Ctrl-C without one is left to ``asyncio.Runner``, which cancels
    the work as well.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {signum: signal.getsignal(signum) for signum in _SIGNALS}
    return {
        signum: handler
        for signum, handler in found.items()
        if callable(handler) and handler is not signal.default_int_handler
    }


async def _heeding(
    work: Coroutine[Any, Any, T], handlers: dict[int, Handler], came: list[int]
) -> T:
    task = asyncio.ensure_future(work)

    def end(signum: int) -> None:
        came.append(signum)
        task.cancel()

    with _taken(handlers, end):
        return await task


@contextmanager
def _taken(handlers: dict[int, Handler], end: Callable[[int], None]) -> Iterator[None]:
    """Lets the loop take these signals, and gives them back to their handlers."""
    loop = asyncio.get_running_loop()
    for signum in handlers:
        loop.add_signal_handler(signum, end, signum)
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            loop.remove_signal_handler(signum)
            signal.signal(signum, handler)
