"""The boxes that samplers are tried on: a model, its machine, its draft, its load, a baseline.

The scenarios of the simulated server, and others that live only here, so that no sampler is judged
on what it was developed with. Sizes follow public model cards and data sheets (layers, heads,
experts, parameters, memory); bandwidth and compute are about 75 % of what the data sheet says;
fixed times are round numbers of the right size. ``jitter`` moves all of them for every seed.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.engine.simulated.acceptance import DraftQuality
from autotune.engine.simulated.physics import Machine, Speculation, StateCapacity
from autotune.engine.simulated.scenarios import SCENARIOS


@dataclass(frozen=True, slots=True)
class Load:
    """The requests of a workload, by their mean lengths in tokens.

    Attributes:
        new_tok: of the prompt, that no cache holds while there is room for the cache.
        output_tok: of an answer, which is the reference turn too.
        context_tok: held by a running request.
        eviction: share of the cached prompt that is prefilled again for each share of the KV pool
            that is missing to keep it; 0: no cache to lose.
    """

    new_tok: int
    output_tok: int
    context_tok: int
    eviction: float = 0.0


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of box.

    Attributes:
        base: what its owner runs today.
        base_fraction: the memory fraction there.
        launch_s: seconds on hardware to load weights, take the pool, capture graphs, warm up.
        max_running: ``--max-running-requests``, and the largest captured batch.
        graph_power: how the memory of captured graphs grows with their rows; 1 is linear.
        stairs: a verify kernel works on tiles of so many rows; 0: it does not matter.
        mask_us: microseconds per request and draft token for the mask of a tree.
        spread: how far acceptance differs within a kind of text, in logits.
    """

    name: str
    machine: Machine
    draft: DraftQuality
    load: Load
    base: Speculation
    base_fraction: float
    launch_s: tuple[float, float, float, float]
    max_running: int = 48
    graph_power: float = 1.0
    stairs: int = 0
    mask_us: float = 0.0
    spread: float = 0.0


_AGENTIC = Load(1_900, 220, 9_000)
_CHAT = Load(650, 300, 1_500)
_CODE = Load(1_500, 260, 4_500)

_SHIPPED_LOADS = {
    "qwen3.5-122b-sweep": Load(1_000, 256, 1_400),
    "qwen3.5-122b-agentic": _AGENTIC,
    "dense-8b-chat": _CHAT,
    "dense-70b-tp4-code": _CODE,
    "tight-32b-code": _CODE,
    "compute-bound-8b": _CHAT,
}


def _shipped() -> list[Family]:
    families = []
    for name, scenario in SCENARIOS.items():
        flags = dict(scenario.base_flags)
        triple = ("num-steps", "eagle-topk", "num-draft-tokens")
        families.append(
            Family(
                name,
                scenario.machine,
                scenario.draft,
                _SHIPPED_LOADS.get(name, _AGENTIC),
                Speculation(*(int(flags[f"--speculative-{flag}"]) for flag in triple)),
                float(flags["--mem-fraction-static"]),
                scenario.launch_s,
            )
        )
    return families


_OWN = [
    # A small active part: verifying a few tokens touches several times the experts of one.
    Family(
        "moe-30b-a3b",
        Machine(
            gpu="80 GB GPU", n_gpus=1, gpu_memory_gb=80.0, weights_gb=61.5, bandwidth_tb_s=2.5,
            compute_tflops=600.0, dense_params_b=1.5, expert_params_b=29.0, n_experts=128,
            n_active_experts=8, touch_power=0.85, draft_params_b=0.45, kv_kb_per_token=100.0,
            verify_fixed_ms=2.6, draft_fixed_ms=0.35, overhead_ms=1.4, tree_penalty_ms=1.2,
            prefill_fixed_ms=12.0, activations_gb=2.2, graph_mb_per_row=5.0,
        ),
        DraftQuality(((0.5, 0.74), (0.5, 0.46)), decay=0.06, rho=0.30),
        Load(900, 350, 2_600), Speculation(3, 1, 4), 0.88, (35.0, 2.0, 25.0, 5.0),
    ),
    Family(
        "dense-405b-tp8",
        Machine(
            gpu="80 GB GPU", n_gpus=8, gpu_memory_gb=80.0, weights_gb=53.0, bandwidth_tb_s=2.6,
            compute_tflops=800.0, dense_params_b=405.0, bytes_per_param=1.0, draft_params_b=5.0,
            kv_kb_per_token=64.0, verify_fixed_ms=8.5, draft_fixed_ms=0.5, overhead_ms=1.5,
            tree_penalty_ms=1.0, prefill_fixed_ms=30.0, activations_gb=3.5, graph_mb_per_row=14.0,
        ),
        DraftQuality(((0.4, 0.90), (0.35, 0.72), (0.25, 0.40)), decay=0.025, rho=0.42),
        Load(2_200, 400, 6_000), Speculation(3, 1, 4), 0.85, (210.0, 5.0, 60.0, 10.0),
        graph_power=1.1, spread=1.0,
    ),
    # Weights of 4 bits: compute is dear, as every row is unpacked.
    Family(
        "consumer-14b-24gb",
        Machine(
            gpu="24 GB card", n_gpus=1, gpu_memory_gb=24.0, weights_gb=10.2, bandwidth_tb_s=0.78,
            compute_tflops=70.0, dense_params_b=14.0, bytes_per_param=0.6, draft_params_b=0.7,
            kv_kb_per_token=164.0, verify_fixed_ms=1.8, draft_fixed_ms=0.25, overhead_ms=1.1,
            tree_penalty_ms=0.9, prefill_fixed_ms=9.0, activations_gb=1.1, graph_mb_per_row=3.2,
        ),
        DraftQuality(((0.5, 0.80), (0.5, 0.50)), decay=0.04, rho=0.33),
        Load(700, 260, 2_400), Speculation(5, 4, 8), 0.80, (14.0, 1.0, 16.0, 4.0),
        max_running=32, stairs=32, mask_us=18.0,
    ),
    Family(
        "hybrid-80b-long",
        Machine(
            gpu="80 GB GPU", n_gpus=2, gpu_memory_gb=80.0, weights_gb=43.0, bandwidth_tb_s=2.4,
            compute_tflops=500.0, dense_params_b=2.4, expert_params_b=77.0, n_experts=512,
            n_active_experts=10, bytes_per_param=1.05, touch_power=0.72, draft_params_b=0.35,
            kv_kb_per_token=13.0, verify_fixed_ms=6.5, draft_fixed_ms=0.2, overhead_ms=1.8,
            tree_penalty_ms=2.5, prefill_fixed_ms=25.0, activations_gb=2.8, graph_mb_per_row=9.0,
            context_tok=262_144,
            state=StateCapacity(
                at_zero=44.0, per_draft=1.3, power=1.55, at_fraction=0.80, per_gb=0.7, tail=1.6,
                move_ms=0.006, move_power=2.1,
            ),
        ),
        DraftQuality(((0.7, 0.90), (0.3, 0.52)), decay=0.05, rho=0.28),
        Load(3_500, 180, 42_000), Speculation(2, 1, 3), 0.80, (70.0, 4.0, 35.0, 6.0),
    ),
    # A draft that was trained for another version of the model, and a baseline from its card.
    Family(
        "poor-draft-32b",
        Machine(
            gpu="48 GB GPU", n_gpus=2, gpu_memory_gb=48.0, weights_gb=33.5, bandwidth_tb_s=0.68,
            compute_tflops=130.0, dense_params_b=32.0, draft_params_b=1.1, kv_kb_per_token=131.0,
            verify_fixed_ms=3.4, draft_fixed_ms=0.3, overhead_ms=0.9, tree_penalty_ms=0.7,
            prefill_fixed_ms=12.0, activations_gb=1.7, graph_mb_per_row=5.0,
        ),
        DraftQuality(((0.4, 0.58), (0.6, 0.34)), decay=0.08, rho=0.25),
        Load(800, 320, 2_000), Speculation(5, 4, 16), 0.84, (40.0, 2.0, 25.0, 5.0),
        spread=0.9,
    ),
    # Heads trained for three positions: the fourth guess is worth little.
    Family(
        "cliff-24b",
        Machine(
            gpu="80 GB GPU", n_gpus=1, gpu_memory_gb=80.0, weights_gb=49.0, bandwidth_tb_s=2.5,
            compute_tflops=550.0, dense_params_b=24.0, draft_params_b=0.9, kv_kb_per_token=164.0,
            verify_fixed_ms=1.6, draft_fixed_ms=0.12, overhead_ms=0.7, tree_penalty_ms=0.6,
            prefill_fixed_ms=7.0, activations_gb=2.2, graph_mb_per_row=5.0,
        ),
        DraftQuality(((0.6, 0.90), (0.4, 0.66)), decay=0.0018, depth_power=5.2, rho=0.38),
        _CODE, Speculation(5, 1, 6), 0.82, (25.0, 2.0, 20.0, 4.0),
    ),
    # The pool holds a dozen requests, and their cached prompts must go to make room.
    Family(
        "pressed-32b-48gb",
        Machine(
            gpu="48 GB GPU", n_gpus=1, gpu_memory_gb=48.0, weights_gb=33.0, bandwidth_tb_s=0.66,
            compute_tflops=240.0, dense_params_b=32.0, bytes_per_param=1.0, draft_params_b=1.0,
            kv_kb_per_token=96.0, verify_fixed_ms=2.2, draft_fixed_ms=0.2, overhead_ms=0.8,
            tree_penalty_ms=0.5, prefill_fixed_ms=9.0, activations_gb=1.3, graph_mb_per_row=4.5,
        ),
        DraftQuality(((0.55, 0.88), (0.45, 0.58)), decay=0.03, rho=0.36),
        Load(900, 240, 6_500, eviction=0.45), Speculation(3, 1, 4), 0.86, (30.0, 2.0, 20.0, 4.0),
        graph_power=0.9,
    ),
    # Answers that mostly repeat the prompt: the deepest chain of the space is too short.
    Family(
        "edit-7b",
        Machine(
            gpu="40 GB GPU", n_gpus=1, gpu_memory_gb=40.0, weights_gb=16.2, bandwidth_tb_s=1.15,
            compute_tflops=230.0, dense_params_b=7.3, draft_params_b=0.35, kv_kb_per_token=60.0,
            verify_fixed_ms=1.4, draft_fixed_ms=0.18, overhead_ms=0.9, tree_penalty_ms=0.8,
            prefill_fixed_ms=6.0, activations_gb=1.6, graph_mb_per_row=4.0,
        ),
        DraftQuality(((0.85, 0.965), (0.15, 0.60)), decay=0.006, rho=0.30),
        Load(1_100, 420, 3_200), Speculation(3, 1, 4), 0.82, (12.0, 1.0, 16.0, 3.0),
    ),
    Family(
        "moe-671b-tp8",
        Machine(
            gpu="141 GB GPU", n_gpus=8, gpu_memory_gb=141.0, weights_gb=88.0, bandwidth_tb_s=3.4,
            compute_tflops=750.0, dense_params_b=17.0, expert_params_b=654.0, n_experts=256,
            n_active_experts=8, bytes_per_param=1.0, touch_power=0.68, draft_params_b=1.7,
            kv_kb_per_token=71.0, verify_fixed_ms=13.0, draft_fixed_ms=0.6, overhead_ms=2.0,
            tree_penalty_ms=3.0, prefill_fixed_ms=45.0, activations_gb=5.0, graph_mb_per_row=22.0,
            context_tok=163_840,
        ),
        DraftQuality(((0.6, 0.89), (0.4, 0.62)), decay=0.10, rho=0.40),
        Load(2_500, 500, 12_000), Speculation(3, 1, 4), 0.85, (280.0, 6.0, 75.0, 12.0),
        stairs=64, mask_us=35.0, spread=0.7,
    ),
]  # fmt: skip

SHIPPED = {family.name: family for family in _shipped()}
OWN = {family.name: family for family in _OWN}
FAMILIES = SHIPPED | OWN
