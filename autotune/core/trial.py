"""The record of one trial: what was asked, what really ran, what it measured.

``TrialRecord`` is the only thing that goes back up from an engine and a measurement to the
study. It is written as ``record.json`` and stands in the Optuna trial's user attribute
``record``. Times are seconds, lengths are tokens, memory is GB (10^9 bytes, as SGLang prints it).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

import msgspec

SCHEMA = 1

FlagValue = int | float | str | bool
Flags = Mapping[str, FlagValue]
"""Canonical SGLang flags: underscore names without dashes, to typed values."""

Status = Literal["complete", "failed", "infeasible", "pruned"]
"""``pruned``: its first phase showed that the others could change nothing; they were left out."""
Role = Literal["latency", "serving"]
TrialRole = Literal["search", "baseline", "replicate", "reference", "confirm", "adaptive"]
"""Why it was launched. ``reference``: speculation off, outside the searched space, to compare.
``confirm``: a finalist or the baseline once more after the search, on prompts new to it.
``adaptive``: steps that follow the batch, after the search."""
AFTERWARDS: frozenset[TrialRole] = frozenset({"confirm", "adaptive"})
"""Launches after the search: no model learns from them, and they stand in no ranking."""


class FailureKind(StrEnum):
    """Why a trial carries no value."""

    BAD_FLAG = "bad_flag"
    REJECTED_COMBINATION = "rejected_combination"
    WEIGHTS_DO_NOT_FIT = "weights_do_not_fit"
    KV_DOES_NOT_FIT = "kv_does_not_fit"
    GRAPH_CAPTURE_OOM = "graph_capture_oom"
    RUNTIME_OOM = "runtime_oom"
    REQUEST_ABORTED = "request_aborted"
    GPU_BUSY = "gpu_busy"
    PORT_IN_USE = "port_in_use"
    MODEL_MISSING = "model_missing"
    DRAFT_MISMATCH = "draft_mismatch"
    NCCL = "nccl"
    WATCHDOG = "watchdog"
    HANG = "hang"
    READY_TIMEOUT = "ready_timeout"
    CRASHED = "crashed"
    CLIENT_SATURATED = "client_saturated"
    TOO_NOISY = "too_noisy"
    INTERRUPTED = "interrupted"


class Policy(StrEnum):
    """What a study does after a failure."""

    LEARN = "learn"
    RETRY_ONCE = "retry_once"
    STOP = "stop"
    LAUNCH_AGAIN = "launch_again"


POLICIES: Mapping[FailureKind, Policy] = {
    FailureKind.BAD_FLAG: Policy.LEARN,
    FailureKind.REJECTED_COMBINATION: Policy.LEARN,
    FailureKind.WEIGHTS_DO_NOT_FIT: Policy.LEARN,
    FailureKind.KV_DOES_NOT_FIT: Policy.LEARN,
    FailureKind.GRAPH_CAPTURE_OOM: Policy.LEARN,
    FailureKind.RUNTIME_OOM: Policy.LEARN,
    FailureKind.REQUEST_ABORTED: Policy.LEARN,
    FailureKind.READY_TIMEOUT: Policy.LEARN,
    FailureKind.CLIENT_SATURATED: Policy.LEARN,
    FailureKind.TOO_NOISY: Policy.LEARN,
    FailureKind.GPU_BUSY: Policy.RETRY_ONCE,
    FailureKind.PORT_IN_USE: Policy.RETRY_ONCE,
    FailureKind.NCCL: Policy.RETRY_ONCE,
    FailureKind.WATCHDOG: Policy.RETRY_ONCE,
    FailureKind.HANG: Policy.RETRY_ONCE,
    FailureKind.CRASHED: Policy.RETRY_ONCE,
    FailureKind.MODEL_MISSING: Policy.STOP,
    FailureKind.DRAFT_MISMATCH: Policy.STOP,
    FailureKind.INTERRUPTED: Policy.LAUNCH_AGAIN,
}
"""What a study does with each kind. A baseline that fails, whatever the kind, ends the study too:
after its retry, if it has one. An interrupted launch said nothing and is simply made again."""

RETRIED_ONCE = frozenset(k for k, policy in POLICIES.items() if policy is Policy.RETRY_ONCE)
"""Failures that say little about the flags: the same launch may well work a second time."""

HOPELESS = frozenset(k for k, policy in POLICIES.items() if policy is Policy.STOP)
"""Failures that no flag of a search can mend: every further launch would end the same way."""


class Interval(msgspec.Struct, frozen=True):
    """A value with its 95 % interval, ``low <= value <= high``, all in the unit of the field."""

    value: float
    low: float
    high: float

    @property
    def half_width_frac(self) -> float:
        """Half the interval as a fraction of the value; 0 where the value is 0."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else 0.0


class Bound(msgspec.Struct, frozen=True):
    """A limit that the server itself told for a flag, with the other flags as they were.

    Attributes:
        flag: its canonical name.
        side: ``at_least``: smaller values fail; ``at_most``: larger values fail.
    """

    flag: str
    side: Literal["at_least", "at_most"]
    value: float

    def __str__(self) -> str:
        return f"{self.flag} {'≥' if self.side == 'at_least' else '≤'} {self.value:g}"


class Failure(msgspec.Struct, frozen=True):
    """Why nothing was measured.

    Attributes:
        kind: one of ``FailureKind``.
        stage: ``parse``, ``load``, ``pool``, ``capture``, ``start``, ``serving`` or ``stop``.
        evidence: the line of the server log (or of the client) that shows it.
        remedy: what to change, in words.
        bound: the limit in numbers, where the log tells one.
    """

    kind: FailureKind
    stage: str
    evidence: str
    remedy: str
    bound: Bound | None = None


class Caveat(msgspec.Struct, frozen=True):
    """A reason to read a number with care; ``code`` is stable, the rest is for people.

    Attributes:
        text: what was seen, and where.
        remedy: what to do about it, in words; empty where nothing needs to be done.
    """

    code: str
    text: str
    remedy: str = ""


def load_name(concurrency: int, rate_req_s: float | None, replay: bool) -> str:
    """``C=16``, ``2.5 req/s`` or ``replay``."""
    if rate_req_s is not None:
        return f"{rate_req_s:g} req/s"
    return "replay" if replay else f"C={concurrency}"


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One load level on one launch.

    Attributes:
        concurrency: requests in flight (closed loop); of an open loop, their mean, rounded.
        n_requests: requests that ended inside the steady window and carry these values.
        duration_s: length of the steady window.
        ttft_s: time to the first token, median over requests.
        tpot_s: time per output token after the first event of a request, median over requests.
        itl_s: gap between tokens, mean over all tokens: an event of n tokens counts n times a nth
            of the gap before it.
        chunk_gap_s: gap between two events, whatever they carry, mean over events.
        turn_latency_s: ``TTFT + TPOT * n_ref``, median over requests.
        decode_tok_s: tokens per second of one request after its first event, mean over requests.
        output_tok_s: aggregate output throughput in the steady window.
        input_tok_s: prompt tokens whose first answer token came inside the window, per second.
        output_run_tok_s: as ``output_tok_s``, over the whole run, ramp and tail included: what
            tools report that cut no window.
        input_run_tok_s: as ``input_tok_s``, over the whole run.
        goodput_req_s: requests per second that kept every given limit; None without limits.
        good_frac: their share.
        accept_length: tokens per verify pass, the target's own included; None without speculation.
        accept_length_interval: the same with its interval over requests.
        accept_histogram: share of the verify passes that accepted 0, 1, 2, … draft tokens; empty
            where the server does not tell.
        in_flight_mean: requests in flight, averaged over the steady window.
        rate_req_s: offered rate of an open loop; None for a closed loop and a replay.
        replay: open loop at the arrival times of the workload.
        gaps: the pauses of the sessions were waited.
        workload: its name.
        cache_hit_frac: prompt tokens that the prefix cache held; None where the server is silent.
        cache_first_frac: the same of the first request of each session only, warm-up included.
        queue_s: time in the server's queue; None where it does not tell.
        waiting_mean: requests in the server's queue, averaged over looks; None where not told.
        kv_used_frac: share of the KV pool that running requests held, averaged over looks; None
            where not told.
        foreign_mean: requests on the server that are not ours; None where not told.
        n_aborted: requests the server itself ended.
        n_retractions: times it threw a request out of its batch; None where not told.
        n_sent: all requests sent in this phase, those before and after the window included.
        n_repeated: those of them whose prompt had been sent before.
        client_cpu_frac: share of one core that the client itself used.
        client_lag_s: 99th percentile of the delay of the client's event loop (wall seconds).
        loop_frac: share of the answers that repeat themselves; None where all are too short.
        drift_frac: second half of the window against the first, of the headline value; None where
            noise explains it.
        temperature: of sampling.
        percentiles: metric name to ``{"p50": ..., "p90": ..., "p95": ..., "p99": ...}``.
        quantiles: of TTFT, TPOT and turn latency over requests: 21 values at 0 %, 5 %, … 100 %;
            empty in records of older versions.
    """

    role: Role
    concurrency: int
    n_requests: int
    n_failed: int
    duration_s: float
    ttft_s: Interval
    tpot_s: Interval
    e2e_s: Interval
    turn_latency_s: Interval
    decode_tok_s: Interval
    output_tok_s: Interval
    accept_length: float | None
    in_flight_mean: float
    itl_s: Interval | None = None
    chunk_gap_s: Interval | None = None
    input_tok_s: Interval | None = None
    output_run_tok_s: Interval | None = None
    input_run_tok_s: Interval | None = None
    goodput_req_s: Interval | None = None
    good_frac: Interval | None = None
    accept_length_interval: Interval | None = None
    accept_histogram: tuple[float, ...] = ()
    rate_req_s: float | None = None
    replay: bool = False
    gaps: bool = False
    workload: str = ""
    cache_hit_frac: float | None = None
    cache_first_frac: float | None = None
    queue_s: Interval | None = None
    waiting_mean: float | None = None
    kv_used_frac: float | None = None
    foreign_mean: float | None = None
    n_aborted: int = 0
    n_retractions: int | None = None
    n_sent: int = 0
    n_repeated: int = 0
    client_cpu_frac: float | None = None
    client_lag_s: float | None = None
    loop_frac: float | None = None
    drift_frac: float | None = None
    temperature: float | None = None
    first_error: str = ""
    percentiles: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)
    quantiles: dict[str, tuple[float, ...]] = msgspec.field(default_factory=dict)

    @property
    def open_loop(self) -> bool:
        """Whether requests were due at moments of their own, whatever the server did."""
        return self.rate_req_s is not None or self.replay

    @property
    def load(self) -> str:
        """Its load in a few letters; see ``load_name``."""
        return load_name(self.concurrency, self.rate_req_s, self.replay)

    @property
    def headline(self) -> Interval:
        """The value it is measured for: the throughput at a constant load, else the turn latency.

        The throughput of an open loop is that of its arrivals.
        """
        is_serving = self.role == "serving" and not self.open_loop
        return self.output_tok_s if is_serving else self.turn_latency_s


class TrialRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One trial, schema version 1. A failed trial has a ``failure`` and no objective value.

    Attributes:
        pruned: why its later phases were left out, in words; empty where they were not. It has no
            objective value then, and keeps the phases that were measured.
        same_as: the trial that measured the same server under other flags; then nothing was
            measured here, the values are that trial's, and ``status`` and ``constraints`` too.
    """

    schema: int = SCHEMA
    number: int
    status: Status
    flags: dict[str, FlagValue]
    effective: dict[str, Any] = msgspec.field(default_factory=dict)
    phases: list[Phase] = msgspec.field(default_factory=list)
    objectives: dict[str, Interval] | None = None
    constraints: dict[str, float] = msgspec.field(default_factory=dict)
    failure: Failure | None = None
    warnings: list[Caveat] = msgspec.field(default_factory=list)
    timings: dict[str, float] = msgspec.field(default_factory=dict)
    machine: dict[str, Any] = msgspec.field(default_factory=dict)
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    role: TrialRole = "search"
    same_as: int | None = None
    pruned: str = ""

    @property
    def is_interrupted(self) -> bool:
        """Whether it was cut off, so that it teaches nothing about its flags."""
        return self.failure is not None and self.failure.kind is FailureKind.INTERRUPTED

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, as stored in the Optuna user attribute ``record``."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def to_json(self) -> bytes:
        """Indented JSON, as stored in ``record.json``."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"


def record_from(raw: object) -> TrialRecord | None:
    """The record in a JSON value; None where it is no record of a schema this version reads.

    A study may hold foreign trials (another tool, a newer schema): they are skipped, never fatal.
    """
    try:
        record = msgspec.convert(raw, TrialRecord)
    except msgspec.ValidationError:
        return None
    return record if record.schema == SCHEMA else None


def record_from_json(data: bytes) -> TrialRecord | None:
    """As ``record_from``, from the bytes of a ``record.json``."""
    try:
        return record_from(msgspec.json.decode(data))
    except msgspec.DecodeError:
        return None
