"""Named scenarios: a model, a machine, how well its draft guesses, how noisy it is.

Constants are fitted to published figures where a comment says so; the others are round numbers
of the right size. No tuner reads them: it only sees what the server reports.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.engine.simulated.acceptance import DraftQuality
from autotune.engine.simulated.batch import Noise
from autotune.engine.simulated.physics import Machine, Speculation, StateCapacity
from autotune.errors import ConfigError, nearest

_CHAIN_OF_3 = Speculation(3, 1, 4)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything a simulated server needs besides its launch flags.

    Attributes:
        launch_s: seconds on hardware of each stage: weights, pool, capture, warm-up.
        default_speculation: what SGLang chooses when none of the three flags is given.
        base_flags: flags of the launch command that a study of this scenario starts from.
    """

    name: str
    title: str
    model_path: str
    machine: Machine
    draft: DraftQuality
    noise: Noise
    base_flags: tuple[tuple[str, str], ...]
    launch_s: tuple[float, float, float, float] = (45.0, 3.0, 22.0, 5.0)
    default_speculation: Speculation = _CHAIN_OF_3
    architecture: str = "Qwen3_5MoeForConditionalGeneration"


_USUAL_NOISE = Noise(launch=0.01, drift=0.015, outlier=0.01, crash=0.01)
_CHAT = DraftQuality(((0.5, 0.82), (0.5, 0.55)), decay=0.03)
_CODE = DraftQuality(((0.6, 0.90), (0.4, 0.55)), decay=0.02)

# Fitted to the hand sweep as it was made (bursts of 4 to 64 requests, whole-run aggregates): every
# cell within 6 %, the four ratios that decide within 2 %. Tests repeat the sweep in virtual time.
_QWEN_122B = Machine(
    gpu="NVIDIA RTX PRO 6000 Blackwell (simulated)",
    n_gpus=4,
    gpu_memory_gb=96.0,
    weights_gb=62.0,
    bandwidth_tb_s=1.743,
    compute_tflops=150.0,
    dense_params_b=4.0,
    draft_params_b=0.087,
    kv_kb_per_token=12.0,
    expert_params_b=114.0,
    n_experts=256,
    n_active_experts=8,
    touch_power=0.6657,
    verify_fixed_ms=11.506,
    draft_fixed_ms=0.0147,
    prefill_fixed_ms=18.6,
    activations_gb=1.6,
    graph_mb_per_row=11.0,
    context_tok=131072,
    state=StateCapacity(
        at_zero=28.709,
        per_draft=0.679,
        power=1.9436,
        at_fraction=0.85,
        per_gb=1.0,
        tail=1.0,
        move_ms=0.00369,
        move_power=2.528,
    ),
)


def _base(steps: int, topk: int, draft_tokens: int, fraction: float) -> tuple[tuple[str, str], ...]:
    return (
        ("--speculative-num-steps", str(steps)),
        ("--speculative-eagle-topk", str(topk)),
        ("--speculative-num-draft-tokens", str(draft_tokens)),
        ("--mem-fraction-static", str(fraction)),
    )


_ALL = (
    Scenario(
        name="qwen3.5-122b-sweep",
        title="Qwen3.5-122B-A10B on 4 GPUs, repetitive prompts: the hand sweep",
        model_path="Qwen/Qwen3.5-122B-A10B",
        machine=_QWEN_122B,
        draft=DraftQuality(((1.0, 0.9859),), decay=6.0e-8, depth_power=10.3),
        # A dedicated box: no slow launches and no crashes in the sweep.
        noise=Noise(launch=0.006, drift=0.008),
        base_flags=_base(2, 1, 3, 0.85),
    ),
    Scenario(
        name="qwen3.5-122b-agentic",
        title="Qwen3.5-122B-A10B on 4 GPUs, a realistic agentic load",
        model_path="Qwen/Qwen3.5-122B-A10B",
        machine=_QWEN_122B,
        draft=DraftQuality(((0.6, 0.92), (0.4, 0.45)), decay=0.03),
        noise=_USUAL_NOISE,
        base_flags=_base(3, 1, 4, 0.85),
    ),
    Scenario(
        name="dense-8b-chat",
        title="a dense 8B model on one GPU, chat",
        model_path="meta-llama/Llama-3.1-8B-Instruct",
        machine=Machine(
            gpu="80 GB GPU (simulated)",
            n_gpus=1,
            gpu_memory_gb=80.0,
            weights_gb=17.5,
            bandwidth_tb_s=2.6,
            compute_tflops=550.0,
            dense_params_b=8.0,
            draft_params_b=0.75,
            kv_kb_per_token=140.0,
            verify_fixed_ms=1.2,
            draft_fixed_ms=0.15,
            overhead_ms=0.6,
            tree_penalty_ms=0.4,
            prefill_fixed_ms=5.0,
            activations_gb=2.5,
            graph_mb_per_row=4.0,
            context_tok=131072,
        ),
        draft=_CHAT,
        noise=_USUAL_NOISE,
        base_flags=_base(5, 4, 8, 0.85),
        launch_s=(12.0, 2.0, 18.0, 4.0),
        default_speculation=Speculation(5, 4, 8),
        architecture="LlamaForCausalLM",
    ),
    Scenario(
        name="dense-70b-tp4-code",
        title="a dense 70B model on 4 GPUs, code",
        model_path="meta-llama/Llama-3.3-70B-Instruct",
        machine=Machine(
            gpu="80 GB GPU (simulated)",
            n_gpus=4,
            gpu_memory_gb=80.0,
            weights_gb=35.0,
            bandwidth_tb_s=2.6,
            compute_tflops=550.0,
            dense_params_b=70.0,
            draft_params_b=1.6,
            kv_kb_per_token=82.0,
            verify_fixed_ms=3.5,
            draft_fixed_ms=0.2,
            tree_penalty_ms=0.6,
            prefill_fixed_ms=12.0,
            activations_gb=3.0,
            graph_mb_per_row=6.0,
            context_tok=131072,
        ),
        draft=_CODE,
        noise=_USUAL_NOISE,
        base_flags=_base(3, 1, 4, 0.85),
        launch_s=(60.0, 3.0, 30.0, 5.0),
        default_speculation=Speculation(5, 4, 8),
        architecture="LlamaForCausalLM",
    ),
    Scenario(
        name="tight-32b-code",
        title="a 32B model whose weights fill one GPU, code",
        model_path="Qwen/Qwen3-32B",
        machine=Machine(
            gpu="80 GB GPU (simulated)",
            n_gpus=1,
            gpu_memory_gb=80.0,
            weights_gb=64.5,
            bandwidth_tb_s=2.6,
            compute_tflops=550.0,
            dense_params_b=32.0,
            draft_params_b=1.0,
            kv_kb_per_token=262.0,
            verify_fixed_ms=2.0,
            draft_fixed_ms=0.15,
            tree_penalty_ms=0.5,
            prefill_fixed_ms=8.0,
            activations_gb=1.8,
            graph_mb_per_row=6.0,
            context_tok=32768,
        ),
        draft=_CODE,
        noise=_USUAL_NOISE,
        base_flags=_base(3, 1, 4, 0.90),
        launch_s=(40.0, 2.0, 20.0, 4.0),
        architecture="Qwen3ForCausalLM",
    ),
    Scenario(
        name="compute-bound-8b",
        title="a dense 8B model on a card with little compute, chat",
        model_path="meta-llama/Llama-3.1-8B-Instruct",
        machine=Machine(
            gpu="48 GB GPU (simulated)",
            n_gpus=1,
            gpu_memory_gb=48.0,
            weights_gb=17.5,
            bandwidth_tb_s=0.75,
            compute_tflops=75.0,
            dense_params_b=8.0,
            draft_params_b=0.75,
            kv_kb_per_token=140.0,
            verify_fixed_ms=1.5,
            draft_fixed_ms=0.2,
            overhead_ms=0.8,
            tree_penalty_ms=0.5,
            prefill_fixed_ms=6.0,
            activations_gb=2.0,
            graph_mb_per_row=4.0,
            context_tok=131072,
        ),
        draft=_CHAT,
        noise=_USUAL_NOISE,
        base_flags=_base(5, 4, 8, 0.80),
        launch_s=(14.0, 2.0, 18.0, 4.0),
        default_speculation=Speculation(5, 4, 8),
        architecture="LlamaForCausalLM",
    ),
)

SCENARIOS = {scenario.name: scenario for scenario in _ALL}
DEFAULT_SCENARIO = "qwen3.5-122b-agentic"


def scenario_named(name: str) -> Scenario:
    """A scenario by name.

    Raises:
        ConfigError: no scenario has this name.
    """
    try:
        return SCENARIOS[name]
    except KeyError:
        raise ConfigError(f"no scenario named {name!r}: {nearest(name, SCENARIOS)}") from None
