from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from autotune.errors import Interrupted
from autotune.study.interrupt import Interrupts

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    interrupts = Interrupts()
    with interrupts.active():
        yield interrupts


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda s: s.name)
def test_a_signal_becomes_an_exception_with_its_exit_code(
    interrupts: Interrupts, signum: signal.Signals
) -> None:
    with pytest.raises(Interrupted) as caught:
        signal.raise_signal(signum)
    assert caught.value.signum == signum
    assert caught.value.exit_code == 128 + signum


@pytest.mark.parametrize("signum", SIGNALS, ids=lambda s: s.name)
def test_a_shield_holds_a_signal_back_until_its_end(
    interrupts: Interrupts, signum: signal.Signals
) -> None:
    done = []
    with pytest.raises(Interrupted) as caught, interrupts.shield():
        signal.raise_signal(signum)
        done.append("written to the end")
    assert done and caught.value.signum == signum


def test_only_the_outermost_shield_lets_go(interrupts: Interrupts) -> None:
    done = []
    with pytest.raises(Interrupted), interrupts.shield():
        with interrupts.shield():
            signal.raise_signal(signal.SIGTERM)
        done.append("the inner end is no end")
    assert done


def test_an_error_inside_a_shield_is_not_hidden_by_a_signal(interrupts: Interrupts) -> None:
    with pytest.raises(ValueError, match="mine"), interrupts.shield():
        signal.raise_signal(signal.SIGTERM)
        raise ValueError("mine")
    with pytest.raises(Interrupted), interrupts.shield():
        pass


def test_a_held_signal_is_raised_once(interrupts: Interrupts) -> None:
    with pytest.raises(Interrupted), interrupts.shield():
        signal.raise_signal(signal.SIGTERM)
    with interrupts.shield():
        pass


def test_the_handlers_of_before_are_restored() -> None:
    before = [signal.getsignal(signum) for signum in SIGNALS]
    with Interrupts().active():
        assert [signal.getsignal(signum) for signum in SIGNALS] != before
    assert [signal.getsignal(signum) for signum in SIGNALS] == before


def test_nohup_is_heeded() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts().active():
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


class _EndsBadly:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_that_comes_in_a_finaliser_comes_again(interrupts: Interrupts) -> None:
    with pytest.raises(Interrupted):
        _EndsBadly()
        time.sleep(30.0)
