"""The simulated server without HTTP and without waiting: load played in virtual time.

A minute of a loaded server takes some tens of milliseconds here. The batch scheduler is the one the
HTTP server runs, so both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autotune.engine.simulated.acceptance import AcceptDistribution, accept_distribution
from autotune.engine.simulated.batch import BatchScheduler, Noise, Request
from autotune.engine.simulated.physics import Deployment, Speculation
from autotune.engine.simulated.prefix_cache import Piece
from autotune.engine.simulated.scenarios import Scenario

_TURNAROUND_S = 0.002
"""A client needs a moment to send its next request, which so misses the pass that begins then."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A request by its lengths alone: prompt tokens that no cache holds, and answer tokens."""

    prompt_tok: int
    output_tok: int


@dataclass(frozen=True, slots=True)
class Completed:
    """One request that ended: when it was sent, gave its first token, and its last."""

    sent_s: float
    first_s: float
    last_s: float
    output_tok: int
    n_verify: int

    @property
    def decode_tok_s(self) -> float:
        """Tokens per second from the first token on."""
        return (self.output_tok - 1) / (self.last_s - self.first_s)


@dataclass(frozen=True, slots=True)
class Played:
    """What a load did to a server."""

    requests: tuple[Completed, ...]
    ended_s: float

    @property
    def aggregate_tok_s(self) -> float:
        """Tokens of the whole run over its whole time, ramp and tail included."""
        return sum(r.output_tok for r in self.requests) / self.ended_s

    @property
    def decode_tok_s(self) -> float:
        """Mean speed of one request."""
        return sum(r.decode_tok_s for r in self.requests) / len(self.requests)


def deploy(
    scenario: Scenario,
    speculation: Speculation,
    *,
    mem_fraction: float,
    max_running_requests: int = 48,
) -> tuple[Deployment, AcceptDistribution]:
    """The two pure parts of a simulated server with these launch flags."""
    deployment = Deployment(
        scenario.machine, speculation, mem_fraction, max_running_requests, max_running_requests
    )
    accept = accept_distribution(
        scenario.draft, speculation.steps, speculation.topk, speculation.draft_tokens
    )
    return deployment, accept


def play(
    deployment: Deployment,
    accept: AcceptDistribution,
    shapes: Iterable[Shape],
    concurrency: int,
    *,
    noise: Noise | None = None,
    seed: int = 0,
) -> Played:
    """Plays requests in a closed loop of ``concurrency`` until all have ended."""
    scheduler = BatchScheduler(deployment, accept, noise or Noise(), seed)
    client = _Client(scheduler, iter(shapes))
    for _ in range(concurrency):
        client.send(0.0)
    done: list[Completed] = []
    while True:
        client.deliver()
        played = scheduler.step()
        if played is None:
            if not client.wait():
                break
            continue
        for request, n_tok, finished in played.emissions:
            if request.n_emitted == n_tok:
                client.first_s[request] = played.ends_at_s
            if finished:
                done.append(client.completed(request, played.ends_at_s))
                client.send(played.ends_at_s + _TURNAROUND_S)
    return Played(tuple(done), scheduler.now_s)


class _Client:
    """Sends the next shape whenever one is done."""

    def __init__(self, scheduler: BatchScheduler, shapes: Iterator[Shape]) -> None:
        self._scheduler = scheduler
        self._shapes = shapes
        self._due: list[tuple[float, Request]] = []
        self._sent_s: dict[Request, float] = {}
        self._n_sent = 0
        self.first_s: dict[Request, float] = {}

    def send(self, at_s: float) -> None:
        shape = next(self._shapes, None)
        if shape is not None:
            self._n_sent += 1
            prompt = (Piece(-self._n_sent, shape.prompt_tok),)
            self._due.append((at_s, Request(prompt, shape.output_tok)))

    def deliver(self) -> None:
        """Hands over what is due by now."""
        now_s = self._scheduler.now_s
        for at_s, request in [entry for entry in self._due if entry[0] <= now_s]:
            self._due.remove((at_s, request))
            self._sent_s[request] = at_s
            self._scheduler.submit(request)

    def wait(self) -> bool:
        """Moves an idle server to the next arrival; False when nothing is left."""
        if not self._due:
            return False
        self._scheduler.now_s = max(self._scheduler.now_s, min(at for at, _ in self._due))
        return True

    def completed(self, request: Request, last_s: float) -> Completed:
        sent_s, first_s = self._sent_s.pop(request), self.first_s.pop(request)
        return Completed(sent_s, first_s, last_s, request.n_emitted, request.n_verify)


def steady_throughput(played: Played, concurrency: int) -> float:
    """Output tokens per second between the first and the last turnover of the batch."""
    ends = sorted(r.last_s for r in played.requests)
    begin_s, end_s = ends[concurrency - 1], ends[-concurrency]
    tokens = sum(_tokens_inside(r, begin_s, end_s) for r in played.requests)
    return tokens / (end_s - begin_s)


def _tokens_inside(request: Completed, begin_s: float, end_s: float) -> float:
    """Tokens of a request that fall into a window, at its own even pace."""
    overlap_s = min(request.last_s, end_s) - max(request.first_s, begin_s)
    return request.decode_tok_s * max(0.0, overlap_s)
