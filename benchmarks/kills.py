"""Kills tuners at random moments, and looks for anything that is left of them.

Each run is a real ``autotune optimize`` or ``autotune measure`` on simulated servers, ended by a
signal, by two, or with its terminal. Afterwards there must be no process, no port and no file but
those of the study, and the study must go on with all that was measured.
"""

from __future__ import annotations

import fcntl
import os
import pty
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click
import msgspec
import psutil

from autotune.engine.ports import can_bind
from benchmarks.output import ROOT, Result, show

ENDINGS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "two SIGINT", "terminal closed")
_MARK = "KILLED_RUN"
"""Environment variable that all processes of one run inherit, helpers of the tuner included."""
_TRIALS = 2
_SERVE = (
    *(sys.executable, "-m", "autotune.engine.simulated", "--scenario", "qwen3.5-122b-sweep"),
    *("--startup-speed", "100", "--speed", "60", "--model-path", "M"),
    *("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "2"),
    *("--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3"),
)
_COMMANDS = {
    "optimize": (
        *("optimize", "--study", "s", "--space", "steps-only", "--trials", str(_TRIALS)),
        *("--serving-concurrency", "16", "--", *_SERVE),
    ),
    "measure": ("measure", "--concurrency", "1,8", "--", *_SERVE),
}
_SPAN_S = 6.0
"""Moments are drawn from this time after the start: a run takes a little longer."""
_END_S = 30.0
_GONE_S = 15.0
_RESUME_S = 120.0


@dataclass(frozen=True, slots=True)
class Case:
    """One run and how it ends: ``moment_s`` after its start."""

    number: int
    command: str
    ending: str
    moment_s: float
    between_s: float

    def __str__(self) -> str:
        return f"run {self.number}: {self.command}, {self.ending} at {self.moment_s:.3f} s"


@dataclass(slots=True)
class Outcome:
    """What became of a run: whether it met its signal, and every complaint, as a sentence."""

    case: Case
    hit: bool = False
    complaints: list[str] = field(default_factory=list)


def cases(n: int, seed: int, span_s: float = _SPAN_S) -> list[Case]:
    """Runs with every ending in turn; one in four is a ``measure``."""
    draw = random.Random(seed)
    return [
        Case(
            number,
            "measure" if number % 4 == 3 else "optimize",
            ENDINGS[number % len(ENDINGS)],
            draw.uniform(0, span_s),
            draw.uniform(0, 0.3),
        )
        for number in range(n)
    ]


def attack(case: Case, folder: Path) -> Outcome:
    """Plays one run in a folder of its own, which stays where there is something to complain."""
    run = _Run(case, folder / f"{case.number:03d}")
    outcome = run.play()
    if not outcome.complaints:
        shutil.rmtree(run.folder)
    return outcome


class _Run:
    def __init__(self, case: Case, folder: Path) -> None:
        self.folder = folder
        self._case = case
        self._work, self._temporary = folder / "work", folder / "tmp"
        for path in (self._work, self._temporary):
            path.mkdir(parents=True)
        self._mark = uuid.uuid4().hex
        self._outcome = Outcome(case)

    def play(self) -> Outcome:
        child = self._started_and_ended()
        if child.poll() is None and not _within(_END_S, lambda: child.poll() is not None):
            self._complain(f"still runs {_END_S:.0f} s later")
            child.kill()
            child.wait()
        self._look_at_exit(child.returncode)
        self._look_for_leftovers()
        if self._case.command == "optimize":
            before = self._records()
            self._resume()
            after = self._records()
            lost = [name for name, record in before.items() if after.get(name) != record]
            if lost:
                self._complain(f"lost or changed: {', '.join(sorted(lost))}")
            self._look_for_leftovers()
        return self._outcome

    def _complain(self, text: str) -> None:
        self._outcome.complaints.append(text)

    # ---- start and end ------------------------------------------------------------------------

    def _started_and_ended(self) -> subprocess.Popen[bytes]:
        ends = time.monotonic() + self._case.moment_s
        if self._case.ending == "terminal closed":
            return self._in_a_terminal(ends)
        with (self.folder / "out").open("wb") as out:
            child = self._start(out.fileno())
        _within(self._case.moment_s, lambda: child.poll() is not None)
        time.sleep(max(0.0, ends - time.monotonic()) if child.poll() is None else 0.0)
        self._outcome.hit = child.poll() is None
        if self._case.ending == "two SIGINT":
            child.send_signal(signal.SIGINT)
            time.sleep(self._case.between_s)
            child.send_signal(signal.SIGINT)
        else:
            child.send_signal(signal.Signals[self._case.ending])
        return child

    def _in_a_terminal(self, ends: float) -> subprocess.Popen[bytes]:
        ours, theirs = pty.openpty()
        child = self._start(theirs, own_terminal=True)
        os.close(theirs)
        with (self.folder / "out").open("wb") as out:
            while (left_s := ends - time.monotonic()) > 0 and child.poll() is None:
                if select.select([ours], [], [], left_s)[0]:
                    with suppress(OSError):  # EIO: it has ended
                        out.write(os.read(ours, 65536))
        self._outcome.hit = child.poll() is None
        os.close(ours)
        return child

    def _start(self, out: int, *, own_terminal: bool = False) -> subprocess.Popen[bytes]:
        def prepare() -> None:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # this may run under nohup
            if own_terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        return subprocess.Popen(
            [sys.executable, "-m", "autotune", *_COMMANDS[self._case.command]],
            cwd=self._work,
            env=self._environment(),
            stdin=out if own_terminal else subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=prepare,
        )

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("AUTOTUNE_") and k != "CI"}
        path = f"{ROOT}{os.pathsep}{kept.get('PYTHONPATH', '')}"
        return kept | {_MARK: self._mark, "TMPDIR": str(self._temporary), "PYTHONPATH": path}

    # ---- what is left -------------------------------------------------------------------------

    def _look_at_exit(self, status: int) -> None:
        name = "SIGHUP" if self._case.ending == "terminal closed" else self._case.ending.split()[-1]
        signum = signal.Signals[name]
        # What ends while its signal is on the way has simply ended.
        as_usual = status == 0 and self._finished()
        if status not in (-signum, 128 + signum) and not as_usual:
            self._complain(f"exit status {status}")
        said = (self.folder / "out").read_text(errors="replace")
        if "Traceback" in said and "in <module>" not in said.rpartition("Traceback")[2][:200]:
            self._complain("a traceback")

    def _finished(self) -> bool:
        done = [r for r in self._records().values() if b'"complete"' in r]
        return self._case.command == "measure" or len(done) >= _TRIALS

    def _look_for_leftovers(self) -> None:
        if not _within(_GONE_S, lambda: not self._processes()):
            self._complain(f"processes: {'; '.join(self._processes())}")
        busy = [port for port in self._ports() if not can_bind(port)]
        if busy:
            self._complain(f"ports: {busy}")
        expected = {"studies"} if self._case.command == "optimize" else set()
        files = list(self._temporary.rglob("*"))
        files += [path for path in self._work.iterdir() if path.name not in expected]
        files += [path for path in self._work.rglob("*.tmp") if self._outcome_is_final()]
        if files:
            self._complain(f"files: {', '.join(str(p.relative_to(self.folder)) for p in files)}")

    def _outcome_is_final(self) -> bool:
        """A half-written record may stand in the study until the study goes on."""
        return (self.folder / "out-again").exists()

    def _processes(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                mine = process.environ().get(_MARK) == self._mark
                if mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        return found

    def _ports(self) -> list[int]:
        scripts = self._work.glob("studies/s/trials/*/launch.sh")
        found = (re.search(r"--port (\d+)", script.read_text()) for script in scripts)
        return [int(match[1]) for match in found if match]

    # ---- going on -----------------------------------------------------------------------------

    def _records(self) -> dict[str, bytes]:
        """Complete records by their folder."""
        paths = self._work.glob("studies/s/trials/*/record.json")
        found = {path.parent.name: path.read_bytes() for path in paths}
        return {
            name: data
            for name, data in found.items()
            if msgspec.json.decode(data)["status"] == "complete"
        }

    def _resume(self) -> None:
        with (self.folder / "out-again").open("wb") as out:
            child = self._start(out.fileno())
            try:
                status = child.wait(_RESUME_S)
            except subprocess.TimeoutExpired:
                child.kill()
                status = child.wait()
        if status != 0:
            said = (self.folder / "out-again").read_text(errors="replace").splitlines()
            self._complain(f"does not go on: status {status}: {' / '.join(said[-3:])}")
        elif not self._finished():
            self._complain("went on, and is not finished")


def _within(limit_s: float, done: Callable[[], bool]) -> bool:
    ends = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    return True


def play(todo: Sequence[Case], folder: Path, jobs: int) -> list[Outcome]:
    """Plays all runs, so many at a time; tells of each that left something."""
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = []
        for outcome in pool.map(lambda case: attack(case, folder), todo):
            outcomes.append(outcome)
            for complaint in outcome.complaints:
                click.echo(f"{outcome.case}: {complaint}", err=True)
        return outcomes


def result(outcomes: Sequence[Outcome]) -> Result:
    n, hit, bad = (Counter[str]() for _ in range(3))
    for outcome in outcomes:
        ending = outcome.case.ending
        n[ending] += 1
        hit[ending] += outcome.hit
        bad[ending] += bool(outcome.complaints)
    return Result(
        title="Tuners killed at random moments",
        columns=("ended by", "runs", "met at work", "left something"),
        rows=[[name, str(n[name]), str(hit[name]), str(bad[name])] for name in ENDINGS],
        missed=[f"{o.case}: {text}" for o in outcomes for text in o.complaints],
        values={"n_runs": len(outcomes), "n_met": sum(hit.values()), "n_bad": sum(bad.values())},
    )


@click.command(help="Kill tuners at random moments; look for anything that is left.")
@click.option("--runs", type=int, default=200, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--jobs", type=int, default=2, show_default=True, help="So many at a time.")
@click.option("--only", type=int, multiple=True, help="Play these runs of the seed alone.")
def main(runs: int, seed: int, jobs: int, only: tuple[int, ...]) -> None:
    """Exit code 1 where a run left something; its folder stays."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    todo = [case for case in cases(runs, seed) if not only or case.number in only]
    told = result(play(todo, folder, jobs))
    show(told)
    click.echo(f"{len(todo)} runs of seed {seed} in {time.monotonic() - began:.0f} s")
    if told.missed:
        click.echo(f"what the failed runs left is in {folder}")
        sys.exit(1)
    folder.rmdir()


if __name__ == "__main__":
    main()
