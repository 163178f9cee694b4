"""Numbers and flags as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from autotune.core.trial import Flags, Interval, TrialRecord
from autotune.space.rules import SHORT_NAMES, TREE_FLAGS
from autotune.study.twins import changes


def short(flag: str) -> str:
    """The column title of a flag."""
    return SHORT_NAMES.get(flag, flag.replace("_", " "))


def value(raw: object) -> str:
    """A flag's value; a number with two decimals where that says all of it."""
    if not isinstance(raw, float):
        return str(raw)
    text = f"{raw:.2f}"
    return text if float(text) == raw else f"{raw:.6g}"


def flags(values: Flags, between: str = " · ") -> str:
    """``steps 4 · topk 1 · draft 5 · mem 0.91``."""
    return between.join(f"{short(name)} {value(raw)}" for name, raw in values.items())


def tree(values: Flags) -> str:
    """``4-1-5 · 0.91``: steps, topk and draft tokens as the field writes them, then the rest."""
    first = "-".join(value(values[name]) for name in TREE_FLAGS if name in values)
    rest = [value(raw) for name, raw in values.items() if name not in TREE_FLAGS]
    return " · ".join(part for part in (first, *rest) if part)


def listed(parts: Iterable[str]) -> str:
    """``a, b and c``."""
    *most, last = list(parts) or [""]
    return f"{', '.join(most)} and {last}" if most else last


def seconds(interval: Interval) -> str:
    return f"{interval.value:.3f} s {spread(interval)}"


def tok_s(interval: Interval) -> str:
    return f"{interval.value:,.0f} tok/s {spread(interval)}"


def spread(interval: Interval) -> str:
    """``± 2 %``: half of the 95 % interval."""
    percent = 100 * interval.half_width_frac
    return f"± {percent:.1f} %" if percent < 1 else f"± {percent:.0f} %"


def gain(percent: float) -> str:
    return f"{'+' if percent >= 0 else '−'} {abs(percent):.1f} %"


def slack(missed: float) -> str:
    """How far from its limit a constraint is, as a share of the limit: ``+`` is to spare."""
    percent = -100 * missed
    digits = 0 if abs(percent) >= 10 else 1
    return f"{'+' if percent >= 0 else '−'} {abs(percent):,.{digits}f} %"


def tightest(constraints: Mapping[str, float]) -> str:
    """``+ 12 % ttft_p95_s<=0.5``: the SLO with the least to spare; empty without any."""
    if not constraints:
        return ""
    slo, missed = max(constraints.items(), key=lambda item: item[1])
    return f"{slack(missed)} {slo}"


def duration(duration_s: float) -> str:
    """``41 s``, ``3 min`` or ``1 h 50 min``."""
    if duration_s < 90:
        return f"{duration_s:.0f} s"
    minutes = round(duration_s / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def clock(duration_s: float) -> str:
    """``0:41``."""
    return f"{int(duration_s) // 60}:{int(duration_s) % 60:02d}"


def note(record: TrialRecord) -> str:
    """The first thing to keep in mind about a trial, and how many more there are."""
    first, *more = cautions(record) or [""]
    return f"{first}, and {len(more)} more" if more else first


def cautions(record: TrialRecord) -> list[str]:
    """What to keep in mind about a trial; queueing at several loads is said once."""
    queues = [p.concurrency for p in record.phases if _queues(record, p.concurrency)]
    parts = [c.text for c in record.warnings if c.code != "concurrency_above_running_limit"]
    if queues:
        loads = listed(f"C={c}" for c in queues)
        limit = record.effective["max_running_requests"]
        verb = "queues" if len(queues) == 1 else "queue"
        parts.insert(0, f"{loads} {verb}: {limit} run{'s' if limit == 1 else ''} at once")
    return parts


def _queues(record: TrialRecord, concurrency: int) -> bool:
    limit = record.effective.get("max_running_requests")
    return isinstance(limit, int) and limit < concurrency


_KINDS = {
    "kv_does_not_fit": "no room for the KV cache",
    "graph_capture_oom": "out of memory in graph capture",
    "runtime_oom": "out of memory while serving",
    "weights_do_not_fit": "the weights do not fit",
    "bad_flag": "the server does not know a flag",
    "gpu_busy": "another process holds the GPU",
}


def same_as(record: TrialRecord) -> str:
    """One line about a trial that was not measured: whose values it has, and why."""
    changed = changes(record.flags, record.effective)
    told = ", ".join(
        f"{short(name)} {value(record.flags[name])} to {value(ran)}"
        for name, ran in changed.items()
    )
    why = f"the server changed {told}" if told else "there the server changed the flags to these"
    return f"same as trial {record.same_as}: {why}"


def failure(record: TrialRecord) -> str:
    """One line about a failed trial: when, what, and what would help."""
    assert record.failure is not None
    kind = str(record.failure.kind)
    if kind == "interrupted":
        return "cut off: these flags are launched again when the study goes on"
    after = duration(record.timings.get("launch_s", 0.0) + record.timings.get("measure_s", 0.0))
    remedy = re.split(r"[;:]", record.failure.remedy)[0]
    return f"failed after {after}: {failure_kind(kind)} · {remedy}"


def pruned(record: TrialRecord) -> str:
    """One line about a trial whose long phases were left out: what it measured, and why."""
    loads = listed(phase.load for phase in record.phases)
    told = ", ".join(seconds(p.turn_latency_s) for p in record.phases if p.role == "latency")
    return f"pruned after {loads}: {told}; {record.pruned}"


def first_of(parts: Sequence[object], n_most: int = 12) -> str:
    """``3, 7, 9``, or the first ones ``and 40 more``."""
    told = ", ".join(map(str, parts[:n_most]))
    return f"{told} and {len(parts) - n_most} more" if len(parts) > n_most else told


def failure_kind(kind: str) -> str:
    """A kind of failure in words."""
    return _KINDS.get(kind, kind.replace("_", " "))


_STAGES = {
    "parse": "reading the flags",
    "load": "loading the weights",
    "pool": "allocating the KV cache",
    "capture": "capturing CUDA graphs",
    "start": "starting",
    "serving": "serving",
    "stop": "stopping",
}


def stage(name: str) -> str:
    """What a server was doing, after ``while``."""
    return _STAGES.get(name, name or "doing something unknown")


def foreign(n_trials: int) -> str:
    """Of trials without a record that is understood; empty where there are none."""
    if not n_trials:
        return ""
    carry = "trial carries" if n_trials == 1 else "trials carry"
    stand = "it stands" if n_trials == 1 else "they stand"
    return f"{n_trials} {carry} no record that autotune understands: {stand} in no table."
