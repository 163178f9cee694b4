"""Draft steps that change while the simulated server runs, as SGLang 0.5.23 changes them.

A batch is padded to the next CUDA graph size and goes to the slot with the largest batch size not
above that. A slot follows the draft tokens that were accepted, smoothed, and every few cycles goes
to a deeper or shallower candidate of its own. Source: speculative/adaptive_spec_params.py @0.5.23
(``AdaptiveStepSlot``, ``AdaptiveSpeculativeParams``).
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from autotune.engine.sglang.adaptive import candidates_of
from autotune.engine.simulated.acceptance import AcceptDistribution
from autotune.engine.simulated.physics import Deployment

_DEFAULT: Mapping[str, Mapping[str, Any]] = {
    "1": {"candidate_steps": [1, 3, 5, 7], "down_hysteresis": -0.25},
    "8": {"candidate_steps": [0, 1, 3], "down_hysteresis": 0.0},
    "32": {"candidate_steps": [0, 1], "down_hysteresis": 0.0},
    "64": {"candidate_steps": [0], "down_hysteresis": 0.0},
}
"""What SGLang uses without a file."""


class Slot:
    """Steps of one range of batch sizes.

    Args:
        initial: of the launch; another one counts as the middle candidate.
        entry: its part of the file, with the settings that stand for all slots.
    """

    def __init__(self, initial: int, entry: Mapping[str, Any]) -> None:
        self.candidates: tuple[int, ...] = tuple(sorted(set(entry["candidate_steps"])))
        self._alpha = float(entry.get("ema_alpha", 0.2))
        self._interval = int(entry.get("update_interval", 5))
        self._warmup = int(entry.get("warmup_batches", 10))
        self._down = float(entry.get("down_hysteresis", -0.25))
        self._up = float(entry.get("up_hysteresis", 0.0))
        middle = self.candidates[len(self.candidates) // 2]
        self.steps = initial if initial in self.candidates else middle
        self._accepted = float(self.steps - 1)
        self._n_cycles = 0

    def learn(self, accepted: Sequence[int]) -> None:
        """Takes the accepted draft tokens of one cycle, one number for each request."""
        if self.steps > 0:
            self._accepted += self._alpha * (fmean(accepted) - self._accepted)
        self._n_cycles += 1
        if self._n_cycles > self._warmup and (self._n_cycles - self._warmup) % self._interval == 0:
            self.steps = self.candidates[self._next(self.candidates.index(self.steps))]

    def _next(self, at: int) -> int:
        """Place of the candidate to go to."""
        known = self.candidates
        if known[at] == 0:  # look what a draft would bring, now and then
            at = min(at + 1, len(known) - 1)
            if known[at] > 0 and self._accepted < 0:
                self._accepted = float(known[at] - 1)
            return at
        began = at
        while at > 0 and self._accepted <= self._floor(known[at - 1]):
            at -= 1
        if at < began:
            return at
        while at < len(known) - 1 and self._accepted > known[at] - 0.5 + self._up:
            at += 1
        return at

    def _floor(self, below: int) -> float:
        """Accepted drafts with which it goes down to the candidate below."""
        return (0.5 if below == 0 else below - 0.5) + self._down


class AdaptiveSteps:
    """The slots of a server.

    Args:
        document: of the file; None: SGLang's own.
        graph_sizes: batch sizes with a CUDA graph, rising.

    Raises:
        ValueError: SGLang refuses the file.
    """

    def __init__(self, document: object, initial: int, graph_sizes: Sequence[int]) -> None:
        entries = candidates_of(_DEFAULT if document is None else document)
        self._slots = {batch: Slot(initial, entry) for batch, entry in entries.items()}
        self._starts = sorted(self._slots)
        self._graph_sizes = tuple(graph_sizes)

    @property
    def candidates(self) -> tuple[int, ...]:
        """Of all slots together."""
        return tuple(sorted({s for slot in self._slots.values() for s in slot.candidates}))

    def slot(self, batch: int) -> Slot:
        """The slot of a batch."""
        place = bisect_left(self._graph_sizes, batch)
        padded = self._graph_sizes[place] if place < len(self._graph_sizes) else batch
        return self._slots[self._starts[max(0, bisect_right(self._starts, padded) - 1)]]

    def largest_graph(self, steps: int) -> int:
        """The largest batch size whose graph is captured for a candidate; 0: it needs none."""
        reach = (size for size in self._graph_sizes if steps in self.slot(size).candidates)
        return max(reach, default=0)


@dataclass(frozen=True, slots=True)
class Gear:
    """A server at one number of steps."""

    deployment: Deployment
    accept: AcceptDistribution


@dataclass(frozen=True, slots=True)
class Gearbox:
    """What the scheduler of a server with changing steps uses in place of one deployment."""

    steps: AdaptiveSteps
    gears: Mapping[int, Gear]

    def at(self, batch: int) -> Gear:
        """The gear of a cycle of so many requests."""
        return self.gears[self.steps.slot(batch).steps]

    def learn(self, batch: int, accepted: Sequence[int]) -> None:
        """Takes the accepted draft tokens of that cycle."""
        self.steps.slot(batch).learn(accepted)


def adapting(deployment: Deployment, steps: AdaptiveSteps) -> Deployment:
    """The deployment with memory for all steps that it may change to."""
    others = (n for n in steps.candidates if n != deployment.speculation.steps)
    return replace(deployment, spares=tuple((n, steps.largest_graph(n)) for n in others))


def gearbox(
    deployment: Deployment, steps: AdaptiveSteps, accepts: Callable[[int], AcceptDistribution]
) -> Gearbox:
    """The gears of an adapting deployment.

    Args:
        accepts: what is accepted with so many steps.
    """
    return Gearbox(steps, {n: Gear(deployment.at_steps(n), accepts(n)) for n in steps.candidates})


def read_document(path: str) -> object:
    """The JSON of a file.

    Raises:
        OSError, ValueError: as SGLang's own ``json.load``.
    """
    document: object = json.loads(Path(path).read_text(encoding="utf-8"))
    return document
