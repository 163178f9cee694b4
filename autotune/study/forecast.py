"""What a study would do, without doing it: its next launches, and how long it may take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

import optuna

from autotune.core.objective import DIRECTIONS
from autotune.core.ranking import flag_key
from autotune.core.trial import Flags
from autotune.search.warm import keep_warm_start
from autotune.study.agenda import Launch, due, is_used_up, measured_baseline
from autotune.study.budget import settled
from autotune.study.campaign import Campaign
from autotune.study.reference import is_measured

SHOWN = 5
START_S = 180.0
"""Start and stop of a server, where none was seen: published starts take 1 to 5 minutes."""
PHASE_S = 60.0
"""One load, warm-up included: a window closes after 60 s (90 s at C=1), mostly earlier."""
_SIMULATED_START_S = 1.5


@dataclass(frozen=True, slots=True)
class Planned:
    """One launch to come.

    Attributes:
        number: of its trial, if nothing comes between.
        is_known: these flags and no others; else only what the sampler would take by what is known
            now, and it will know more by then.
    """

    number: int
    role: str
    reason: str
    flags: Flags
    is_known: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long a study takes at most, if it uses all its launches.

    Attributes:
        n_launches: still to come.
        each_s: wall seconds of one.
        origin: where ``each_s`` comes from, in words.
        limit_s: wall seconds that the search may take (``--time``); None: no limit.
        n_confirm: launches that a confirm stage makes after the search.
    """

    n_launches: int
    each_s: float
    origin: str
    limit_s: float | None
    n_confirm: int = 0

    @property
    def confirm_s(self) -> float:
        """Wall seconds of the confirm stage, beyond the limit."""
        return self.n_confirm * self.each_s

    @property
    def total_s(self) -> float:
        """Wall seconds, within the limit."""
        total_s = self.n_launches * self.each_s
        return total_s if self.limit_s is None else min(total_s, self.limit_s)


def estimate(campaign: Campaign) -> Estimate:
    """From this study's own launches where there are any, else from a stated default."""
    records, config = campaign.records, campaign.config
    n_left = max(0, config.trials - len(settled(records)))
    known = [r.timings["wall_s"] for r in records if r.objectives and "wall_s" in r.timings]
    if known:
        s = "" if len(known) == 1 else "es"
        origin = f"the mean of {len(known)} earlier launch{s} of this study"
        return Estimate(n_left, fmean(known), origin, config.time_s, campaign.n_to_confirm)
    phases_s = PHASE_S * (1 + len(config.serving_concurrency))
    if config.engine == "simulated":
        each_s = _SIMULATED_START_S + phases_s / campaign.engine.time_scale(None)
        origin = "assumed for the simulated server, as no launch of this study is known yet"
    else:
        each_s = START_S + phases_s
        origin = (
            f"assumed, as no launch of this study is known yet: {START_S / 60:.0f} min to start "
            f"and stop, {PHASE_S / 60:.0f} min for each of "
            f"{1 + len(config.serving_concurrency)} loads"
        )
    return Estimate(n_left, each_s, origin, config.time_s, campaign.n_to_confirm)


def planned(campaign: Campaign) -> list[Planned]:
    """The next launches, ``SHOWN`` of them where the space and the budget have as many.

    Those that a tuner would make whatever it measures are known; for the rest the sampler is asked
    with what is known now.
    """
    records = campaign.records
    launches: list[tuple[str, Launch, bool]] = []
    if measured_baseline(records) is None:
        launches.append(("baseline", Launch(campaign.baseline, "your own flags"), True))
    off = campaign.reference
    if off is not None and not is_measured(records):
        launches.append(("reference", Launch(off.flags, "speculation off, to compare"), True))
    launches += [("search", launch, True) for launch in due(campaign.space, records)]
    n = min(SHOWN, estimate(campaign).n_launches)
    before = [launch.flags for role, launch, _ in launches if role != "reference"]
    for role, guess in _guessed(campaign, before, n - len(launches)):
        is_next = not launches  # then nothing will have been measured before it
        launches.append((role, guess, is_next))
    first = max((record.number for record in records), default=-1) + 1
    return [
        Planned(first + i, role, launch.reason, launch.flags, is_known)
        for i, (role, launch, is_known) in enumerate(launches[:n])
    ]


def _guessed(campaign: Campaign, before: Sequence[Flags], n: int) -> Iterator[tuple[str, Launch]]:
    """What the sampler would take now, the launches before it being under way."""
    space, study = campaign.space, _copy(campaign)
    for flags in before:
        if space.contains(flags):
            study.enqueue_trial({name: flags[name] for name in space.parameters})
            space.suggest(study.ask())
    launched = {flag_key(record.flags) for record in campaign.records}
    seen = {flag_key(flags) for flags in before}
    used_up = is_used_up(space, campaign.records)
    for i in range(n):
        guess = space.suggest(study.ask())
        key = flag_key(guess)
        if key in seen or (key in launched and (i > 0 or used_up)):
            return  # the sampler has nothing left
        seen.add(key)
        if key in launched:
            yield "replicate", Launch(guess, "in doubt: measured again")
        else:
            yield "search", Launch(guess, "the sampler's choice")


def _copy(campaign: Campaign) -> optuna.Study:
    """The study as it is now, in memory: what is asked there changes nothing."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler, storage = campaign.sampler(), optuna.storages.InMemoryStorage()
    if not campaign.records:
        study = optuna.create_study(directions=DIRECTIONS, storage=storage, sampler=sampler)
        if campaign.warm is not None:
            keep_warm_start(study, campaign.warm)
        return study
    name, source = campaign.store.name, campaign.store.open()
    optuna.copy_study(from_study_name=name, from_storage=source._storage, to_storage=storage)
    return optuna.load_study(study_name=name, storage=storage, sampler=sampler)
