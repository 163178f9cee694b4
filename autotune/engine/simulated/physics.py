"""The performance model: how long one pass of a simulated server takes, and what fits in memory.

Pure functions of a ``Machine`` and a ``Speculation``: no clock, no random number, no I/O. Times are
seconds; sizes are GB (10^9 bytes) per GPU; all GPUs of a tensor-parallel group are alike.

The laws are ours; what they are fitted to is published: the hand sweep that started the project,
step-cost ratios, memory rules of SGLang 0.5.x. In short:

* A pass over ``n`` token rows takes the 4-norm of its memory time (weights touched + KV read) and
  its compute time, plus a fixed part. In a mixture of experts ``n`` rows touch the share
  ``1 - (1 - active/experts) ** (n ** gamma)`` of the expert weights.
* A speculative cycle is one verify pass over ``batch * draft_tokens`` rows, ``steps - 1`` passes
  of the draft layer over ``batch * topk`` rows, and one draft-extend over ``batch * draft_tokens``.
* Hybrid (state-space) targets keep one recurrent state per draft position and per ancestor it can
  roll back to. That memory grows with ``draft_tokens ** p`` (p about 2): it lowers the running
  limit (measured 26 at 2 draft tokens, 14 at 5), and moving it costs time under load. A model
  without this second effect misses the sweep's fall from 3 to 4 steps at 16 requests.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace

GRAPH_BATCH_SIZES = (
    *range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, 513, 16),
)  # fmt: skip
"""Batch sizes for which SGLang captures CUDA graphs under speculation (0.5.x ladder)."""

EAGER_SLOWDOWN = 2.2
"""A batch above the largest captured size runs without a graph: about this much slower."""


@dataclass(frozen=True, slots=True)
class StateCapacity:
    """Running limit of a hybrid model: ``at_zero - per_draft * draft ** power`` requests at
    fraction ``at_fraction``, plus ``per_gb`` requests for each GB more in the static pool.

    That law is measured up to 6 draft tokens and falls below zero soon after. ``tail`` requests
    times GB per draft token, for each GB of the pool, keep it from there: memory divided by the
    states of one request.
    """

    at_zero: float
    per_draft: float
    power: float
    at_fraction: float
    per_gb: float
    tail: float
    move_ms: float
    """Milliseconds per cycle to move the states of one request at one draft token."""
    move_power: float
    """How that grows with the draft tokens: each state is written, and read by its successors."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A model on GPUs, per GPU where a size or a speed is meant."""

    gpu: str
    n_gpus: int
    gpu_memory_gb: float
    weights_gb: float
    bandwidth_tb_s: float
    compute_tflops: float
    dense_params_b: float
    """Parameters read in every pass, in 10^9, over all GPUs."""
    draft_params_b: float
    """Parameters of one draft pass (layer and output head), in 10^9, over all GPUs."""
    kv_kb_per_token: float
    """KV cache of one token, target and draft, in kB per GPU."""
    bytes_per_param: float = 2.0
    expert_params_b: float = 0.0
    n_experts: int = 1
    n_active_experts: int = 1
    touch_power: float = 0.70
    verify_fixed_ms: float = 5.0
    draft_fixed_ms: float = 0.3
    overhead_ms: float = 1.0
    tree_penalty_ms: float = 1.5
    prefill_fixed_ms: float = 20.0
    activations_gb: float = 2.0
    graph_mb_per_row: float = 6.0
    context_tok: int = 32768
    state: StateCapacity | None = None

    @property
    def active_params_b(self) -> float:
        """Parameters that one token passes through, in 10^9."""
        return self.dense_params_b + self.expert_params_b * self.n_active_experts / self.n_experts

    def touched_gb(self, n_rows: float) -> float:
        """Weights read by a pass over ``n_rows`` token rows, GB per GPU."""
        untouched = 1.0 - self.n_active_experts / self.n_experts
        share = 1.0 - float(untouched ** (n_rows**self.touch_power))
        params = self.dense_params_b + self.expert_params_b * share
        return params * self.bytes_per_param / self.n_gpus

    def rows_s(self, gb: float, params_b: float, n_rows: float) -> float:
        """Seconds to read ``gb`` and to compute ``n_rows`` rows of ``params_b`` parameters."""
        memory_s = gb / (self.bandwidth_tb_s * 1e3)
        compute_s = 2.0 * params_b * n_rows / (self.compute_tflops * 1e3 * self.n_gpus)
        return float((memory_s**4 + compute_s**4) ** 0.25)


@dataclass(frozen=True, slots=True)
class Speculation:
    """What the launch flags ask for. ``steps == 0`` is no speculation: one token a pass."""

    steps: int
    topk: int
    draft_tokens: int

    @property
    def is_on(self) -> bool:
        return self.steps > 0

    @property
    def largest_tree(self) -> int:
        """Largest ``draft_tokens`` that the draft loop scores candidates for.

        ``1 + topk + (steps - 1) * topk**2``; above it ``torch.topk`` raises at graph capture.
        """
        return 1 + self.topk + (self.steps - 1) * self.topk**2


NO_SPECULATION = Speculation(0, 1, 1)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A machine with launch flags: everything the laws need.

    Attributes:
        spares: other steps that an adaptive server changes to while it runs, each with the largest
            batch size that it has a graph for. Memory is set aside for the deepest of all.
    """

    machine: Machine
    speculation: Speculation
    mem_fraction: float
    max_running_requests: int
    graph_max_batch: int
    spares: tuple[tuple[int, int], ...] = ()
    _captured: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        sizes = tuple(size for size in GRAPH_BATCH_SIZES if size <= self.graph_max_batch)
        object.__setattr__(self, "_captured", sizes)

    # ---- time ---------------------------------------------------------------------------------

    def cycle_s(self, batch: int, context_tok: float) -> float:
        """Seconds of one decode cycle of ``batch`` requests that hold ``context_tok`` tokens."""
        m, spec = self.machine, self.speculation
        place = bisect_left(self._captured, batch)
        padded = self._captured[place] if place < len(self._captured) else batch
        rows = padded * spec.draft_tokens
        kv_gb = context_tok * m.kv_kb_per_token / 1e6
        verify_gb = m.touched_gb(batch * spec.draft_tokens) + kv_gb
        busy_s = m.rows_s(verify_gb, m.active_params_b, 16 * math.ceil(rows / 16))
        fixed_ms = m.verify_fixed_ms + m.overhead_ms
        if spec.is_on:
            busy_s += (spec.steps - 1) * self._draft_pass_s(padded * spec.topk)
            busy_s += self._draft_pass_s(rows)
            fixed_ms += m.tree_penalty_ms if spec.topk > 1 else 0.0
        elif self.spares:  # drafting may go on later, so the draft model is kept up to date
            busy_s += self._draft_pass_s(rows)
        if m.state is not None:
            fixed_ms += m.state.move_ms * batch * float(spec.draft_tokens**m.state.move_power)
        total_s = busy_s + fixed_ms / 1e3
        return total_s * EAGER_SLOWDOWN if place == len(self._captured) else total_s

    def prefill_s(self, new_tok: int, cached_tok: int = 0) -> float:
        """Seconds of one prefill pass over ``new_tok`` tokens beside ``cached_tok`` reused ones."""
        m = self.machine
        gb = m.touched_gb(new_tok) + cached_tok * m.kv_kb_per_token / 1e6
        return m.rows_s(gb, m.active_params_b, new_tok) + m.prefill_fixed_ms / 1e3

    def _draft_pass_s(self, n_rows: int) -> float:
        m = self.machine
        gb = m.draft_params_b * m.bytes_per_param / m.n_gpus
        return m.rows_s(gb, m.draft_params_b, n_rows) + m.draft_fixed_ms / 1e3

    def at_steps(self, steps: int) -> Deployment:
        """The same server while it drafts so many steps."""
        speculation = Speculation(steps, 1, steps + 1) if steps else NO_SPECULATION
        return replace(self, speculation=speculation)

    # ---- memory -------------------------------------------------------------------------------

    @property
    def deepest_draft(self) -> int:
        """Draft tokens that memory is set aside for."""
        return max(self.speculation.draft_tokens, *(steps + 1 for steps, _ in self.spares), 1)

    @property
    def kv_pool_gb(self) -> float:
        """What the static fraction leaves after the weights, GB per GPU; negative: nothing fits."""
        m = self.machine
        return self.mem_fraction * m.gpu_memory_gb - m.weights_gb

    @property
    def kv_pool_tok(self) -> int:
        """Tokens in the KV pool."""
        return max(0, int(self.kv_pool_gb * 1e6 / self.machine.kv_kb_per_token))

    @property
    def running_limit(self) -> int:
        """Requests that may decode at once; 0 where not even one state fits."""
        state = self.machine.state
        if state is None:
            return self.max_running_requests
        extra_gb = (self.mem_fraction - state.at_fraction) * self.machine.gpu_memory_gb
        draft = self.deepest_draft
        taken = state.per_draft * float(draft**state.power)
        fitted = state.at_zero - taken + state.per_gb * extra_gb
        slots = max(fitted, state.tail * self.kv_pool_gb / draft)
        return max(0, min(self.max_running_requests, round(slots)))

    @property
    def reserved_tok(self) -> int:
        """KV slots one running request reserves for drafting: twice max(topk * steps, draft).

        The factor two is the overlap scheduler's (SGLang >= 0.5.13, ``mem_cache/common.py``).
        """
        spec = self.speculation
        drafts = spec.is_on or bool(self.spares)
        return 2 * max(spec.topk * spec.steps, self.deepest_draft) if drafts else 0

    def mean_running(self, concurrency: int, context_tok: int) -> float:
        """Requests that decode at once under constant load, on average.

        Where memory decides it is no whole number: requests hold more and fewer tokens than
        ``context_tok``, so that one more fits at some times than at others.
        """
        by_memory = self.kv_pool_tok / max(1, context_tok + self.reserved_tok)
        return max(1.0, min(float(concurrency), float(self.running_limit), by_memory))

    @property
    def free_after_capture_gb(self) -> float:
        """Memory left once graphs are captured, GB per GPU; negative: capture runs out."""
        m = self.machine
        outside_gb = (1.0 - self.mem_fraction) * m.gpu_memory_gb
        graph_rows = self.graph_max_batch * self.speculation.draft_tokens
        graph_rows += sum(batch * (steps + 1) for steps, batch in self.spares)
        return outside_gb - m.activations_gb - m.graph_mb_per_row * graph_rows / 1e3


@dataclass(frozen=True, slots=True)
class SteadyState:
    """Expected values under constant load.

    ``output_tok_s`` is the aggregate; ``decode_tok_s`` is one request from its first token on;
    ``ttft_s`` counts the wait for prefill but not a queue above the running limit.
    """

    n_running: float
    ttft_s: float
    decode_tok_s: float
    output_tok_s: float


def steady_state(
    deployment: Deployment,
    concurrency: int,
    accept_length: float,
    *,
    new_tok: int,
    output_tok: int,
    context_tok: int,
) -> SteadyState:
    """Expected throughput and speed in closed form, ``mean_running`` requests decoding at once.

    Args:
        deployment: machine and flags.
        concurrency: requests in flight, closed loop.
        accept_length: mean tokens per verify pass.
        new_tok: prompt tokens per request that no cache holds.
        output_tok: answer length.
        context_tok: tokens a running request holds on average.
    """

    def running(n_running: int) -> SteadyState:
        return steady_running(
            deployment,
            n_running,
            accept_length,
            new_tok=new_tok,
            output_tok=output_tok,
            context_tok=context_tok,
        )

    return between(running, deployment.mean_running(concurrency, context_tok))


def between(running: Callable[[int], SteadyState], n_running: float) -> SteadyState:
    """With ``n_running`` requests on average: the two whole numbers around it in turn."""
    fewer = math.floor(n_running)
    share = n_running - fewer
    if not share:
        return running(fewer)
    low, high = running(fewer), running(fewer + 1)

    def mean(at: float, above: float) -> float:
        return at + share * (above - at)

    return SteadyState(
        n_running=n_running,
        ttft_s=mean(low.ttft_s, high.ttft_s),
        decode_tok_s=mean(low.decode_tok_s, high.decode_tok_s),
        output_tok_s=mean(low.output_tok_s, high.output_tok_s),
    )


def steady_running(
    deployment: Deployment,
    n_running: int,
    accept_length: float,
    *,
    new_tok: int,
    output_tok: int,
    context_tok: int,
) -> SteadyState:
    """``steady_state`` while so many requests decode at once.

    While one request lives, each of the requests beside it is prefilled once and holds everybody
    up for that pass; the rest of its time are ``output_tok / accept_length`` decode cycles.
    """
    prefill_s = deployment.prefill_s(new_tok, context_tok)
    cycles_s = (
        (output_tok - 1) / accept_length * deployment.cycle_s(n_running, n_running * context_tok)
    )
    decode_s = cycles_s + (n_running - 1) * prefill_s
    return SteadyState(
        n_running=n_running,
        ttft_s=prefill_s,
        decode_tok_s=(output_tok - 1) / decode_s,
        output_tok_s=n_running * output_tok / (decode_s + prefill_s),
    )
