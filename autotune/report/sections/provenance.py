"""Where the numbers come from: machine, versions, workload, seed, command; no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from autotune.report.html import tag
from autotune.report.section import Section
from autotune.report.subject import Subject
from autotune.study import words
from autotune.study.budget import gpu_hours
from autotune.study.store import masked

_MACHINE = {"gpu": "GPU", "n_gpus": "GPUs", "gpu_memory_gb": "memory of a GPU, GB"}


def section(subject: Subject) -> Section:
    facts = [[tag("dt", name), tag("dd", value)] for name, value in _facts(subject)]
    command = subject.view.command.redacted().shell()
    body = (
        tag("dl", facts),
        tag("h3", "Launch command of the baseline"),
        tag("pre", tag("code", command)),
    )
    return Section("provenance", "Where the numbers come from", "", body)


def _facts(subject: Subject) -> Iterator[tuple[str, str]]:
    view, config = subject.view, subject.view.config
    n_fresh, n_adaptive = len(view.confirm_launches), len(view.adaptive_launches)
    parts = [f"{view.name}, {len(view.records)} launches"]
    parts += [f"{n_fresh} to confirm"] if n_fresh else []
    parts += [f"{n_adaptive} with steps that follow the load"] if n_adaptive else []
    yield "study", words.listed(parts)
    yield "engine", "the simulated server" if view.is_simulated else config.engine
    if config.scenario:
        yield "scenario", str(config.scenario)
    for name, values in _gathered(subject, "machine"):
        if name != "simulated":
            yield _MACHINE.get(name, f"machine: {name.replace('_', ' ')}"), values
    for name, values in _gathered(subject, "versions"):
        yield f"version of {name}", values
    yield "workload", config.workload
    temperatures = {p.temperature for r in view.records for p in r.phases} - {None}
    if temperatures:
        yield "temperature", ", ".join(f"{t:g}" for t in sorted(filter(None, temperatures))) or "0"
    loads = ", ".join(map(str, config.serving_concurrency))
    yield "loads", f"latency at C={config.latency_concurrency}, serving at C={loads}"
    yield "search", f"{config.sampler}, space {config.space}, seed {config.seed}"
    yield "constraints", ", ".join(config.slo) or "none"
    minutes = 60 * gpu_hours(view.records)
    yield "held", f"{minutes:,.0f} {'simulated ' if view.is_simulated else ''}GPU-minutes"
    if config.storage:
        yield "storage", masked(config.storage)
    if config.runs_on:
        yield "servers ran on", config.runs_on


def _gathered(subject: Subject, field: str) -> Iterator[tuple[str, str]]:
    """Each fact of all records, its values in the order in which they first came."""
    found: dict[str, dict[str, None]] = {}
    for record in subject.records:
        document: dict[str, Any] = getattr(record, field)
        for name, value in document.items():
            if isinstance(value, str | int | float):
                found.setdefault(name, {})[str(value)] = None
    for name, values in found.items():
        shown = list(values)[:4]
        yield name, ", ".join(shown) + (" and others" if len(values) > len(shown) else "")
