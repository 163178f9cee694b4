"""``optimize --dry-run``: the space after its rules, the next launches, the time it may take."""

from __future__ import annotations

from typing import Any

import click

from autotune.engine.sglang.command import DEFAULT_PORT, LaunchCommand
from autotune.study import words
from autotune.study.campaign import Campaign
from autotune.study.forecast import Estimate, Planned, estimate, planned


def rehearse(campaign: Campaign) -> None:
    """Says what a study would do."""
    click.echo(campaign.installed.describe())
    for note in campaign.notes:
        click.echo(note)
    plans = planned(campaign)
    for plan in plans:
        click.echo(f"\n# trial {plan.number}: {_why(plan)}")
        click.echo(_command(campaign, plan).redacted().shell())
    if plans:
        click.echo(
            f"\neach on a free port of its own in place of {DEFAULT_PORT}{_masked(campaign)}"
        )
    else:
        click.echo("every configuration was launched: what is left are repeats of the best ones")
    click.echo(_time(estimate(campaign)))
    click.echo("nothing was started")


def document(campaign: Campaign) -> dict[str, Any]:
    """The same for programs."""
    space, guess = campaign.space, estimate(campaign)
    return {
        "study": campaign.store.name,
        "sglang": campaign.installed.describe(),
        "space": {
            "name": space.name,
            "n_legal": space.size,
            "n_raw": space.raw_size,
            "removed": [removal._asdict() for removal in space.removals],
        },
        "notes": list(campaign.notes),
        "launches": [
            {
                "trial": plan.number,
                "role": plan.role,
                "reason": plan.reason,
                "is_known": plan.is_known,
                "flags": dict(plan.flags),
                "command": list(_command(campaign, plan).redacted().argv),
            }
            for plan in planned(campaign)
        ],
        "estimate": {
            "n_launches": guess.n_launches,
            "each_s": guess.each_s,
            "total_s": guess.total_s,
            "origin": guess.origin,
            "n_confirm": guess.n_confirm,
            "confirm_s": guess.confirm_s,
        },
    }


def _command(campaign: Campaign, plan: Planned) -> LaunchCommand:
    off = campaign.reference if plan.role == "reference" else None
    flags = off.launched if off else plan.flags
    return campaign.engine.launched_as(flags, number=plan.number, port=DEFAULT_PORT)


def _why(plan: Planned) -> str:
    flags = words.flags(plan.flags, ", ")
    told = f"{plan.reason}{f' ({flags})' if flags else ''}"
    return told if plan.is_known else f"{told} as of now, which the trials before it may change"


def _masked(campaign: Campaign) -> str:
    has_secrets = bool(campaign.engine.command.secrets())
    return "; put your secrets back before use" if has_secrets else ""


def _time(guess: Estimate) -> str:
    s = "" if guess.n_launches == 1 else "es"
    limit = ", as --time allows" if guess.limit_s == guess.total_s else ""
    n = guess.n_confirm
    then = f"\nthen {n} to confirm the best, {words.duration(guess.confirm_s)} more" if n else ""
    return (
        f"{guess.n_launches} launch{s} to come, at most {words.duration(guess.total_s)}{limit}: "
        f"{words.duration(guess.each_s)} each ({guess.origin}){then}"
    )
