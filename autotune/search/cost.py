"""Cost model: latency at C=1 and throughput under load from a few physical unknowns.

One decode cycle drafts and verifies; what it yields is the accept length. In units of a cycle of
one request with a small draft, and with ``rows = batch * draft``, a cycle costs

* verification: memory time against compute time, joined by a 4-norm (a roofline with a soft knee).
  Memory time grows with the KV cache read (per running request) and, in a mixture of experts, with
  the share of the experts that the rows touch; compute time is linear in the rows;
* drafting: ``steps`` passes, each a small part of a verification, under the same roofline;
* a surcharge for a tree (topk above 1), a part linear in the rows, and a part that grows faster
  than the draft per running request (the recurrent states of hybrid models).

``latency = time to first token + n_ref cycles / accept length`` and ``throughput = batch / (prefill
of the others + cycle / accept length)``. C=1 and load have a scale of their own: what a model gets
wrong about one it need not get wrong about the other.

Each unknown has a broad prior, most of them log-normal. Medians and spreads come from published
figures: a draft step costs 0.07 of a plain decode step (EAGLE-3 heads) to 0.4 and more (models with
few active parameters), from accept length times plain over speculative throughput (GLM-4.7-FP8 in
SGLang issue 23336, Qwen3-30B-A3B in SpecForge issue 339 and AngelSlim issue 163); first choices are
accepted with 0.5 to 0.9, nearly constant in depth (the same, and InferenceX's golden acceptance
tables); rooflines meet at 150 to 420 rows by data sheet (A100, H100, L40S), less as reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.search.acceptance import AcceptTable, Triple

Array = npt.NDArray[np.float64]


class Prior(NamedTuple):
    """Of one unknown: mean and standard deviation on its own (log or logit) scale."""

    mean: float
    sd: float


PRIORS: dict[str, Prior] = {
    # Scales: what one cycle takes at C=1 (times the reference tokens) and under load.
    "log_latency": Prior(0.0, 3.0),
    "log_load": Prior(0.0, 3.0),
    "log_ttft": Prior(-3.0, 1.2),
    # Acceptance: half the contexts are easy, half hard.
    "q_logit": Prior(1.0, 0.9),
    "log_spread": Prior(0.0, 0.5),
    "log_decay": Prior(-3.5, 1.0),
    "rho_logit": Prior(-0.6, 0.6),
    # The cycle.
    "log_roofline_rows": Prior(5.25, 0.6),
    "log_experts": Prior(-1.2, 1.5),
    "log_expert_rows": Prior(5.0, 0.8),
    "log_draft_pass": Prior(-2.5, 0.9),
    "log_tree": Prior(-3.2, 0.8),
    "log_row": Prior(-7.3, 1.0),
    "log_states": Prior(-6.5, 1.2),
    # Under load.
    "log_kv": Prior(-3.7, 1.1),
    "log_prefill": Prior(-4.8, 1.0),
    "log_request_tok": Prior(8.3, 1.3),
}
NAMES = tuple(PRIORS)
INDEX = {name: i for i, name in enumerate(NAMES)}
_MEANS = np.array([prior.mean for prior in PRIORS.values()])
_SDS = np.array([prior.sd for prior in PRIORS.values()])

_TOUCH_POWER = 0.7
"""Rows touch experts as ``1 - exp(-(rows / r) ** 0.7)``: routing is correlated between tokens."""
_STATE_POWER = 2.5
_SHARP = 8.0
"""Norm of the soft minimum that joins concurrency, running limit and KV capacity."""


@dataclass(frozen=True, slots=True)
class Configurations:
    """Speculative settings as arrays of one length; speculation off is steps 0, topk 1, draft 1."""

    steps: Array
    topk: Array
    draft: Array
    table: AcceptTable
    tree: npt.NDArray[np.intp]
    """Place of each configuration in the table."""

    @classmethod
    def of(cls, triples: Sequence[Triple]) -> Configurations:
        unique = sorted(set(triples))
        place = {triple: i for i, triple in enumerate(unique)}
        columns = np.array(triples, dtype=np.float64).reshape(-1, 3).T
        tree = np.array([place[triple] for triple in triples], dtype=np.intp)
        return cls(columns[0], columns[1], columns[2], AcceptTable.of(unique), tree)

    def at(self, index: npt.NDArray[np.intp]) -> Configurations:
        """Some of them."""
        return Configurations(
            self.steps[index], self.topk[index], self.draft[index], self.table, self.tree[index]
        )


@dataclass(frozen=True, slots=True)
class Room:
    """Requests that may run at once and tokens in the KV pool, per configuration; inf: no limit.

    Shapes (configurations,) or (draws, configurations).
    """

    running_limit: Array
    kv_tokens: Array


class Cycle(NamedTuple):
    """Parts of one decode cycle in units of the smallest; shape (draws, configurations) or (1,).

    Attributes:
        verify: a pass of the model over the drafted rows, its two limits joined.
        verify_memory: what it would take if memory alone counted.
        verify_compute: what it would take if arithmetic alone counted.
        draft: the passes of the draft model.
        rows: what every row takes beside.
        tree: the surcharge of a tree.
        states: the recurrent states of a hybrid model.
    """

    verify: Array
    verify_memory: Array
    verify_compute: Array
    draft: Array
    rows: Array
    tree: Array
    states: Array

    @property
    def total(self) -> Array:
        return np.asarray(self.verify + self.draft + self.rows + self.tree + self.states)


class Costs:
    """Predictions for draws of the unknowns ``z`` (standard normal under the prior).

    Args:
        z: shape (draws, unknowns).
        centre: logarithms of the two scales around which the prior stands: (latency, load).
        keeps_states: the model is a hybrid one; others move no states.
    """

    def __init__(
        self,
        z: Array,
        centre: tuple[float, float],
        configurations: Configurations,
        keeps_states: bool = True,
    ) -> None:
        values = _MEANS + _SDS * np.clip(z, -5.0, 5.0)
        values = values + np.array([*centre, *[0.0] * (len(NAMES) - 2)])
        self._log = {name: values[:, i : i + 1] for name, i in INDEX.items()}
        self._of = {name: np.exp(column) for name, column in self._log.items()}
        self._x, self._keeps_states = configurations, keeps_states
        flat = {name: column[:, 0] for name, column in self._log.items()}
        lengths = configurations.table.expected(
            flat["q_logit"], np.exp(flat["log_spread"]), flat["log_decay"], flat["rho_logit"]
        )
        self.log_accept: Array = np.log(lengths)[:, configurations.tree]
        """Shape (draws, configurations)."""

    def log_latency(self) -> Array:
        """Seconds of the reference turn at C=1, shape (draws, configurations)."""
        cycle = self._cycle(np.ones(1)) * np.exp(-self.log_accept)
        return np.asarray(self._log["log_latency"] + np.log(self._of["log_ttft"] + cycle))

    def log_ttft(self) -> Array:
        """Seconds to the first token at C=1, shape (draws, 1)."""
        return np.asarray(self._log["log_latency"] + self._log["log_ttft"])

    def log_throughput(self, concurrency: int, room: Room) -> Array:
        """Tokens per second in all, shape (draws, configurations)."""
        batch = self.batch(concurrency, room)
        token = self._of["log_prefill"] * batch + self._cycle(batch) * np.exp(-self.log_accept)
        return np.asarray(np.log(batch) - self._log["log_load"] - np.log(token))

    def batch(self, concurrency: int, room: Room) -> Array:
        """Requests that decode at once: the least of what is asked, allowed and has memory."""
        by_memory = room.kv_tokens / self._of["log_request_tok"]
        limits = (float(concurrency), room.running_limit, by_memory)
        total = sum(np.maximum(limit, 0.5) ** -_SHARP for limit in limits)
        return np.asarray(total ** (-1.0 / _SHARP))

    def _cycle(self, batch: Array) -> Array:
        """Of one decode cycle, in units of the smallest, shape (draws, configurations)."""
        return self.cycle(batch).total

    def cycle(self, batch: Array) -> Cycle:
        """What one decode cycle is made of when ``batch`` requests decode at once.

        Args:
            batch: shape (1,), (configurations,) or (draws, configurations).
        """
        x, of = self._x, self._of
        on = x.steps > 0
        rows = batch * x.draft
        touched = 1.0 - np.exp(-((rows / of["log_expert_rows"]) ** _TOUCH_POWER))
        memory = 1.0 + of["log_experts"] * touched + of["log_kv"] * (batch - 1.0)
        compute = rows / of["log_roofline_rows"]
        drafting = np.maximum(x.steps - 1.0, 0.0) * _roofline(
            1.0, batch * x.topk / of["log_roofline_rows"]
        )
        extend = on * _roofline(1.0, rows / of["log_roofline_rows"])
        states = np.zeros(1)
        if self._keeps_states:
            states = of["log_states"] * (batch * (x.draft / 3.0) ** _STATE_POWER)
        return Cycle(
            verify=_roofline(memory, compute),
            verify_memory=np.asarray(memory),
            verify_compute=np.asarray(compute),
            draft=np.asarray(of["log_draft_pass"] * (drafting + extend)),
            rows=np.asarray(of["log_row"] * rows),
            tree=np.asarray(of["log_tree"] * (x.topk > 1)),
            states=np.asarray(states),
        )


def _roofline(memory: Array | float, compute: Array) -> Array:
    return np.asarray((memory**4 + compute**4) ** 0.25)


def log_mean_throughput(costs: Costs, concurrencies: Iterable[int], room: Room) -> Array:
    """Logarithm of the geometric mean over the serving concurrencies."""
    each = [costs.log_throughput(concurrency, room) for concurrency in concurrencies]
    return np.asarray(sum(each) / len(each))
