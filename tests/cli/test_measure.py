"""``autotune measure`` as its users run it, against simulated servers."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.documents import schema_of

from ..json_schema import problems
from .commands import (
    autotune,
    complaint,
    environment,
    no_server_left,
    read_until,
    serve_words,
    serving,
    started,
    wait_until,
)

QUICK = ("--workload", "agentic-short", "--seconds", "20", "--precision", "0.1")
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server"), *serve_words(speed=30)) as address:
        yield address


def said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def session(number: int, n_turns: int, *, gap_s: float = 0.0, most_tok: int = 48) -> dict[str, Any]:
    turns = [
        {"messages": [said(f"{number} {n} and so on " * 20)], "max_output_tok": most_tok,
         "gap_s": gap_s if n else 0.0}
        for n in range(n_turns)
    ]  # fmt: skip
    return {"turns": turns, "session_id": f"s{number}", "start_s": 0.5 * number}


def sessions(path: Path, n: int, **more: Any) -> str:  # noqa: ANN401 (whatever a session has)
    lines = [json.dumps(session(number, 2, **more)) for number in range(n)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def phases(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["phases"]
    return found


def only(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    (phase,) = phases(done)
    return phase


# ---- what is told -------------------------------------------------------------------------------


def test_the_table_has_a_line_for_each_load_and_fits_a_terminal(url: str, tmp_path: Path) -> None:
    done = autotune("measure", "--url", url, "--concurrency", "1,4", *QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["SIMULATED server", ""]
    titles, one, four, *rest = lines[2:]
    assert titles.split("  ")[0] == "load"
    for title in ("one turn, s", "TTFT, s", "per token, ms", "output tok/s", "accept", "cached"):
        assert title in titles
    assert one.startswith("C=1 ") and four.startswith("C=4 ")
    assert one.count("±") == four.count("±") == 4 and one.index("±") == four.index("±")
    assert max(map(len, (titles, one, four))) <= 90
    assert all(len(line) <= 100 for line in rest)
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == ["C=1", "C=4"]
    assert list(tmp_path.iterdir()) == []


def test_sentences_are_as_wide_as_the_terminal(url: str, tmp_path: Path) -> None:
    words = ("measure", "--url", url, "--concurrency", "16", *QUICK)
    done = autotune(*words, cwd=tmp_path, env=environment(COLUMNS="60"))
    warnings = done.stdout[done.stdout.index("!") :].splitlines()
    assert len(warnings) >= 2 and all(len(line) <= 60 for line in warnings)
    assert all(line.startswith(("! ", "  ")) for line in warnings)


def test_the_json_and_the_file_are_one_record(url: str, tmp_path: Path) -> None:
    words = ("measure", "--url", url, "--concurrency", "1,4", *QUICK, "--json", "-o", "r.json")
    done = autotune(*words, cwd=tmp_path)
    one, four = phases(done)
    record = json.loads(done.stdout)
    assert record == json.loads((tmp_path / "r.json").read_bytes())
    assert problems(record, schema_of("record")) == []
    assert (one["role"], four["role"]) == ("latency", "serving")
    assert {one["workload"], four["workload"]} == {"agentic-short"}
    assert record["machine"] == {"simulated": True}
    assert record["effective"]["speculative_num_steps"] == 2
    assert all(w.keys() >= {"code", "text", "remedy"} for w in record["warnings"])
    for phase in (one, four):
        assert phase["n_sent"] >= phase["n_requests"] >= 8
        assert phase["itl_s"]["value"] <= phase["chunk_gap_s"]["value"]
        assert sum(phase["accept_histogram"]) == pytest.approx(1.0)


def test_a_faked_accept_length_is_told_through_the_launch_command(tmp_path: Path) -> None:
    command = ["env", "SGLANG_SIMULATE_ACC_LEN=2.0", *serve_words(steps=3)]
    done = autotune("measure", "--concurrency", "1", *QUICK, "--json", "--", *command, cwd=tmp_path)
    assert only(done)["accept_length"] == pytest.approx(2.0, rel=0.05)
    codes = {warning["code"] for warning in json.loads(done.stdout)["warnings"]}
    assert "simulated_acceptance" in codes


# ---- compare ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of one step and of three, at C=1; of chat; and things that are no record."""
    folder = tmp_path_factory.mktemp("saved")
    for steps in (1, 3):
        words = ("--concurrency", "1", *QUICK, "-o", f"steps{steps}.json")
        serve = serve_words(steps=steps, speed=30)
        assert autotune("measure", *words, "--", *serve, cwd=folder).returncode == 0
    record = json.loads((folder / "steps1.json").read_bytes())
    for phase in record["phases"]:
        phase["workload"] = "chat"
    (folder / "chat.json").write_text(json.dumps(record))
    (folder / "empty.json").write_text(json.dumps(record | {"phases": []}))
    (folder / "other.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("before", "after", "verdict"), [(1, 3, "better"), (3, 1, "worse"), (3, 3, "tie")]
)
def test_more_steps_are_better_for_one_request_at_a_time(
    saved: Path, before: int, after: int, verdict: str
) -> None:
    words = ("measure", "--compare", f"steps{before}.json", f"steps{after}.json")
    table, document = autotune(*words, cwd=saved), autotune(*words, "--json", cwd=saved)
    assert table.returncode == document.returncode == 0, table.stderr
    found = {d["metric"]: d for d in json.loads(document.stdout)["differences"]}
    for metric in ("turn_latency_s", "tpot_s", "output_tok_s", "accept_length"):
        assert found[metric]["verdict"] == verdict, metric
        assert found[metric]["load"] == "C=1"
    titles, *rows = table.stdout.splitlines()[:6]
    assert titles.split() == ["load", "before", "after", "change", "95", "%", "verdict"]
    assert [row.split()[-1] for row in rows] == [d["verdict"] for d in found.values()]
    assert rows[0].startswith("C=1") and all(row.startswith("   ") for row in rows[1:])
    assert max(map(len, table.stdout.splitlines())) <= 90


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("steps1.json", "none.json", "none.json"),
        ("none.json", "steps1.json", "none.json"),
        ("steps1.json", ".", "directory"),
        ("steps1.json", "other.json", "other.json is not a record"),
        ("steps1.json", "empty.json", "empty.json holds no measurement"),
        ("steps1.json", "chat.json", "C=1 of agentic-short) and chat.json (C=1 of chat"),
    ],
)
def test_what_cannot_be_compared_is_told(saved: Path, before: str, after: str, named: str) -> None:
    done = autotune("measure", "--compare", before, after, cwd=saved)
    assert done.returncode == 2 and done.stdout == ""
    assert named in complaint(done)


# ---- loads --------------------------------------------------------------------------------------


def test_a_rate_is_an_open_loop_and_limits_give_a_goodput(url: str, tmp_path: Path) -> None:
    words = ("--rate", "2", "--good", "ttft_s<=1000", *QUICK, "--seconds", "40", "-o", "r.json")
    done = autotune("measure", "--url", url, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (phase,) = json.loads((tmp_path / "r.json").read_bytes())["phases"]
    assert (phase["rate_req_s"], phase["duration_s"]) == (2.0, pytest.approx(40.0))
    assert 40 <= phase["n_requests"] <= 125, "80 are expected; Poisson"
    assert phase["good_frac"]["value"] == 1.0
    assert phase["goodput_req_s"]["value"] == pytest.approx(phase["n_requests"] / 40)
    assert "2 req/s: TTFT p50 " in done.stdout and " in flight" in done.stdout
    assert "2 req/s: goodput " in done.stdout and "100 % of all" in done.stdout


def test_a_limit_that_nothing_keeps_leaves_no_goodput(url: str, tmp_path: Path) -> None:
    words = ("--good", "ttft_s<=1000", "--good", "ttft_s<=0.000001", *QUICK, "--json")
    phase = only(autotune("measure", "--url", url, "--concurrency", "2", *words, cwd=tmp_path))
    assert phase["good_frac"]["value"] == phase["goodput_req_s"]["value"] == 0.0


def test_a_replay_sends_the_whole_trace_at_its_times(url: str, tmp_path: Path) -> None:
    trace = sessions(tmp_path / "trace.jsonl", 12, gap_s=2.0)
    words = ("--replay", "--workload", trace, "--json")
    phase = only(autotune("measure", "--url", url, *words, cwd=tmp_path))
    assert phase["replay"] and phase["n_requests"] == phase["n_sent"] and phase["n_failed"] == 0
    assert phase["n_sent"] in range(12, 25, 2), "all but the sessions that are held out"
    assert phase["duration_s"] >= 2.0


def test_the_built_in_trace_is_replayed(url: str, tmp_path: Path) -> None:
    words = ("--replay", "--workload", "code-complete", "--seconds", "15", "--json")
    phase = only(autotune("measure", "--url", url, *words, cwd=tmp_path))
    assert phase["replay"] and phase["workload"] == "code-complete" and phase["n_requests"] >= 5


def test_gaps_leave_fewer_in_flight(url: str, tmp_path: Path) -> None:
    paused = sessions(tmp_path / "paused.jsonl", 60, gap_s=6.0)
    words = ("measure", "--url", url, "--concurrency", "8", "--workload", paused, "--json")
    without = only(autotune(*words, "--seconds", "20", cwd=tmp_path))
    phase = only(autotune(*words, "--seconds", "20", "--gaps", cwd=tmp_path))
    assert phase["gaps"] and not without["gaps"]
    assert phase["in_flight_mean"] < 0.7 * without["in_flight_mean"]


def test_the_sessions_held_out_are_others(url: str, tmp_path: Path) -> None:
    words = ("measure", "--url", url, "--concurrency", "1", *QUICK, "--json")
    usual = only(autotune(*words, cwd=tmp_path))
    held_out = only(autotune(*words, "--hold-out", cwd=tmp_path))
    assert usual["percentiles"]["input_tok"] != held_out["percentiles"]["input_tok"]


@pytest.mark.parametrize("api", ["completions", "generate"])
def test_every_api_can_be_measured(url: str, tmp_path: Path, api: str) -> None:
    words = ("--concurrency", "2", "--api", api, "--model", "any", *QUICK, "--json")
    phase = only(autotune("measure", "--url", url, *words, cwd=tmp_path))
    assert phase["n_failed"] == 0 and phase["n_requests"] >= 8
    assert phase["accept_length"] > 1.5 and phase["cache_hit_frac"] is not None


# ---- what is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (("--api", "chta"), 2, "did you mean 'chat'"),
        (("--workload", "agentc"), 3, "did you mean 'agentic'"),
        (("--workload", "none.jsonl"), 3, "none.jsonl"),
        (("--good", "ttfd_s<=1"), 3, "did you mean 'ttft_s'"),
        (("--good", "ttft_s>=1"), 3, "no limit of a single request"),
        (("--good", "ttft_p95_s<=1"), 3, "no limit of a single request"),
        (("--good", "output_tok_s<=1"), 3, "no limit of a single request"),
        (("--good", "ttft_s<=nan"), 3, "ttft_s<=nan"),
        (("--rate", "1", "--concurrency", "2"), 2, "exclude each other"),
        (("--rate", "1", "--replay"), 2, "exclude each other"),
        (("--rate", "nan"), 3, "--rate nan"),
        (("--rate", "-1"), 3, "--rate -1"),
        (("--rate", "0"), 3, "--rate 0"),
        (("--rate", "inf"), 3, "must be a number above 0"),
        (("--seconds", "nan"), 3, "--seconds nan"),
        (("--seconds", "-5"), 3, "--seconds -5"),
        (("--precision", "0"), 3, "--precision 0"),
        (("--precision", "nan"), 3, "--precision nan"),
        (("--precision", "x"), 2, "--precision"),
        (("--concurrency", "1,x"), 3, "--concurrency"),
        (("--concurrency", "-4"), 3, "--concurrency"),
        (("--concurrency", ""), 3, "--concurrency"),
        (("--seed", "1.5"), 2, "--seed"),
        (("--replay",), 4, NOWHERE),  # no server; the missing times are told where there is one
        (("-o", "/none/r.json"), 2, "/none/r.json: No such file or directory"),
        (("-o", "."), 2, "Is a directory"),
        (("-o", "/proc/r.json"), 2, "cannot write /proc/r.json"),
        (("--api-key-file", "none"), 3, "none"),
        (("--compare", "a", "b"), 2, "without --url"),
        (("--compare", "a"), 2, "--compare"),
        ((), 4, NOWHERE),
    ],
)
def test_bad_input_is_told_in_a_sentence(
    tmp_path: Path, words: tuple[str, ...], code: int, named: str
) -> None:
    done = autotune("measure", "--url", NOWHERE, *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert named in complaint(done)
    assert done.stdout == "" and list(tmp_path.iterdir()) == []


def test_a_replay_without_times_is_told_in_a_sentence(url: str, tmp_path: Path) -> None:
    done = autotune("measure", "--url", url, "--replay", *QUICK, cwd=tmp_path)
    assert done.returncode == 3 and "agentic-short has no arrival times" in complaint(done)


def test_what_cannot_be_used_ends_with_5_and_leaves_an_older_file_alone(
    url: str, tmp_path: Path
) -> None:
    (tmp_path / "r.json").write_text("an older record")
    short = sessions(tmp_path / "short.jsonl", 30, most_tok=1)
    words = ("--concurrency", "2", "--workload", short, "-o", "r.json")
    done = autotune("measure", "--url", url, *words, cwd=tmp_path)
    assert done.returncode == 5 and done.stdout == ""
    assert "nothing to time" in complaint(done)
    assert (tmp_path / "r.json").read_text() == "an older record"


def test_a_server_that_goes_away_ends_the_measurement_with_5(tmp_path: Path) -> None:
    with serving(tmp_path, *serve_words(speed=10)) as address:
        words = ("measure", "--url", address, "--concurrency", "1,4", *QUICK, "--seconds", "900")
        child = started(*words, "--precision", "0.0001", cwd=tmp_path)
        running = child.__enter__()
        read_until(running, stderr="C=1:")
    try:
        out, err = running.communicate(timeout=60)
    finally:
        child.__exit__(None, None, None)
    assert running.returncode == 5 and out == ""
    assert "requests failed at C=4" in err and "Traceback" not in err


def test_ctrl_c_ends_a_measurement_at_once(url: str, tmp_path: Path) -> None:
    words = ("measure", "--url", url, "--concurrency", "1,4", *QUICK, "--seconds", "9000")
    with started(*words, "--precision", "0.0001", cwd=tmp_path) as child:
        read_until(child, stderr="C=1:")
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert time.monotonic() - began < 10
    assert child.returncode == 130 and (out + err).strip() == ""


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL], ids=lambda s: s.name)
@pytest.mark.parametrize("until", ["loading weights", "ready after"])
def test_a_signal_leaves_no_folder_of_a_launch(
    tmp_path: Path, temporary: Path, until: str, signum: signal.Signals
) -> None:
    env = environment(TMPDIR=str(temporary))
    serve = serve_words("--startup-speed", "60", speed=10)
    with started("measure", "--", *serve, cwd=tmp_path, env=env) as child:
        read_until(child, stderr=until)
        assert list(temporary.iterdir())
        child.send_signal(signum)
        child.communicate(timeout=30)
    assert child.returncode == (130 if signum == signal.SIGINT else -signum)
    assert wait_until(lambda: not list(temporary.iterdir()), 10.0)
    assert no_server_left(tmp_path)


def test_the_log_of_a_launch_stays_where_its_measurement_failed_and_is_named(
    tmp_path: Path, temporary: Path
) -> None:
    env = environment(TMPDIR=str(temporary))
    short = sessions(tmp_path / "short.jsonl", 30, most_tok=1)
    words = ("measure", "--concurrency", "2", "--workload", short)
    done = autotune(*words, "--", *serve_words(), cwd=tmp_path, env=env)
    assert done.returncode == 5
    assert list(temporary.iterdir()) == []
    assert "; its log: autotune-measure.log" in complaint(done)
    assert "fired up" in (tmp_path / "autotune-measure.log").read_text()


def test_a_command_that_cannot_be_run_leaves_no_folder(tmp_path: Path, temporary: Path) -> None:
    env = environment(TMPDIR=str(temporary))
    done = autotune("measure", "--", "no-such-program", cwd=tmp_path, env=env)
    assert done.returncode == 4 and list(temporary.iterdir()) == []


def test_the_help_tells_every_option_in_a_line_or_two(tmp_path: Path) -> None:
    done = autotune("measure", "--help", cwd=tmp_path, env=environment(COLUMNS="100"))
    assert done.returncode == 0
    for option in ("--url URL", "--rate REQ/S", "--replay", "--gaps", "--hold-out", "--good LIMIT",
                   "--compare BEFORE AFTER", "-o, --output FILE", "--json"):  # fmt: skip
        assert option in done.stdout
    assert "  autotune measure --compare before.json after.json" in done.stdout
    assert "TEXT" not in done.stdout.replace("--api TEXT", "")
    assert max(map(len, done.stdout.splitlines())) <= 100
