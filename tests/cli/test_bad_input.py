"""What is wrong is said in one sentence on stderr, with the documented exit code."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .commands import autotune, complaint, environment, optimize_words, serve_words
from .conftest import FinishedStudy

DRY = ("optimize", "--dry-run")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    files = {
        "broken.yaml": "trials: [1",
        "unknown.yaml": "trails: 3",
        "list.yaml": "trials: [3, 4]",
        "unquoted.yaml": 'command: python "x',
        "space.yaml": "parameters:\n  speculative_num_stepz: {low: 1, high: 3}\n",
        "empty.yaml": "",
        "objective.yaml": "latency_weight: 7",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        # the command line itself
        (("optimize", "--trails", "3"), 2, "'--trials'"),
        (("optimise",), 2, "did you mean 'optimize'"),
        (("space", "chek"), 2, "check"),
        ((*DRY, "--trials", "x"), 2, "--trials"),
        (("measure",), 2, "--url"),
        (("measure", "--url", "http://127.0.0.1:1", "--", "x"), 2, "--url"),
        # names
        ((*DRY, "--objective", "agentik"), 3, "did you mean 'agentic'"),
        ((*DRY, "--objective", "none.yaml"), 3, "none.yaml"),
        ((*DRY, "--objective", "objective.yaml"), 3, "objective.yaml, line 1"),
        ((*DRY, "--space", "steps-onyl"), 3, "did you mean 'steps-only'"),
        ((*DRY, "--workload", "agentc"), 3, "did you mean 'agentic'"),
        ((*DRY, "--scenario", "qwen3.5-122b-swep"), 3, "did you mean 'qwen3.5-122b-sweep'"),
        ((*DRY, "--engine", "simulatd"), 3, "simulated"),
        (("space", "show", "steps-onyl"), 3, "did you mean 'steps-only'"),
        # files
        ((*DRY, "--config", "broken.yaml"), 3, "broken.yaml, line"),
        ((*DRY, "--config", "unknown.yaml"), 3, "did you mean 'trials'"),
        ((*DRY, "--config", "list.yaml"), 3, "list.yaml, line 1"),
        ((*DRY, "--config", "unquoted.yaml"), 3, "unquoted.yaml, line 1"),
        ((*DRY, "--config", "binary.yaml"), 3, "binary.yaml"),
        ((*DRY, "--config", "none.yaml"), 3, "none.yaml"),
        ((*DRY, "--config", "."), 3, "directory"),
        ((*DRY, "--space", "broken.yaml"), 3, "broken.yaml, line"),
        ((*DRY, "--space", "./space.yaml"), 3, "did you mean 'speculative_num_steps'"),
        ((*DRY, "--space", "empty.yaml"), 3, "empty"),
        (("space", "check", "space.yaml"), 3, "space.yaml, line 2"),
        # values
        ((*DRY, "--trials", "0"), 3, "trials is 0"),
        ((*DRY, "--seed", "-1"), 3, "seed"),
        ((*DRY, "--gpu-hours", "0"), 3, "gpu_hours"),
        ((*DRY, "--gpu-hours", "nan"), 3, "gpu_hours"),
        ((*DRY, "--time", "soon"), 3, "--time"),
        ((*DRY, "--time", "0"), 3, "--time"),
        ((*DRY, "--serving-concurrency", "x"), 3, "--serving-concurrency"),
        ((*DRY, "--serving-concurrency", ""), 3, "serving"),
        ((*DRY, "--serving-concurrency", "1"), 3, "serving concurrency 1"),
        ((*DRY, "--latency-concurrency", "0"), 3, "latency concurrency"),
        ((*DRY, "--slo", "nonsense"), 3, "nonsense"),
        ((*DRY, "--slo", "ttft_p95_s<=-1"), 3, "above 0"),
        ((*DRY, "--slo", "ttfd_p95_s<=1"), 3, "did you mean 'ttft_s'"),
        ((*DRY, "--slo", "ttft_p95_s@7<=1"), 3, "C=7"),
        ((*DRY, "--slo", "ttft_p75_s<=1"), 3, "p50, p90, p95 and p99, before the unit"),
        ((*DRY, "--slo", "ttft_p95_ms<=500"), 3, "times are in seconds"),
        ((*DRY, "--slo", "good_frac>=0.9"), 3, "a search measures no good_frac"),
        # names of studies
        ((*DRY, "--study", "../x"), 2, "'../x'"),
        ((*DRY, "--study", "a b"), 2, "'a b'"),
        ((*DRY, "--study", "a\nb"), 2, "'a\\nb'"),
        ((*DRY, "--study", ""), 2, "''"),
        ((*DRY, "--study", "ü"), 2, "'ü'"),
        ((*DRY, "--study", ".."), 2, "'..'"),
        ((*DRY, "--study", "x" * 300), 2, "at most 80"),
        # launch commands
        ((*DRY, "--", "/bin/sh", "-c", "./serve.sh --tp 4"), 2, "{flags}"),
        ((*DRY, "--", "sglang", "serve", "--config", "no.yaml"), 2, "--config no.yaml"),
        ((*DRY, "--", "python \"x"), 2, "shell"),
        ((*DRY, "--engine", "sglang"), 3, "launch command"),
        ((*DRY, "--scenario", "dense-8b-chat", "--", "python"), 3, "simulated"),
        # servers
        (("measure", "--url", "http://127.0.0.1:9"), 4, "http://127.0.0.1:9"),
        (("measure", "--url", "nonsense"), 4, "nonsense"),
        (("measure", "--url", "http://127.0.0.1:9", "--concurrency", "x"), 3, "--concurrency"),
        (("measure", "--url", "http://127.0.0.1:9", "--concurrency", "0"), 3, "--concurrency"),
        (("measure", "--url", "http://127.0.0.1:9", "--workload", "agentc"), 3, "'agentic'"),
        (("measure", "--", "no-such-program"), 4, "no-such-program"),
        # nothing to read
        (("show",), 7, "no study"),
        (("pareto", "--json"), 7, "no study"),
        (("export",), 7, "no study"),
        (("report",), 7, "no study"),
        (("dashboard",), 7, "no study"),
        (("show", "--study", "../x"), 7, "'../x'"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence(
    here: Path, words: tuple[str, ...], code: int, named: str
) -> None:
    done = autotune(*words, cwd=here)
    assert done.returncode == code, done.stderr
    assert named in complaint(done)
    assert done.stdout == ""
    assert not (here / "studies").exists()


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("TRIALS", "abc", "AUTOTUNE_TRIALS"),
        ("SEED", "1.5", "AUTOTUNE_SEED"),
        ("TIME_S", "soon", "AUTOTUNE_TIME_S"),
        ("SERVING_CONCURRENCY", "16,x", "AUTOTUNE_SERVING_CONCURRENCY"),
        ("SLO", "x", "SLO 'x'"),
        ("COMMAND", 'python "x', "AUTOTUNE_COMMAND"),
        ("OBJECTIVE", "agentik", "agentic"),
    ],
)
def test_a_bad_environment_variable_is_named(
    tmp_path: Path, name: str, value: str, named: str
) -> None:
    env = environment(**{f"AUTOTUNE_{name}": value})
    done = autotune(*DRY, cwd=tmp_path, env=env)
    assert done.returncode == 3, done.stderr
    assert named in complaint(done)


@pytest.mark.parametrize("program", ["no-such-program", "/etc/passwd", "/tmp"])
def test_a_launch_command_that_cannot_run_ends_with_4_and_may_be_mended(
    tmp_path: Path, program: str
) -> None:
    words = ("optimize", "--study", "s", "--space", "steps-only", "--trials", "1", "--")
    done = autotune(*words, program, "--model-path", "M", cwd=tmp_path)
    assert done.returncode == 4
    assert program in complaint(done)
    assert "interrupted" not in done.stderr
    mended = autotune(*words, *serve_words(), cwd=tmp_path)
    assert mended.returncode == 0, mended.stderr


def test_called_without_a_command_it_shows_its_help(tmp_path: Path) -> None:
    for words in ((), ("space",)):
        done = autotune(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("Usage: autotune") and "Commands:" in done.stderr


# ---- finished studies -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("show", "--study", "t"), 7, "'t'"),
        (("export", "--trial", "77"), 2, "trial 77"),
        (("export", "--knee", "--trial", "1"), 2, "exclude each other"),
        (("export", "--format", "shel"), 2, "did you mean 'shell'"),
        (("export", "--best", "agentik"), 3, "did you mean 'agentic'"),
        (("export", "--max-latency", "0.01"), 6, "the fastest is trial"),
        (("export", "-o", "/no/such/place"), 2, "/no/such/place"),
        (("pareto", "--weight", "speed=1"), 3, "latency=0.7"),
        (("pareto", "--weight", "latency=2"), 3, "from 0 to 1"),
        (("report", "-o", "/no/such/place"), 2, "/no/such/place"),
    ],
)
def test_a_wish_that_a_study_cannot_meet_is_refused(
    finished: FinishedStudy, words: tuple[str, ...], code: int, named: str
) -> None:
    done = autotune(*words, cwd=finished.directory)
    assert done.returncode == code, done.stderr
    assert named in complaint(done)
    assert done.stdout == ""


@pytest.fixture
def copied(finished: FinishedStudy, tmp_path: Path) -> Path:
    shutil.copytree(finished.directory / "studies", tmp_path / "studies")
    return tmp_path


@pytest.mark.parametrize("text", ["{{{", "", "foo: 3", "trials: many", "command: []\n"])
def test_a_damaged_study_file_is_a_study_error_that_names_the_file(copied: Path, text: str) -> None:
    (copied / "studies" / "s" / "study.yaml").write_text(text)
    for words in (("show",), ("export",), tuple(optimize_words())):
        done = autotune(*words, cwd=copied)
        assert done.returncode == 7, done.stderr
        assert "study.yaml" in complaint(done)


def test_a_damaged_journal_is_a_study_error_that_names_the_file(copied: Path) -> None:
    journal = copied / "studies" / "s" / "journal.log"
    lines = journal.read_bytes().splitlines(keepends=True)
    for damage in (b"\x9d\x00\xff" * 99, b"".join([lines[0], b"garbage\n", *lines[1:]])):
        journal.write_bytes(damage)
        for words in (("show",), ("dashboard",), tuple(optimize_words(trials=4))):
            done = autotune(*words, cwd=copied)
            assert done.returncode == 7, done.stderr
            assert "journal.log" in complaint(done)


@pytest.mark.parametrize("damage", ["cut off", "garbage", "garbage line"])
def test_a_journal_that_ends_in_half_a_line_goes_on(copied: Path, damage: str) -> None:
    """As after a power failure, or a full disk."""
    journal = copied / "studies" / "s" / "journal.log"
    whole = journal.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    ends = {"cut off": last[: len(last) // 2], "garbage": b"{x", "garbage line": b"x\n"}
    journal.write_bytes(whole + ends[damage])
    assert autotune("show", cwd=copied).returncode == 0
    done = autotune(*optimize_words(trials=4), cwd=copied)
    assert done.returncode == 0, done.stderr
    again = autotune("show", "--json", cwd=copied)
    assert again.returncode == 0 and '"number": 3' in again.stdout


def test_a_missing_journal_is_told(copied: Path) -> None:
    (copied / "studies" / "s" / "journal.log").unlink()
    done = autotune("show", cwd=copied)
    assert done.returncode == 7
    assert "journal.log" in complaint(done)


def test_a_studies_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "studies").write_text("a file where the folder should be")
    done = autotune(*optimize_words(), cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert "studies" in complaint(done)


def test_a_storage_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    for storage in ("sqlite:////no/such/place/x.db", "/proc/no", "nosuchdb://x", "."):
        done = autotune(*optimize_words("--storage", storage), cwd=tmp_path)
        assert done.returncode == 7, done.stderr
        assert storage in complaint(done)


def test_a_full_disk_is_told(finished: FinishedStudy) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "autotune", "show"], cwd=finished.directory, env=environment(),
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert "autotune: no space is left on the device" in done.stderr
    assert "Traceback" not in done.stderr


def test_searching_speculative_flags_of_a_command_that_does_not_speculate_is_refused(
    here: Path,
) -> None:
    words = ("python", "-m", "sglang.launch_server", "--model-path", "M")
    done = autotune(*DRY, "--", *words, cwd=here)
    assert done.returncode == 3
    assert "no --speculative-algorithm" in complaint(done)
