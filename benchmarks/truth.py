"""What the client reports against what the server really did, at several loads.

Both processes stamp with the same monotonic clock, so that even single events can be compared. The
server's own lateness is part of the truth, not an error: only what it did counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np

from autotune.core.trial import Phase
from autotune.measure import Endpoint, PhasePlan, measure_phase
from autotune.measure.metrics import summarize
from autotune.measure.records import RequestRecord
from benchmarks.load import Load
from benchmarks.output import Result, as_command
from benchmarks.script import COUNTS, Sent
from benchmarks.stream_server import StreamServer

_BAR_S, _BAR_FRAC = 1e-3, 0.01
"""Latencies may be off by 1 ms or 1 %, whichever is more."""
_BAR_RATE_FRAC = 0.005
_SESSIONS_APART = 100_000


@dataclass(frozen=True, slots=True)
class Level:
    """A load and how long it is measured.

    Attributes:
        n_requests: requests that end inside the window.
    """

    load: Load
    n_requests: int


class Error(msgspec.Struct, frozen=True):
    """Client minus server, of one latency (seconds).

    Attributes:
        truth_s: median over the requests, by the server.
        headline_s: the phase's median against the server's.
        typical_s: median over the requests of the error of each.
        p99_s: 99th percentile of its size.
    """

    truth_s: float
    headline_s: float
    typical_s: float
    p99_s: float

    @property
    def within_bar(self) -> bool:
        allowed_s = max(_BAR_S, _BAR_FRAC * self.truth_s)
        return max(abs(self.headline_s), abs(self.typical_s)) <= allowed_s


class Comparison(msgspec.Struct, frozen=True):
    """One load level: the client's values against the server's.

    Attributes:
        lockstep: events come C at once.
        events_s: events per second that the server sent in the window.
        delay_p99_s: from the server's send to the client's stamp, over events.
        rate_frac: relative error of the aggregate throughput.
    """

    name: str
    lockstep: bool
    n_requests: int
    events_s: float
    delay_p50_s: float
    delay_p99_s: float
    ttft: Error
    tpot: Error
    e2e: Error
    output_tok_s: float
    rate_frac: float
    server_late_s: float
    client_cpu_frac: float | None


@dataclass(slots=True)
class _Heard:
    """What the phase was made of, and its window."""

    records: Sequence[RequestRecord] = ()
    window: tuple[float, float] = (0.0, 0.0)

    def summarize(self, records: Sequence[RequestRecord], **given: Any) -> Phase:  # noqa: ANN401
        self.records, self.window = records, given["window"]
        return summarize(records, **given)


def compare(server: StreamServer, level: Level, place: int) -> Comparison:
    """Measures one level and holds it against the server's truth."""
    load, heard = level.load, _Heard()
    plan = PhasePlan(
        role="serving",
        concurrency=load.concurrency,
        n_requests=level.n_requests,
        first_session=place * _SESSIONS_APART,
    )
    server.truth()
    with patch("autotune.measure.phase.summarize", heard.summarize):
        phase = measure_phase(
            Endpoint(server.url, "scripted"), load.workload(), plan, check=lambda: None
        )
    truth = server.truth()
    sent = {exchange.number: exchange for exchange in truth.exchanges}
    inside = [
        (record, sent[record.session])
        for record in heard.records
        if record.ok and heard.window[0] < record.done_s <= heard.window[1]
    ]
    assert len(inside) == phase.n_requests
    delays = [
        at_s - real_s
        for record, real in inside
        for (at_s, _), real_s in zip(record.arrivals, real.sent_s, strict=True)
    ]
    n_tok, n_events = _sent_inside(truth.exchanges, heard.window)
    true_rate = n_tok / phase.duration_s
    return Comparison(
        name=f"C={load.concurrency}" + (", in lockstep" if load.lockstep else ""),
        lockstep=load.lockstep,
        n_requests=phase.n_requests,
        events_s=n_events / phase.duration_s,
        delay_p50_s=float(np.percentile(delays, 50)),
        delay_p99_s=float(np.percentile(delays, 99)),
        ttft=_error(phase.ttft_s.value, [(r.ttft_s, _ttft_s(s)) for r, s in inside]),
        tpot=_error(phase.tpot_s.value, [(r.tpot_s or 0.0, _tpot_s(s)) for r, s in inside]),
        e2e=_error(phase.e2e_s.value, [(r.e2e_s, _e2e_s(s)) for r, s in inside]),
        output_tok_s=true_rate,
        rate_frac=phase.output_tok_s.value / true_rate - 1.0,
        server_late_s=truth.late_s,
        client_cpu_frac=phase.client_cpu_frac,
    )


def _ttft_s(sent: Sent) -> float:
    return sent.sent_s[0] - sent.received_s


def _e2e_s(sent: Sent) -> float:
    return sent.sent_s[-1] - sent.received_s


def _tpot_s(sent: Sent) -> float:
    n_tok = COUNTS[len(sent.sent_s) - 1] - COUNTS[0]
    return (sent.sent_s[-1] - sent.sent_s[0]) / n_tok


def _error(headline_s: float, pairs: Sequence[tuple[float, float]]) -> Error:
    """Of ``(client, server)`` for each request."""
    errors = [ours - true for ours, true in pairs]
    truth_s = median(true for _, true in pairs)
    return Error(
        truth_s=truth_s,
        headline_s=headline_s - truth_s,
        typical_s=median(errors),
        p99_s=float(np.percentile(np.abs(errors), 99)),
    )


def _sent_inside(exchanges: Sequence[Sent], window: tuple[float, float]) -> tuple[int, int]:
    """Tokens and events that the server sent inside the window, of whatever request."""
    n_tok = n_events = 0
    for exchange in exchanges:
        before = 0
        for at_s, so_far in zip(exchange.sent_s, COUNTS, strict=False):
            if window[0] < at_s <= window[1]:
                n_tok += so_far - before
                n_events += 1
            before = so_far
    return n_tok, n_events


def levels(quick: bool) -> list[Level]:
    """Up to 5,000 events per second; in lockstep they come C at once, as from a real batch."""
    if quick:
        shape = [(1, 0.004, 40, 8), (16, 0.008, 40, 32), (64, 0.014, 40, 96), (256, 0.05, 20, 256)]
    else:
        shape = [
            (1, 0.004, 90, 24),
            (16, 0.008, 90, 128),
            (64, 0.0135, 90, 384),
            (256, 0.0525, 90, 768),
        ]
    pairs = [(Load(c, 0.03, gap_s, n_events), n) for c, gap_s, n_events, n in shape]
    pairs += [
        (Load(c, 0.03, gap_s, n_events, lockstep=True), n)
        for c, gap_s, n_events, n in shape[2:]
        if not quick
    ]
    return [Level(load, n) for load, n in pairs]


def run(quick: bool) -> Result:
    """Measures every level."""
    with StreamServer() as server:
        found = [compare(server, level, place) for place, level in enumerate(levels(quick))]
    return Result(
        title="Client - server, in ms: median over requests, 99th percentile of size",
        columns=(
            "load",
            "events/s",
            "TTFT (ms)",
            "TPOT (ms)",
            "E2E (ms)",
            "throughput",
            "stamp (ms)",
        ),
        rows=[_row(one) for one in found],
        missed=[sentence for one in found for sentence in _missed(one)],
        values={"truth": [msgspec.to_builtins(one) for one in found]},
    )


def _row(one: Comparison) -> list[str]:
    return [
        one.name,
        f"{one.events_s:,.0f}",
        *(_in_ms(error) for error in (one.ttft, one.tpot, one.e2e)),
        f"{one.rate_frac:+.2%}",
        f"{one.delay_p50_s * 1e3:.2f}, {one.delay_p99_s * 1e3:.2f}",
    ]


def _in_ms(error: Error) -> str:
    return f"{error.typical_s * 1e3:+.3f}, {error.p99_s * 1e3:.3f}"


def _missed(one: Comparison) -> list[str]:
    """What is outside the bars. A burst of C events in one instant is shown and not judged: the
    last of them is read when all others have been.
    """
    if one.lockstep:
        return []
    sentences = [
        f"{one.name}: {name} of {error.truth_s * 1e3:.2f} ms is off by "
        f"{error.headline_s * 1e3:+.3f} ms, of the typical request {error.typical_s * 1e3:+.3f} ms"
        for name, error in (("TTFT", one.ttft), ("TPOT", one.tpot))
        if not error.within_bar
    ]
    if abs(one.rate_frac) > _BAR_RATE_FRAC:
        sentences.append(f"{one.name}: throughput is off by {one.rate_frac:+.2%}")
    return sentences


if __name__ == "__main__":
    as_command(run, "Hold what the client reports against what the server really did.")()
