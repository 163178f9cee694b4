"""Events to a terminal: a line per trial, and a live line where there is a terminal to move in."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from autotune.cli.table import TrialTable
from autotune.events import (
    ConfirmStarted,
    Event,
    Listener,
    PhaseMeasured,
    PhaseProgress,
    SpaceWidened,
    StageReached,
    TrialEnded,
    TrialStarted,
)
from autotune.study import words

if TYPE_CHECKING:
    from rich.live import Live

_BAR = 24


def is_animated() -> bool:
    """Whether stderr is a terminal that may be redrawn."""
    plain = os.environ.get("CI") or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    stderr = sys.stderr  # None where the shell closed it
    return stderr is not None and stderr.isatty() and not plain


@dataclass(slots=True)
class PlainProgress:
    """One line per event, for logs and pipes."""

    table: TrialTable
    _began: float = field(default_factory=time.monotonic)

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *exception: object) -> None:
        return None

    def __call__(self, event: Event) -> None:
        text = self._text(event)
        if text is not None:
            click.echo(text, err=True)

    def _text(self, event: Event) -> str | None:
        stamp = words.clock(time.monotonic() - self._began)
        match event:
            case TrialStarted():
                flags = words.flags(event.flags, " ")
                if event.role == "reference":
                    flags = "the command without speculation"
                why = f" ({event.reason})" if event.reason else ""
                return f"{stamp} trial {event.number}: {flags or 'the command as it is'}{why}"
            case ConfirmStarted():
                return f"{stamp} {_to_confirm(event)}"
            case SpaceWidened():
                return f"{stamp} {event.text}"
            case StageReached() if event.text:
                return f"{stamp} trial {event.number}: {event.text}"
            case PhaseMeasured():
                return f"{stamp} {_phase(event)}"
            case TrialEnded():
                outlook = _outlook(event)
                row = self.table.row(event.record, event.gain_pct)
                return f"{row}\n{stamp} {outlook}" if outlook else row
            case _:
                return None


@dataclass(slots=True)
class LiveProgress:
    """A row per finished trial, and one line below that shows what is going on."""

    table: TrialTable
    _lead: str = ""
    _doing: str = ""
    _share: float | None = None
    _outlook: str = ""
    _began: float = field(default_factory=time.monotonic)
    _live: Live | None = None

    def __enter__(self) -> LiveProgress:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)
        self._live.start()
        console.print(self.table.header(), style="bold", markup=False)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            with suppress(OSError):  # its terminal is gone
                self._live.stop()

    def __call__(self, event: Event) -> None:
        match event:
            case ConfirmStarted():
                self._outlook = ""
                assert self._live is not None
                self._live.console.print(_to_confirm(event), style="bold", markup=False)
            case SpaceWidened():
                assert self._live is not None
                self._live.console.print(event.text, style="bold", markup=False)
            case TrialStarted():
                self._lead = self.table.lead(event.number, event.flags)
                self._began, self._share, self._doing = time.monotonic(), None, "launching"
            case StageReached():
                self._doing, self._share = event.text or event.stage, None
            case PhaseProgress():
                self._doing, self._share = f"measuring {event.load}", event.done_frac
            case TrialEnded():
                self._outlook, self._doing = _outlook(event), ""
                self._print(event)
            case _:
                pass

    def _print(self, event: TrialEnded) -> None:
        assert self._live is not None
        failed = event.record.failure is not None
        is_best = event.best is not None and event.best == event.record.number
        dim = "dim" if event.record.pruned else None
        style = "red" if failed else "bold green" if is_best else dim
        row = self.table.row(event.record, event.gain_pct)
        self._live.console.print(row, style=style, markup=False)

    def __rich__(self) -> str:
        if not self._doing:
            return ""
        elapsed = words.clock(time.monotonic() - self._began)
        bar = "" if self._share is None else _bar(self._share)
        return f"{self._lead}{self._doing}  {bar}{elapsed}   [dim]{self._outlook}[/]"


@contextmanager
def phase_progress() -> Iterator[Listener]:
    """Shows the phases of one measurement on stderr: a live bar, or a line for each that ended."""
    if not is_animated():
        yield _say_phase
        return
    from rich.console import Console
    from rich.live import Live

    began, console = time.monotonic(), Console(stderr=True, highlight=False)
    live = Live("", console=console, refresh_per_second=8, transient=True)

    def show(event: Event) -> None:
        if isinstance(event, PhaseProgress):
            elapsed = words.clock(time.monotonic() - began)
            bar = _bar(event.done_frac)
            live.update(f"measuring {event.load}  {bar}{elapsed}")

    live.start()
    try:
        yield show
    finally:
        with suppress(OSError):  # its terminal is gone
            live.stop()


def _say_phase(event: Event) -> None:
    if isinstance(event, PhaseMeasured):
        with suppress(OSError):  # nobody watches any more
            click.echo(_phase(event), err=True)


def _phase(event: PhaseMeasured) -> str:
    phase = event.phase
    is_latency = phase.headline is phase.turn_latency_s
    value = words.seconds(phase.headline) if is_latency else words.tok_s(phase.headline)
    return f"{phase.load}: {value}, {phase.n_requests} requests"


def _bar(share: float) -> str:
    full = round(_BAR * min(1.0, share))
    return f"[cyan]{'━' * full}[/][dim]{'━' * (_BAR - full)}[/] {share:4.0%}  "


def _to_confirm(event: ConfirmStarted) -> str:
    """What comes after the search, and how long it will take."""
    n = event.n_launches
    about = f", about {words.duration(event.left_s)}" if event.left_s else ""
    return (
        f"to confirm: {n} fresh launch{'' if n == 1 else 'es'} in turns with your flags, "
        f"on prompts new to the search{about}"
    )


def _outlook(event: TrialEnded) -> str:
    """What is best so far, and how long it may still take."""
    parts = []
    if event.best is not None and event.best_gain_pct is not None:
        parts.append(f"best so far: trial {event.best}, {words.gain(event.best_gain_pct)}")
    if event.left_s:
        parts.append(f"at most {words.duration(event.left_s)} left")
    return " · ".join(parts)
