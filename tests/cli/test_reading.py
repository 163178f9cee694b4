"""Commands that read a finished study: show, pareto, export, report, dashboard."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from autotune.engine.ports import free_port

from .commands import autotune, complaint, environment, started, wait_until
from .conftest import FinishedStudy


def http_json(url: str) -> Any:  # noqa: ANN401 (a JSON document)
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def front_of(study: FinishedStudy, *words: str) -> dict[str, Any]:
    done = autotune("pareto", "--json", *words, cwd=study.directory)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


# ---- show and pareto ------------------------------------------------------------------------


def test_show_lists_every_trial_and_the_front(finished: FinishedStudy) -> None:
    done = autotune("show", cwd=finished.directory)
    assert done.returncode == 0 and done.stderr == ""
    assert "study s" in done.stdout and "SIMULATED" in done.stdout and "Front" in done.stdout
    assert "baseline" in done.stdout and "tok/s" in done.stdout
    assert "SIMULATED" in autotune("pareto", cwd=finished.directory).stdout
    assert front_of(finished)["simulated"] is True


def test_show_as_json_adds_the_records_to_the_front(finished: FinishedStudy) -> None:
    done = autotune("show", "--json", cwd=finished.directory)
    document = json.loads(done.stdout)
    assert [trial["number"] for trial in document["trials"]] == [0, 1, 2]
    del document["trials"]
    assert document == front_of(finished)


def test_show_gives_the_running_limit_as_the_reason_of_a_queue(finished: FinishedStudy) -> None:
    """Whatever trial has five steps in the study: its running limit is far below 16."""
    done = json.loads(autotune("show", "--json", cwd=finished.directory).stdout)
    for trial in done["trials"]:
        codes = [warning["code"] for warning in trial["warnings"]]
        queues = trial["effective"]["max_running_requests"] < 16
        assert ("concurrency_above_running_limit" in codes) == queues


def test_the_weight_may_change_after_the_run(finished: FinishedStudy) -> None:
    own, other = front_of(finished), front_of(finished, "--weight", "latency=0.2")
    assert other["objective"]["weights"] == {"latency": 0.2, "throughput": 0.8}
    assert other["front"] != own["front"], "scores change"
    assert [s["trial"] for s in other["front"]] == [s["trial"] for s in own["front"]]
    same = front_of(finished, "--weight", "throughput=0.3")
    assert same["best"] == own["best"]


def test_the_newest_study_is_read_when_none_is_named(finished: FinishedStudy) -> None:
    assert front_of(finished) == front_of(finished, "--study", "s")


# ---- export ---------------------------------------------------------------------------------


def winner(study: FinishedStudy) -> dict[str, Any]:
    flags: dict[str, Any] = front_of(study)["best"]["flags"]
    return flags


def test_export_as_flags_is_one_line_to_append(finished: FinishedStudy) -> None:
    done = autotune("export", "--format", "flags", cwd=finished.directory)
    words = shlex.split(done.stdout)
    assert done.stdout.count("\n") == 1
    assert dict(zip(words[::2], words[1::2], strict=True)) == {
        "--" + name.replace("_", "-"): str(value) for name, value in winner(finished).items()
    }


def test_export_as_json_holds_flags_command_and_origin(finished: FinishedStudy) -> None:
    document = json.loads(autotune("export", "--format", "json", cwd=finished.directory).stdout)
    assert document["flags"] == winner(finished)
    assert document["study"] == "s" and document["versions"]["sglang"]
    assert "--mem-fraction-static" in document["command"]
    assert any("SIMULATED" in line for line in document["provenance"])


def test_an_exported_script_starts_a_server_with_exactly_the_winning_flags(
    finished: FinishedStudy, tmp_path: Path
) -> None:
    script = tmp_path / "launch.sh"
    done = autotune("export", "-o", str(script), cwd=finished.directory)
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert os.access(script, os.X_OK)
    port = free_port()
    with_port = script.read_text().rstrip() + f" --port {port}\n"
    script.write_text(
        with_port.replace(f"\n{shlex.quote(sys.executable)}", f"\nexec {sys.executable}")
    )
    server = subprocess.Popen([str(script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        info: dict[str, Any] = {}

        def answers() -> bool:
            try:
                info.update(http_json(f"http://127.0.0.1:{port}/server_info"))
            except OSError:
                return False
            return True

        assert wait_until(answers), "the exported server never answered"
        expected = winner(finished) | {"mem_fraction_static": 0.85, "model_path": "M"}
        assert {name: info[name] for name in expected} == expected
    finally:
        server.terminate()
        server.communicate(timeout=20)


@pytest.mark.parametrize(
    "words",
    [
        ("--best", "throughput"), ("--knee",), ("--trial", "2"), ("--max-latency", "100"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_other_choices_export_other_members(
    finished: FinishedStudy, words: tuple[str, ...]
) -> None:
    done = autotune("export", "--format", "json", *words, cwd=finished.directory)
    assert done.returncode == 0, done.stderr
    document, front = json.loads(done.stdout), front_of(finished)
    expected = {
        "--best": front_of(finished, "--weight", "latency=0.2")["best"]["trial"],
        "--knee": front["knee"]["trial"],
        "--trial": 2,
        "--max-latency": max(front["front"], key=lambda s: s["throughput_tok_s"]["value"])["trial"],
    }
    assert document["trial"] == expected[words[0]]


# ---- report ---------------------------------------------------------------------------------


def test_report_writes_one_page_that_needs_no_network(
    finished: FinishedStudy, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    done = autotune("report", "-o", str(page), cwd=finished.directory)
    assert done.returncode == 0 and done.stdout.strip() == str(page)
    html = page.read_text()
    assert html.count("<html") == 1 and "<title>s: launch flags found by autotune</title>" in html
    assert not re.search(r"<(script|link)[^>]+(src|href)=.?https?:", html)


# ---- dashboard ------------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_the_dashboard_serves_the_study_until_a_signal(
    finished: FinishedStudy, signum: signal.Signals
) -> None:
    with started("dashboard", "--port", "0", cwd=finished.directory) as child:
        assert child.stdout is not None
        address = child.stdout.readline().split()[0]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/dashboard/studies/\d+", address)
        with urllib.request.urlopen(address, timeout=10) as page:
            assert b"<html" in page.read().lower()
        root = address.partition("/dashboard")[0]
        summaries = http_json(f"{root}/api/studies")["study_summaries"]
        assert [summary["study_name"] for summary in summaries] == ["s"]
        child.send_signal(signum)
        out, err = child.communicate(timeout=15)
        assert child.returncode == 128 + signum
        assert "Traceback" not in err + out


def test_a_taken_port_is_told_in_one_sentence(finished: FinishedStudy) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = autotune("dashboard", "--port", port, cwd=finished.directory)
    assert done.returncode == 2
    assert f"port {port}" in complaint(done) and "--port" in complaint(done)


@pytest.mark.parametrize("port", ["65536", "-1", "99999"])
def test_a_port_that_no_machine_has_is_refused(finished: FinishedStudy, port: str) -> None:
    done = autotune("dashboard", "--port", port, cwd=finished.directory)
    assert done.returncode == 2
    assert port in complaint(done)


def test_reading_ends_quietly_when_nobody_reads_the_pipe(finished: FinishedStudy) -> None:
    line = f"{shlex.quote(sys.executable)} -m autotune show --json | true"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=finished.directory, env=environment(), capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.stderr == ""
