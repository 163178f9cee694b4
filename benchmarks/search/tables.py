"""Runs to tables: over the sets of worlds, and world by world."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from benchmarks.output import Result
from benchmarks.search.families import OWN, SHIPPED
from benchmarks.search.ordinary import OrdinaryWorld
from benchmarks.search.play import Run
from benchmarks.search.speculative import MIXED

SETS = ("shipped", "own", "mixed", "ordinary", "stress")
_LOOKS = (5, 10, 15, 30)
_EARLY = 15
_BARS = {"scenarios": (6, 14), "stress": (13, 28)}
"""Launches to 2 %: median and 90th percentile that ``speculative`` must reach."""
_FAILED_BAR = 1.0
_VOLUME_BAR = 0.5
_STOP_LAG_BAR, _STOP_EARLY_BAR = 4.0, 0.10


def worlds_of(chosen: str) -> list[str]:
    """World names of a set, or of a world.

    Raises:
        KeyError: neither.
    """
    named = {
        "shipped": list(SHIPPED),
        "own": list(OWN),
        "stress": [f"stress:{name}" for name in (*SHIPPED, *OWN)],
        "ordinary": [OrdinaryWorld.name],
        "mixed": [MIXED],
    }
    return named[chosen] if chosen in named else _single(chosen)


def _single(name: str) -> list[str]:
    if name.removeprefix("stress:") not in {*SHIPPED, *OWN, OrdinaryWorld.name, MIXED}:
        raise KeyError(name)
    return [name]


def set_of(world: str) -> str:
    """The set that a world counts in: ``scenarios``, ``stress``, ``ordinary`` or ``mixed``."""
    if world.startswith("stress:"):
        return "stress"
    return {OrdinaryWorld.name: "ordinary", MIXED: "mixed"}.get(world, "scenarios")


def overview(runs: Sequence[Run]) -> Result:
    """One row for each set of worlds and sampler, and every bar that is missed."""
    rows = []
    for name in _ordered(set_of(run.world) for run in runs):
        for sampler in _ordered(run.sampler for run in runs):
            group = [r for r in runs if set_of(r.world) == name and r.sampler == sampler]
            if group:
                rows.append(_row(name, sampler, group))
    looks = [look for look in _LOOKS if look <= len(runs[0].regrets)]
    return Result(
        title="Over all boxes, median/90th percentile: launches until the recommendation is within "
        "2 % of the true optimum, its regret (%), and more",
        columns=(
            "worlds", "sampler", "runs", "to 2 %", "reached",
            *(f"regret@{look}" for look in looks),
            f"failed@{_EARLY}", f"HV regret@{_EARLY}", "stop", "early", "lag", "min to 2 %",
            "CPU ms",
        ),
        rows=rows,
        missed=list(_missed(runs)),
    )  # fmt: skip


def by_world(runs: Sequence[Run]) -> Result:
    """One row for each world; for each sampler its launches and its regrets."""
    samplers = _ordered(run.sampler for run in runs)
    rows = []
    for world in _ordered(run.world for run in runs):
        row = [world]
        for sampler in samplers:
            group = [r for r in runs if r.world == world and r.sampler == sampler]
            row += [_launches(r.reached_at for r in group), _regret(group, _EARLY), _hv(group)]
        rows.append(row)
    columns = ["world"]
    for sampler in samplers:
        columns += [sampler, "regret", "HV"]
    return Result(title="World by world", columns=columns, rows=rows)


def percentile(values: Iterable[float], q: float) -> float:
    """The smallest value that at least ``q`` % of all do not exceed; infinite ones count."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(q / 100 * len(ordered)) - 1)]


def _row(name: str, sampler: str, group: Sequence[Run]) -> list[str]:
    stops = [r for r in group if r.stop_at is not None]
    lags = stop_lags(group)
    looks = [look for look in _LOOKS if look <= len(group[0].regrets)]
    reached = [r for r in group if math.isfinite(r.reached_at)]
    return [
        name,
        sampler,
        str(len(group)),
        _launches(r.reached_at for r in group),
        f"{len(reached) / len(group):.0%}",
        *(_regret(group, look) for look in looks),
        f"{np.mean([sum(r.failed[:_EARLY]) for r in group]):.1f}",
        _hv(group),
        _launches(r.stop_at for r in stops if r.stop_at) if stops else "–",
        f"{early_share(group):.0%}" if stops else "–",
        f"{np.mean(lags):+.1f}" if lags else "–",
        f"{_minutes(group):.0f}" if math.isfinite(_minutes(group)) else "–",
        f"{1e3 * np.mean([r.cpu_s / len(r.regrets) for r in group]):.0f}",
    ]


def stop_lags(runs: Iterable[Run]) -> list[float]:
    """Launches from the first good recommendation to the stop, where it came after it."""
    return [
        r.stop_at - r.reached_at
        for r in runs
        if r.stop_at is not None and r.reached_at <= r.stop_at
    ]


def early_share(runs: Sequence[Run]) -> float:
    """Of all runs, those that stop with a recommendation that is not within 2 %."""
    return sum(r.stops_early is True for r in runs) / len(runs)


def _minutes(group: Sequence[Run]) -> float:
    return percentile(
        (
            r.minutes[int(r.reached_at) - 1] if math.isfinite(r.reached_at) else math.inf
            for r in group
        ),
        50,
    )


def _launches(values: Iterable[float]) -> str:
    values = list(values)
    told = (percentile(values, q) for q in (50, 90))
    return "/".join(">" if math.isinf(v) else f"{v:g}" for v in told)


def _regret(group: Sequence[Run], look: int) -> str:
    values = [r.regrets[min(look, len(r.regrets)) - 1] for r in group]
    return "/".join(f"{100 * percentile(values, q):.1f}" for q in (50, 90))


def volume_regret(runs: Sequence[Run]) -> float:
    """Median share of the true hypervolume that is missing after 15 launches."""
    return percentile((1 - r.hypervolumes[min(_EARLY, len(r.hypervolumes)) - 1] for r in runs), 50)


def _hv(group: Sequence[Run]) -> str:
    return f"{100 * volume_regret(group):.1f}"


def _missed(runs: Sequence[Run]) -> Iterable[str]:
    """The bars of the default sampler."""
    ours = [r for r in runs if r.sampler == "speculative"]
    for name, (middle, most) in _BARS.items():
        group = [r for r in ours if set_of(r.world) == name]
        if not group:
            continue
        for q, bar in ((50, middle), (90, most)):
            launches = percentile((r.reached_at for r in group), q)
            if launches > bar:
                yield f"{name}: {launches:g} launches to 2 % ({q}th percentile), more than {bar}"
        failed = float(np.mean([sum(r.failed[:_EARLY]) for r in group]))
        if failed > _FAILED_BAR:
            yield f"{name}: {failed:.1f} failed launches in {_EARLY}, more than {_FAILED_BAR:g}"
        yield from _missed_stop(name, group)
        theirs = [r for r in runs if r.sampler == "tpe" and set_of(r.world) == name]
        if theirs and volume_regret(group) > _VOLUME_BAR * volume_regret(theirs):
            yield f"{name}: hypervolume regret above half of tpe's"
    for world in _ordered(r.world for r in ours):
        medians = {
            sampler: percentile(
                (r.reached_at for r in runs if r.world == world and r.sampler == sampler), 50
            )
            for sampler in ("speculative", "tpe")
            if any(r.sampler == sampler and r.world == world for r in runs)
        }
        if medians["speculative"] > medians.get("tpe", math.inf):
            yield f"{world}: tpe needs fewer launches ({medians['tpe']:g})"


def _missed_stop(name: str, group: Sequence[Run]) -> Iterable[str]:
    lags = stop_lags(group)
    if lags and float(np.mean(lags)) > _STOP_LAG_BAR:
        yield f"{name}: stops {np.mean(lags):.1f} launches after 2 %, more than {_STOP_LAG_BAR:g}"
    if early_share(group) > _STOP_EARLY_BAR:
        yield f"{name}: {early_share(group):.0%} stop too early, more than {_STOP_EARLY_BAR:.0%}"


def _ordered(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def plain(result: Result) -> str:
    """The table in columns as wide as they need to be, which no terminal's width cuts."""
    lines = [result.columns, *result.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(result.columns))]
    told = [result.title]
    for line in lines:
        cells = (
            text.rjust(width) if i else text.ljust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        told.append("  ".join(cells))
    return "\n".join([*told, *(f"MISSED  {sentence}" for sentence in result.missed)])
