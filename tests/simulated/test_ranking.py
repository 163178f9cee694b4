"""Many configurations at C=16: the measured order is the true one, queues and all.

A burst of some C requests ranks by how well its last wave is filled. A constant load does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from scipy.stats import kendalltau

from autotune.engine.ports import is_listening
from autotune.engine.simulated import text
from autotune.engine.simulated.physics import Speculation
from autotune.engine.simulated.scenarios import DEFAULT_SCENARIO, scenario_named
from autotune.engine.simulated.virtual import Shape, deploy, play, steady_throughput
from autotune.measure import Endpoint, measure_phase
from autotune.measure.plan import plan_levels
from autotune.space import load_space
from autotune.workload import Session, Turn, Workload
from tests.simulated.conftest import Server, Start

C = 16
N_CONFIGURATIONS = 40
PROMPT_WORDS = 900
MAX_OUTPUT_TOK = 512
SPEED = 12.0
TIE_FRAC = 0.01
SCENARIO = scenario_named(DEFAULT_SCENARIO)


def single_turns() -> Workload:
    """Prompts of equal length that share nothing: the load that ``Shape`` describes."""

    def session(number: int, context_tok: int | None) -> Session:
        rng = Random(number)
        words = " ".join(text.answer_tokens(rng.getrandbits(40), PROMPT_WORDS)).split()
        return Session((Turn(({"role": "user", "content": " ".join(words)},), MAX_OUTPUT_TOK),))

    return Workload("single", "single turns", 200, 0.6, session)


def configurations(prompt_tok: int) -> Iterator[tuple[Speculation, float, float]]:
    """Random configurations with their true throughput, no two within 1 %: those are a tie."""
    space, rng = load_space("speculative"), Random(11)
    legal = list(space.configurations())
    taken: list[float] = []
    while True:
        flags = rng.choice(legal)
        steps, topk, draft = (
            int(flags[f"speculative_{name}"])
            for name in ("num_steps", "eagle_topk", "num_draft_tokens")
        )
        fraction = float(flags["mem_fraction_static"])
        speculation = Speculation(steps, topk, draft)
        deployment, _ = deploy(SCENARIO, speculation, mem_fraction=fraction)
        if deployment.running_limit < 3 or deployment.kv_pool_tok < 40_000:
            continue
        true = true_tok_s(speculation, fraction, prompt_tok)
        if all(abs(true / other - 1) > TIE_FRAC for other in taken):
            taken.append(true)
            yield speculation, fraction, true


def true_tok_s(speculation: Speculation, fraction: float, prompt_tok: int) -> float:
    """What the model of the machine gives in the long run."""
    deployment, accept = deploy(SCENARIO, speculation, mem_fraction=fraction)
    rng = Random(5)
    lengths = [
        min(MAX_OUTPUT_TOK, text.answer_length(rng.getrandbits(48), 1 << 30)) for _ in range(60 * C)
    ]
    shapes = [Shape(prompt_tok, n_tok) for n_tok in lengths]
    return steady_throughput(play(deployment, accept, shapes, C), C)


def running_limit(server: Server) -> int:
    (state,) = server.get("/server_info").json()["internal_states"]
    return int(state["effective_max_running_requests_per_dp"])


def launch(start: Start, speculation: Speculation, fraction: float) -> Server | None:
    """A ready server; None where it ran out of memory, and has no throughput to be ranked by."""
    server = start(
        *("--scenario", DEFAULT_SCENARIO, "--speed", SPEED, "--mem-fraction-static", fraction),
        *("--speculative-algorithm", "EAGLE"),
        *("--speculative-num-steps", speculation.steps),
        *("--speculative-eagle-topk", speculation.topk),
        *("--speculative-num-draft-tokens", speculation.draft_tokens),
        ready=False,
    )

    def decided() -> bool:
        return server.process.poll() is not None or is_listening(server.port)

    assert server.wait_for(decided), server.log
    return server if server.process.poll() is None else None


@pytest.mark.alone
@pytest.mark.timeout(400)
def test_forty_configurations_are_ranked_as_they_truly_are(start: Start) -> None:
    load = single_turns()
    prompt_tok = len(text.tokenize(load.session(0).turns[0].messages[0]["content"]))
    (plan,) = plan_levels((C,), 0.02)
    measured: list[float] = []
    true: list[float] = []
    limits: list[int] = []
    for speculation, fraction, true_value in configurations(prompt_tok):
        server = launch(start, speculation, fraction)
        if server is None:
            continue
        endpoint = Endpoint(server.url, "org/model", time_scale=SPEED)
        phase = measure_phase(endpoint, load, plan, check=lambda: None)
        if server.process.poll() is not None:
            assert "CUDA out of memory" in server.log, "a long phase may take it to its wall"
            continue
        assert phase.n_failed == 0
        measured.append(phase.output_tok_s.value)
        true.append(true_value)
        limits.append(running_limit(server))
        server.stop()
        if len(measured) == N_CONFIGURATIONS:
            break
    assert min(limits) < C <= max(limits), limits
    tau = kendalltau(measured, true).statistic
    print(f"Kendall tau {tau:.4f}")
    assert tau >= 0.95, sorted(zip(true, measured, limits, strict=True))
