"""``autotune export``: which configuration, for whom, and what is refused."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import optuna
import pytest

from autotune.cli.main import run
from autotune.core.objective import PRESETS
from autotune.core.ranking import rank
from autotune.core.repeats import Verdict
from autotune.core.trial import Interval, TrialRecord
from autotune.study.choice import Choice
from autotune.study.confirmation import Confirmation, Finalist
from autotune.study.store import StudyStore

from ..core.samples import exactly
from ..report.studies import dead, launch, mixed, store

AGENTIC = PRESETS["agentic"]


@dataclass(frozen=True)
class Said:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 (any JSON value)
        assert self.code == 0, self.err
        return json.loads(self.out)


class Export:
    """Runs ``autotune export`` in a folder, on studies of made-up records."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys

    def study(self, records: Sequence[TrialRecord]) -> optuna.Study:
        return store(records, self.directory)

    def __call__(self, *words: str) -> Said:
        code = run(["export", *words])
        said = self._capsys.readouterr()
        return Said(code, said.out, said.err)

    def trial(self, *words: str) -> int:
        number = self(*words, "--format", "json").document["trial"]
        assert isinstance(number, int)
        return number


@pytest.fixture
def export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Export:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.defpath)
    return Export(tmp_path, capsys)


# ---- which one --------------------------------------------------------------------------------


RECORDS = [launch(i) for i in range(5)]
RANKING = rank(RECORDS, AGENTIC)


def test_each_choice_exports_its_own_member_of_the_front(export: Export) -> None:
    export.study(RECORDS)
    by_speed, knee = RANKING.front, RANKING.knee
    assert RANKING.best is not None and knee is not None and len(by_speed) > 2
    assert export.trial() == export.trial("--best", "agentic") == RANKING.best.trial
    assert export.trial("--best", "throughput") == rank(RECORDS, PRESETS["throughput"]).best.trial  # type: ignore[union-attr]
    assert export.trial("--knee") == knee.trial
    assert export.trial("--trial", "0") == 0
    middle = by_speed[1]
    assert export.trial("--max-latency", str(middle.latency_s.value)) == middle.trial
    assert export.trial("--min-throughput", str(middle.throughput_tok_s.value)) == middle.trial


def test_the_whole_front_is_a_line_each_or_a_file_each(export: Export) -> None:
    export.study(RECORDS)
    trials = [standing.trial for standing in RANKING.front]
    listed = export("--front", "all", "--format", "flags").out.splitlines()
    assert [int(re.findall(r"# trial (\d+):", line)[0]) for line in listed[::2]] == trials
    assert all(shlex.split(line)[0].startswith("--") for line in listed[1::2])
    written = export("--front", "all", "-o", "all")
    assert written.code == 0 and written.out == ""
    files = sorted(path.name for path in (export.directory / "all").iterdir())
    assert files == sorted(f"trial-{trial:04d}.sh" for trial in trials)
    assert os.access(export.directory / "all" / files[0], os.X_OK)


def test_another_release_gets_its_own_spelling_and_a_warning(export: Export) -> None:
    export.study(RECORDS)
    newer, older = export("--sglang", "0.5.23"), export("--sglang", "0.5.10", "--trial", "0")
    assert "written for" not in newer.err
    assert "measured on SGLang 0.5.23, written for 0.5.10" in older.err
    assert "mem_fraction_static covers the draft model since SGLang 0.5.14" in older.err
    assert "# measured on SGLang 0.5.23, written for 0.5.10" in older.out
    assert export("--sglang", "new").code == 2


# ---- where from -------------------------------------------------------------------------------


def test_the_script_says_where_its_flags_come_from(export: Export) -> None:
    plain = launch(1)
    told = msgspec.structs.replace(
        plain,
        effective=plain.effective
        | {"revision": "1a2b3c", "speculative_draft_model_path": "acme/draft"},
        machine=plain.machine | {"driver": "580.95.05"},
    )
    export.study([launch(0), told])
    comments = [line for line in export("--trial", "1").out.splitlines() if line.startswith("# ")]
    text = "\n".join(comments)
    assert "# autotune study made-up, trial 1, objective agentic" in text
    assert "# SGLang 0.5.23 on 2 × Some GPU, driver 580.95.05" in text
    assert "# model acme/model at revision 1a2b3c, draft model acme/draft" in text
    assert re.search(r"^# measured on 20\d\d-\d\d-\d\d$", text, re.MULTILINE)
    assert "# NOT CONFIRMED: no fresh launches were made of it" in text


# ---- other machines -----------------------------------------------------------------------------


def with_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, n_gpus: int) -> None:
    """A stand-in ``nvidia-smi`` on the PATH."""
    rows = [f"{i}, GPU-{i}, {name}, 98304, 5" for i in range(n_gpus)]
    tool = folder / "nvidia-smi"
    tool.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(rows) + "\nEND\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.defpath}")


@pytest.mark.parametrize(
    ("name", "n_gpus", "warning"),
    [
        ("Some GPU", 2, None),
        ("Some GPU", 8, None),
        ("Some GPU", 1, "measured on 2 × Some GPU, and this machine has 1 × Some GPU"),
        ("Other GPU", 2, "measured on 2 × Some GPU, and this machine has 2 × Other GPU"),
        (None, 0, "measured on 2 × Some GPU, and no GPU is seen here"),
    ],
)
def test_a_machine_with_other_gpus_is_told(
    export: Export,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str | None,
    n_gpus: int,
    warning: str | None,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if name is not None:
        with_gpus(tmp_path, monkeypatch, name, n_gpus)
    export.study(RECORDS)
    said = export("--format", "flags")
    assert said.code == 0 and said.out.startswith("--speculative")
    assert ("GPU" in said.err) == (warning is not None)
    assert warning is None or warning in said.err


# ---- refused ------------------------------------------------------------------------------------


def confirm(
    study: optuna.Study,
    *,
    verdict: Verdict,
    use: int | None = None,
    doubts: tuple[str, ...] = (),
    n_left: int = 0,
    gain: float = 0.05,
) -> int:
    """Keeps what fresh launches said of the winner; the trial of the winner."""
    ranking = rank(RECORDS, AGENTIC)
    assert ranking.best is not None
    winner = ranking.best.trial
    latency_s, tok_s = exactly(1.0), exactly(1000.0)
    finalist = Finalist(
        trial=winner, launches=(9, 11), gain=Interval(gain, gain - 0.03, gain + 0.03),
        latency_s=latency_s, throughput_tok_s=tok_s, verdict=verdict, doubts=doubts,
    )  # fmt: skip
    kept = StudyStore("made-up")
    kept.keep_choice(
        study,
        Choice(
            trial=winner, latency_weight=AGENTIC.latency_weight, n_launches=len(RECORDS),
            n_unchanged=1, why="", stop=True,
        ),
    )  # fmt: skip
    kept.keep_confirmation(
        study,
        Confirmation(
            winner=winner,
            baseline=Finalist(
                trial=0, launches=(8, 10), latency_s=latency_s, throughput_tok_s=tok_s
            ),
            finalists=(finalist,), use=winner if use is None else use,
            latency_weight=AGENTIC.latency_weight, n_each=2, n_left=n_left,
        ),
    )  # fmt: skip
    return winner


def test_a_confirmed_winner_says_so(export: Export) -> None:
    winner = confirm(export.study(RECORDS), verdict="better")
    said = export()
    assert said.code == 0 and "confirmed" not in said.err
    told = "# confirmed: + 5.0 % ± 3.0 against the baseline on 2 fresh launches beside the baseline"
    assert told in said.out
    assert export.trial() == winner


def test_a_gain_that_fresh_launches_leave_open_is_refused_unless_allowed(export: Export) -> None:
    winner = confirm(export.study(RECORDS), verdict="inconclusive", gain=0.01)
    said = export()
    assert said.code == 5 and said.out == ""
    assert f"autotune: trial {winner} is not confirmed:" in said.err
    assert "--allow-unconfirmed exports it anyway" in said.err and said.err.count("\n") == 2
    anyway = export("--allow-unconfirmed")
    assert anyway.code == 0 and "# NOT CONFIRMED:" in anyway.out
    assert f"warning: trial {winner} is not confirmed" in anyway.err


def test_where_the_baseline_is_as_good_it_is_what_is_exported(export: Export) -> None:
    winner = confirm(export.study(RECORDS), verdict="tie", use=0, gain=0.0)
    said = export()
    assert said.code == 0 and export.trial() == 0
    assert "# these are your own flags" in said.out
    refused = export("--trial", str(winner))
    assert refused.code == 5 and "the baseline is as good" in refused.err
    assert export("--trial", str(winner), "--allow-unconfirmed").code == 0


def test_simpler_flags_that_are_as_good_need_no_flag(export: Export) -> None:
    winner = confirm(export.study(RECORDS), verdict="tie", gain=0.0)
    assert export.trial() == winner
    assert "confirmed as good as the baseline, with simpler flags" in export().out


def test_a_winner_that_failed_on_a_fresh_launch_is_refused(export: Export) -> None:
    doubts = ("trial 9 failed: CUDA out of memory",)
    confirm(export.study(RECORDS), verdict="inconclusive", doubts=doubts, gain=0.2)
    said = export()
    assert said.code == 5 and "trial 9 failed: CUDA out of memory" in said.err


def test_what_nobody_launched_again_is_exported_with_a_warning(export: Export) -> None:
    winner = confirm(export.study(RECORDS), verdict="worse", use=0)
    other = next(s.trial for s in RANKING.standings if s.trial not in (0, winner))
    said = export("--trial", str(other))
    assert said.code == 0
    assert f"fresh launches were made of trial {winner} only" in said.err


def test_a_confirmation_in_progress_does_not_stand_in_the_way(export: Export) -> None:
    confirm(export.study(RECORDS), verdict="inconclusive", n_left=2)
    said = export()
    assert said.code == 0 and "not confirmed yet: 2 fresh launches to come" in said.err


def test_what_violates_a_constraint_is_refused_unless_allowed(export: Export) -> None:
    export.study([launch(0), launch(1), launch(2, feasible=False)])
    said = export("--trial", "2")
    assert said.code == 2 and "violates a constraint" in said.err
    allowed = export("--trial", "2", "--allow-infeasible")
    assert allowed.code == 0 and "# INFEASIBLE" in allowed.out


# ---- odd studies --------------------------------------------------------------------------------


def test_a_study_without_a_feasible_trial_has_nothing_to_export(export: Export) -> None:
    export.study([launch(i, feasible=False) for i in range(3)])
    for words in ((), ("--knee",), ("--front", "all"), ("--max-latency", "9")):
        said = export(*words)
        assert said.code == 6 and said.out == "", words
        assert "no feasible configuration" in said.err


def test_a_study_of_one_trial_exports_it(export: Export) -> None:
    export.study([launch(0)])
    assert export.trial() == export.trial("--knee") == 0
    assert "# these are your own flags" in export().out


def test_a_study_of_failures_has_nothing_to_export(export: Export) -> None:
    export.study([dead(i) for i in range(4)])
    assert export().code == 6
    said = export("--trial", "2")
    assert said.code == 2 and "trial 2 carries no values: failed after" in said.err


def test_a_trial_that_cannot_be_exported_is_told_from_one_that_does_not_exist(
    export: Export,
) -> None:
    again = msgspec.structs.replace(launch(2), same_as=1, objectives=None, phases=[])
    fresh = msgspec.structs.replace(launch(3), role="confirm", flags=launch(1).flags)
    study = export.study([launch(0), launch(1), again])
    place = {"winner": 1, "configuration": 1, "round": 0}
    values = [1.0, 900.0]
    marks = {"record": fresh.to_dict(), "confirm": place}
    study.add_trial(optuna.trial.create_trial(values=values, user_attrs=marks))
    said = export("--trial", "9")
    assert said.code == 2 and "has no trial 9: it has 0 to 2" in said.err
    said = export("--trial", "2")
    assert said.code == 2 and "trial 2 ran as trial 1 had" in said.err
    assert "--trial 1 exports those flags" in said.err
    said = export("--trial", "3")
    assert said.code == 2 and "trial 3 is no trial of the search" in said.err
    assert "--trial 1 exports its flags" in said.err


def test_a_study_of_two_thousand_trials_exports_its_best(export: Export) -> None:
    records = mixed(2000)
    export.study(records)
    best = rank(records, AGENTIC).best
    assert best is not None and export.trial() == best.trial
    assert export("--front", "all", "--format", "flags").code == 0
