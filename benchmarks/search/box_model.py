"""A box under launch flags: what starts, what dies, and how fast the rest is."""

from __future__ import annotations

import math
from typing import Any

from autotune.core.trial import Bound, FailureKind, Flags
from autotune.engine.simulated.acceptance import AcceptDistribution, accept_distribution
from autotune.engine.simulated.physics import (
    Deployment,
    Speculation,
    SteadyState,
    between,
    steady_running,
)
from autotune.space.rules import DRAFT, MEMORY, STEPS, TOPK
from benchmarks.search.jitter import Box
from benchmarks.search.record import Death
from benchmarks.search.surface import Surface

_WORST_DEATH = 0.9
_NEED_GB = 0.064
_TILE_SHARE = 0.12
"""Share of a cycle that a kernel loses to the rows of an empty tile."""


class BoxModel:
    """The laws of the simulated server, and what this family and the surface add to them."""

    def __init__(self, box: Box, surface: Surface | None) -> None:
        self.box, self._surface = box, surface
        self._states: dict[tuple[Any, ...], SteadyState] = {}
        self._accepted: dict[Speculation, AcceptDistribution] = {}

    def deployed(self, flags: Flags) -> Deployment:
        """These flags on the machine."""
        tree = Speculation(int(flags[STEPS]), int(flags[TOPK]), int(flags[DRAFT]))
        most = self.box.family.max_running
        return Deployment(self.box.family.machine, tree, float(flags[MEMORY]), most, most)

    # ---- what fits ----------------------------------------------------------------------------

    def free_gb(self, deployment: Deployment) -> float:
        """After capture; the graphs' memory is not quite linear in their rows."""
        family = self.box.family
        rows = deployment.graph_max_batch * deployment.speculation.draft_tokens
        usual = 8 * deployment.graph_max_batch
        bent = math.pow(rows / usual, family.graph_power - 1.0) - 1.0
        graphs_gb = family.machine.graph_mb_per_row * rows / 1e3
        return deployment.free_after_capture_gb - graphs_gb * bent

    def p_dies_loaded(self, free_gb: float) -> float:
        """Of a server with so little left, under load."""
        missing = 1.0 - free_gb / self.box.margin_gb
        return _WORST_DEATH * math.pow(min(1.0, max(0.0, missing)), 1.5)

    def death(self, deployment: Deployment, free_gb: float) -> Death | None:
        """What must fail at start."""
        spec = deployment.speculation
        if not 2 <= spec.draft_tokens <= spec.largest_tree:
            text = "RuntimeError: selected index k out of range"
            kind = FailureKind.REJECTED_COMBINATION
            return Death(kind, "capture", text, "lower speculative_num_draft_tokens")
        load = self.box.family.load
        need_tok = load.context_tok + load.output_tok + deployment.reserved_tok
        if deployment.kv_pool_tok < need_tok or deployment.running_limit < 1:
            return self._no_room(deployment, need_tok)
        if free_gb < 0:
            need_mb = 1024 * (_NEED_GB - free_gb)
            text = (
                f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {need_mb:.2f} MiB."
            )
            kind = FailureKind.GRAPH_CAPTURE_OOM
            return Death(kind, "capture", text, "lower mem_fraction_static")
        return None

    def _no_room(self, deployment: Deployment, need_tok: int) -> Death:
        """A pool below one request; some servers tell the fraction that would do."""
        machine = self.box.family.machine
        need_gb = machine.weights_gb + need_tok * machine.kv_kb_per_token / 1e6
        bound = Bound(MEMORY, "at_least", round(need_gb / machine.gpu_memory_gb + 0.0005, 3))
        is_told = self.box.tells.bound and deployment.kv_pool_tok < need_tok
        return Death(
            FailureKind.KV_DOES_NOT_FIT,
            "pool",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "raise mem_fraction_static",
            bound if is_told else None,
        )

    # ---- how fast it is -----------------------------------------------------------------------

    def accept(self, spec: Speculation) -> AcceptDistribution:
        """Of all texts together."""
        if spec not in self._accepted:
            parts = [
                (share, accept_distribution(draft, spec.steps, spec.topk, spec.draft_tokens))
                for share, draft in self.box.texts
            ]
            together = (
                sum(share * part.cumulative[n] for share, part in parts) for n in range(spec.steps)
            )
            self._accepted[spec] = AcceptDistribution((*together, 1.0))
        return self._accepted[spec]

    def state(self, deployment: Deployment, concurrency: int) -> SteadyState:
        """In the steady window at this concurrency."""
        load, spec = self.box.family.load, deployment.speculation
        new_tok = self._prefilled_tok(deployment, concurrency)

        def running(n_running: int) -> SteadyState:
            key = (spec, n_running, new_tok)
            if key not in self._states:
                self._states[key] = steady_running(
                    deployment,
                    n_running,
                    # A cycle that takes f times as long yields an f-th of the tokens.
                    self.accept(spec).mean / self._slowdown(deployment, n_running),
                    new_tok=new_tok,
                    output_tok=load.output_tok,
                    context_tok=load.context_tok,
                )
            return self._states[key]

        return between(running, deployment.mean_running(concurrency, load.context_tok))

    def _prefilled_tok(self, deployment: Deployment, concurrency: int) -> int:
        """New prompt tokens, and the cached ones that had to make room."""
        load = self.box.family.load
        if not load.eviction:
            return load.new_tok
        kept = min(1.0, deployment.kv_pool_tok / (1.25 * concurrency * load.context_tok))
        lost_tok = load.eviction * (1 - kept) * (load.context_tok - load.new_tok)
        return load.new_tok + 32 * round(lost_tok / 32)

    def _slowdown(self, deployment: Deployment, n_running: int) -> float:
        """Factor on a cycle for what the simulated server does not know."""
        family, spec = self.box.family, deployment.speculation
        factor = 1.0
        if family.stairs:
            tiles = n_running * spec.draft_tokens / family.stairs
            factor += _TILE_SHARE * (math.ceil(tiles) - tiles) / (1 + tiles)
        if family.mask_us and spec.topk > 1:
            context_tok = n_running * family.load.context_tok
            masked_s = 1e-6 * family.mask_us * spec.draft_tokens * n_running
            factor += masked_s / deployment.cycle_s(n_running, context_tok)
        if self._surface is not None:
            factor *= self._surface.slowdown(spec, n_running > 1)
        return factor
