"""Continuous batching in virtual time: admission, prefill, decode, retraction.

``BatchScheduler`` is a discrete-event model. It knows no clock: each ``step`` is one pass of the
GPU that starts at ``now_s`` and says when it ends and which tokens it yields. The HTTP server plays
the passes in real time; ``virtual`` plays them as fast as Python goes. Both get the same numbers.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from autotune.engine.simulated.acceptance import AcceptDistribution
from autotune.engine.simulated.adaptive import Gear, Gearbox
from autotune.engine.simulated.physics import Deployment
from autotune.engine.simulated.prefix_cache import Piece, PrefixCache

CHUNKED_PREFILL_TOK = 8192


@dataclass(frozen=True, slots=True)
class Noise:
    """How far a launch and a moment stray from the model. Relative standard deviations.

    Attributes:
        launch: one factor for the whole launch.
        drift: slow wandering while the server runs.
        drift_s: time over which the wandering forgets itself.
        outlier: probability of a slow launch, 8 to 35 % below its speed.
        crash: probability that a launch dies for no reason that the flags explain.
        slow_down: by which fraction every pass takes longer from ``slow_down_after_s`` on: heat.
    """

    launch: float = 0.0
    drift: float = 0.0
    drift_s: float = 20.0
    outlier: float = 0.0
    crash: float = 0.0
    slow_down: float = 0.0
    slow_down_after_s: float = 0.0


@dataclass(eq=False, slots=True)
class Request:
    """One request in the server.

    Attributes:
        prompt: pieces of the prompt, for the prefix cache.
        output_tok: tokens the answer will have.
        answer: pieces of the finished answer, kept in the cache for the next turn.
    """

    prompt: Sequence[Piece]
    output_tok: int
    answer: Sequence[Piece] = ()
    n_emitted: int = 0
    n_verify: int = 0
    cached_tok: int = 0
    n_retractions: int = 0
    aborted: bool = False
    accept_histogram: list[int] = field(default_factory=list)
    _locked: list[int] = field(default_factory=list)
    _held_tok: int = 0

    @property
    def prompt_tok(self) -> int:
        return sum(piece.n_tok for piece in self.prompt)


class Emission(NamedTuple):
    """Tokens that one pass yielded for one request."""

    request: Request
    n_tok: int
    finished: bool


class Pass(NamedTuple):
    """One pass of the GPU: when it ends, and what comes out of it."""

    ends_at_s: float
    emissions: list[Emission]


class BatchScheduler:
    """The scheduler of one simulated server, in virtual seconds since it became ready.

    Args:
        gearbox: of a server whose draft steps change with its batch; None: they stay.
    """

    def __init__(
        self,
        deployment: Deployment,
        accept: AcceptDistribution,
        noise: Noise,
        seed: int,
        gearbox: Gearbox | None = None,
    ) -> None:
        self.deployment = deployment
        self._gearbox = gearbox
        self.cache = PrefixCache(deployment.kv_pool_tok)
        self.queue: deque[Request] = deque()
        self.running: list[Request] = []
        self.now_s = 0.0
        self.n_retractions = 0
        self.n_cycles = 0
        self.n_accepted = 0
        self._accept = accept
        self._noise = noise
        self._random = Random(seed)
        self._launch_factor = self._draw_launch_factor()
        self._drift = 0.0
        self._drift_at_s = 0.0

    @property
    def is_idle(self) -> bool:
        return not self.queue and not self.running

    def submit(self, request: Request) -> None:
        self.queue.append(request)

    def abort(self, request: Request) -> None:
        """Takes a request out; its tokens so far stay counted."""
        request.aborted = True
        if request in self.running:
            self._leave(request)
        elif request in self.queue:
            self.queue.remove(request)

    def step(self) -> Pass | None:
        """Plays one pass from ``now_s`` and moves ``now_s`` to its end; None when idle."""
        admitted = self._admit()
        if admitted:
            return self._prefill(admitted)
        if self.running:
            return self._decode()
        return None

    # ---- admission and prefill ----------------------------------------------------------------

    def _admit(self) -> list[Request]:
        admitted: list[Request] = []
        budget_tok = CHUNKED_PREFILL_TOK
        limit = self.deployment.running_limit
        while self.queue and len(self.running) + len(admitted) < limit and budget_tok > 0:
            request = self.queue[0]
            if not self._take_room(request):
                break
            admitted.append(self.queue.popleft())
            budget_tok -= request.prompt_tok - request.cached_tok
        return admitted

    def _take_room(self, request: Request) -> bool:
        """Locks the cached prefix and reserves the rest; the answer grows as it comes."""
        keys, cached_tok = self.cache.match(request.prompt, self.now_s)
        cached_tok = min(cached_tok, request.prompt_tok - 1)  # the last token is always computed
        self.cache.lock(keys)
        need_tok = request.prompt_tok - cached_tok + request.n_emitted
        need_tok += self.deployment.reserved_tok
        if not self.cache.reserve(need_tok):
            self.cache.unlock(keys)
            return False
        request.cached_tok = cached_tok
        request._locked, request._held_tok = keys, need_tok
        return True

    def _prefill(self, admitted: list[Request]) -> Pass:
        new_tok = sum(r.prompt_tok - r.cached_tok + r.n_emitted for r in admitted)
        cached_tok = sum(r.cached_tok for r in admitted)
        self._advance(self.deployment.prefill_s(new_tok, cached_tok))
        self.running.extend(admitted)
        return Pass(self.now_s, [self._emit(request, 1) for request in admitted])

    # ---- decode -------------------------------------------------------------------------------

    def _decode(self) -> Pass:
        self._retract_until_room()
        context_tok = sum(r.prompt_tok + r.n_emitted for r in self.running)
        batch, gears = len(self.running), self._gearbox
        gear = gears.at(batch) if gears else Gear(self.deployment, self._accept)
        self._advance(gear.deployment.cycle_s(batch, context_tok))
        emissions, drafts = [], []
        for request in tuple(self.running):
            accepted = gear.accept.draw(self._random.random())
            drafts.append(accepted - 1)
            request.n_verify += 1
            request.accept_histogram.append(accepted)
            self.n_cycles += 1
            self.n_accepted += accepted
            n_tok = min(accepted, request.output_tok - request.n_emitted)
            if self.cache.reserve(n_tok):  # only a lone request larger than the pool gets no room
                request._held_tok += n_tok
            emissions.append(self._emit(request, n_tok))
        if gears:
            gears.learn(batch, drafts)
        return Pass(self.now_s, emissions)

    def _retract_until_room(self) -> None:
        """Sends the newest requests back to the queue while the pool cannot hold one more cycle."""
        deepest = max((steps for steps, _ in self.deployment.spares), default=0)
        longest = max(self.deployment.speculation.steps, deepest) + 1
        while len(self.running) > 1:
            need_tok = longest * len(self.running)
            if self.cache.reserve(need_tok):
                self.cache.release(need_tok)
                return
            request = self.running[-1]
            self._leave(request)
            request.n_retractions += 1
            self.n_retractions += 1
            self.queue.appendleft(request)

    def _emit(self, request: Request, n_tok: int) -> Emission:
        request.n_emitted += n_tok
        finished = request.n_emitted >= request.output_tok
        if finished:
            self._leave(request)
            self.cache.insert((*request.prompt, *request.answer), self.now_s)
        return Emission(request, n_tok, finished)

    def _leave(self, request: Request) -> None:
        self.running.remove(request)
        self.cache.unlock(request._locked)
        self.cache.release(request._held_tok)
        request._locked, request._held_tok = [], 0

    # ---- time ---------------------------------------------------------------------------------

    def _advance(self, duration_s: float) -> None:
        is_hot = self.now_s >= self._noise.slow_down_after_s
        heat = 1.0 + self._noise.slow_down if is_hot else 1.0
        self.now_s += duration_s * heat * self._launch_factor * (1.0 + self._drift_now())

    def _drift_now(self) -> float:
        """An Ornstein-Uhlenbeck process, moved on to ``now_s``."""
        if not self._noise.drift:
            return 0.0
        keep = math.exp(-(self.now_s - self._drift_at_s) / self._noise.drift_s)
        shock = self._random.gauss(0.0, self._noise.drift)
        self._drift = keep * self._drift + math.sqrt(1.0 - keep * keep) * shock
        self._drift_at_s = self.now_s
        return self._drift

    def _draw_launch_factor(self) -> float:
        factor = math.exp(self._random.gauss(0.0, self._noise.launch))
        if self._random.random() < self._noise.outlier:
            factor /= 1.0 - self._random.uniform(0.08, 0.35)
        return factor
