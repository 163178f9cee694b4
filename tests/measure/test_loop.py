from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress
from types import FrameType

import pytest

from autotune.errors import Interrupted
from autotune.measure.loop import run


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_a_coroutine_runs_to_its_end() -> None:
    assert run(answer()) == 42


def test_it_runs_in_a_thread_too() -> None:
    told: list[int] = []
    thread = threading.Thread(target=lambda: told.append(run(answer())))
    thread.start()
    thread.join()
    assert told == [42]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_work_first_and_is_handled_then(signum: signal.Signals) -> None:
    tidied: list[str] = []

    def handle(number: int, frame: FrameType | None) -> None:
        assert tidied == ["up"], "the work was ended before"
        raise Interrupted(number)

    async def work() -> None:
        try:
            os.kill(os.getpid(), signum)
            await asyncio.sleep(30)
        finally:
            tidied.append("up")

    before = signal.signal(signum, handle)
    try:
        with pytest.raises(Interrupted) as raised:
            run(work())
        assert raised.value.signum == signum
        assert signal.getsignal(signum) is handle
    finally:
        signal.signal(signum, before)


def test_ctrl_c_without_a_handler_is_a_keyboard_interrupt() -> None:
    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(30)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # may be ignored here
    try:
        with pytest.raises(KeyboardInterrupt):
            run(work())
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_failure_of_the_work_comes_out() -> None:
    async def work() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        run(work())


def test_a_signal_that_comes_as_the_work_ends_is_not_lost() -> None:
    def handle(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    async def work() -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(30)
        return "done"

    before = signal.signal(signal.SIGTERM, handle)
    try:
        with pytest.raises(Interrupted):
            run(work())
    finally:
        signal.signal(signal.SIGTERM, before)
