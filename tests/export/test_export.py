from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.objective import PRESETS
from autotune.core.trial import FlagValue, Interval, TrialRecord
from autotune.engine.sglang.command import LaunchCommand
from autotune.errors import NoFeasibleConfiguration, UsageError
from autotune.export import FORMATS, Recipe, choose, recipe_for, render
from autotune.study.config import RunConfig
from autotune.study.reading import StudyView

COMMAND = (
    "python", "-m", "sglang.launch_server", "--model-path", "a model", "--api-key", "s3cr3t-k3y",
    "--speculative-num-steps=3", "--speculative-eagle-topk", "1",
    "--speculative-num-draft-tokens", "4",
)  # fmt: skip


def flags(steps: int) -> dict[str, FlagValue]:
    return {
        "speculative_num_steps": steps,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": steps + 1,
        "mem_fraction_static": 0.91,
    }


def measured(
    number: int, steps: int, latency: float, throughput: float, *, feasible: bool = True
) -> TrialRecord:
    return TrialRecord(
        number=number,
        status="complete" if feasible else "infeasible",
        role="search" if number else "baseline",
        flags=flags(steps),
        objectives={
            "latency_s": Interval(latency, latency * 0.99, latency * 1.01),
            "throughput_tok_s": Interval(throughput, throughput * 0.99, throughput * 1.01),
        },
        machine={"gpu": "GPU", "n_gpus": 4},
        versions={"sglang": "0.5.23"},
    )


RECORDS = (
    measured(0, 3, 1.0, 1000.0),
    measured(1, 4, 0.8, 950.0),
    measured(2, 5, 0.7, 600.0),
    measured(3, 2, 1.4, 1100.0),
    measured(4, 6, 0.1, 9000.0, feasible=False),
)


def view(*records: TrialRecord) -> StudyView:
    return StudyView(
        name="s",
        directory=Path("studies/s"),
        config=RunConfig(engine="sglang", command=COMMAND),
        objective=PRESETS["agentic"],
        command=LaunchCommand.parse(COMMAND),
        records=records,
    )


def recipe(number: int = 1) -> Recipe:
    study = view(*RECORDS)
    return recipe_for(study, choose(study, trial=number, allow_infeasible=True))


STUDY = view(*RECORDS)


def test_the_best_is_chosen_where_nothing_is_asked() -> None:
    assert choose(STUDY).trial == 1


def test_most_throughput_within_a_latency() -> None:
    assert choose(STUDY, max_latency_s=0.75).trial == 2
    assert choose(STUDY, max_latency_s=1.0).trial == 0
    with pytest.raises(NoFeasibleConfiguration, match=r"the fastest is trial 2 with 0\.700 s"):
        choose(STUDY, max_latency_s=0.5)


def test_least_latency_from_a_throughput_on_and_the_best_within_both() -> None:
    assert choose(STUDY, min_throughput_tok_s=960.0).trial == 0
    assert choose(STUDY, min_throughput_tok_s=500.0).trial == 2
    assert choose(STUDY, max_latency_s=1.0, min_throughput_tok_s=700.0).trial == 1
    with pytest.raises(NoFeasibleConfiguration, match=r"the most is trial 3 with 1,100 tok/s"):
        choose(STUDY, min_throughput_tok_s=2000.0)
    with pytest.raises(NoFeasibleConfiguration, match=r"tok/s or more within 0\.9 s; the most is"):
        choose(STUDY, max_latency_s=0.9, min_throughput_tok_s=1000.0)


def test_the_knee_is_on_the_front() -> None:
    assert choose(STUDY, knee=True) in STUDY.ranking.front


def test_an_infeasible_trial_is_exported_only_when_that_is_allowed() -> None:
    with pytest.raises(UsageError, match="trial 4 violates") as caught:
        choose(STUDY, trial=4)
    assert "--allow-infeasible" in caught.value.hint
    assert choose(STUDY, trial=4, allow_infeasible=True).trial == 4


def test_a_trial_without_values_is_never_exported() -> None:
    with pytest.raises(UsageError, match="trial 9"):
        choose(STUDY, trial=9, allow_infeasible=True)


def test_a_study_without_values_has_nothing_to_export() -> None:
    with pytest.raises(NoFeasibleConfiguration):
        choose(view())
    with pytest.raises(NoFeasibleConfiguration):
        choose(view(RECORDS[4]), knee=True)


def test_the_script_replaces_only_the_chosen_flags_and_masks_secrets() -> None:
    text = render(recipe(), "shell")
    body = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert text.startswith("#!/bin/sh\n# autotune study s, trial 1")
    assert shlex.split(body.replace("\\\n", " ")) == [
        "python", "-m", "sglang.launch_server", "--model-path", "a model",
        "--api-key", "REDACTED", "--speculative-num-steps=4", "--speculative-eagle-topk", "1",
        "--speculative-num-draft-tokens", "5", "--mem-fraction-static", "0.91",
    ]  # fmt: skip
    assert "s3cr3t" not in text


@pytest.mark.parametrize("format_name", FORMATS)
def test_no_format_tells_a_secret(format_name: str) -> None:
    made = recipe()
    words = tuple(word.replace("a model", "model") for word in made.command.argv)
    text = render(replace(made, command=replace(made.command, argv=words)), format_name)
    assert "s3cr3t" not in text


def test_a_masked_key_is_told_in_the_script() -> None:
    assert "REDACTED" in "\n".join(recipe().provenance)


def test_the_provenance_names_machine_version_and_gain() -> None:
    text = "\n".join(recipe().provenance)
    for part in ("SGLang 0.5.23 on 4 × GPU", "one turn 0.800 s", "950 tok/s", "+15.1 %"):
        assert part in text
    assert "SIMULATED" not in text


@given(
    st.fixed_dictionaries(
        {"speculative_num_steps": st.integers(1, 9), "mem_fraction_static": st.floats(0.1, 0.9)}
    )
)
def test_flags_read_back_as_they_were(chosen: dict[str, FlagValue]) -> None:
    made = recipe()
    standing = view(RECORDS[0]).ranking.standings[0]
    changed = Recipe(
        made.study, type(standing)(standing.trials, chosen, standing.latency_s,
        standing.throughput_tok_s, True, 0.0), made.record, made.command, (),
    )  # fmt: skip
    line = shlex.split(render(changed, "flags"))
    assert LaunchCommand(("x", *line)).flags(tuple(chosen)) == chosen


def test_json_holds_all_of_it() -> None:
    document = json.loads(render(recipe(), "json"))
    assert document["flags"] == flags(4) and document["trial"] == 1
    assert document["machine"] == {"gpu": "GPU", "n_gpus": 4}
    assert document["versions"] == {"sglang": "0.5.23"}


def test_an_unknown_format_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'shell'"):
        render(recipe(), "shel")
    with pytest.raises(UsageError, match="known: compose, diff, docker, env, flags, json"):
        render(recipe(), "zzz")
