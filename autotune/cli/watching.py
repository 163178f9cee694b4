"""A campaign at work on a screen: its events are shown, and its report is left, however it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import click

from autotune.errors import Interrupted
from autotune.events import Event, Listener, ignore

if TYPE_CHECKING:
    from autotune.study.campaign import Campaign

Result = TypeVar("Result")


def watched(
    campaign: Campaign, job: Callable[[Listener], Result], also: Listener = ignore
) -> Result:
    """Does a job of a campaign and shows how it goes on stderr.

    Args:
        also: is told of everything first.

    Raises:
        Interrupted: a signal came; what is kept was said.
    """
    from autotune.cli.progress import LiveProgress, PlainProgress, is_animated
    from autotune.cli.table import TrialTable
    from autotune.dashboard.keeper import NoteKeeper

    config, keeper = campaign.config, NoteKeeper(campaign.store)
    table = TrialTable(
        campaign.space.names,
        config.latency_concurrency,
        config.serving_concurrency,
        len(config.slo),
    )
    progress = LiveProgress(table) if is_animated() else PlainProgress(table)

    def show(event: Event) -> None:
        also(event)
        # Nobody watches any more (a closed terminal, ``| head``): no reason to lose a study.
        with suppress(OSError):
            progress(event)
        keeper(event)

    try:
        with progress:
            return job(show)
    except Interrupted:
        with suppress(OSError):  # the terminal may be what ended it
            click.echo(
                "stopped: no server is left, and every finished trial is kept; "
                "the same command goes on from here",
                err=True,
            )
        raise
    finally:
        _leave_report(campaign)


def _leave_report(campaign: Campaign) -> None:
    """``report.html`` of what is known so far, however the run ended."""
    from autotune.errors import AutotuneError
    from autotune.report.page import report_page
    from autotune.report.subject import Subject
    from autotune.study.reading import open_study

    with suppress(AutotuneError, OSError):  # the report is never the reason a run fails
        view, study = open_study(campaign.store.name, storage=campaign.store.location)
        if view.ranking.standings:
            (view.directory / "report.html").write_text(
                report_page(Subject(view, study)), encoding="utf-8"
            )
