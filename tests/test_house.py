"""The house rules: who may import whom, how long a file may be, what ``--help`` may load."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import autotune

PACKAGE = Path(autotune.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
COMMANDS = (
    "optimize", "measure", "show", "pareto", "export", "report", "dashboard", "space",
    "diagnose", "explain", "schema", "adaptive",
)  # fmt: skip
HEAVY = ("optuna", "optuna_dashboard", "plotly", "scipy", "httpx", "numpy")

FOUNDATION = {"autotune", "errors", "events"}
MAY_IMPORT = {
    "autotune": {"space", "study"},  # the public names, imported when they are asked for
    "__main__": {"cli"},
    "errors": set[str](),
    "events": set[str](),
    "core": {"errors", "events"},
    "space": {"core"},
    "workload": {"core"},
    "measure": {"core", "workload"},
    "engine": {"core", "space"},
    "search": {"core", "space"},
    "study": {"core", "space", "workload", "measure", "engine", "search"},
    "report": {"core", "space", "engine", "search", "study", "explain"},
    "export": {"core", "space", "engine", "study"},
    "explain": {"core", "space", "engine", "search", "study"},
    "dashboard": {"core", "space", "study", "report"},
    "cli": {
        "core", "space", "workload", "measure", "engine", "search", "study", "report", "export",
        "explain", "dashboard",
    },
}  # fmt: skip
READING_SIDE = {
    f"autotune.study.{name}"
    for name in (
        "reading", "store", "budget", "choice", "confirmation", "words", "verdict", "artifacts",
        "adaptation", "adaptive_verdict", "suggestion", "learned",
    )
}  # fmt: skip
THE_COMMAND = {
    f"autotune.engine.sglang.{name}"
    for name in ("adaptive", "command", "container", "flags", "placement", "versions")
}
"""How a launch command is written: views read it and start nothing."""


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return "autotune" if first == "__init__.py" else first.removesuffix(".py")


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_rooms(path: Path) -> Iterator[tuple[str, str]]:
    for module in imported_modules(path):
        first, _, rest = module.partition(".")
        if first == "autotune":
            inner = rest.partition(".")[0]
            is_room = (PACKAGE / inner).is_dir() or (PACKAGE / f"{inner}.py").exists()
            yield (inner if inner and is_room else "autotune"), module


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_room_imports_only_the_rooms_below_it(path: Path) -> None:
    room = room_of(path)
    allowed = MAY_IMPORT[room] | FOUNDATION | {room}
    wrong = [module for other, module in imported_rooms(path) if other not in allowed]
    assert not wrong, f"{room} must not import {wrong}"


@pytest.mark.parametrize("room", ["report", "export", "dashboard"])
def test_views_import_only_the_reading_side_of_a_study(room: str) -> None:
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for other, module in imported_rooms(path):
            allowed = {"study": READING_SIDE, "engine": THE_COMMAND}.get(other)
            if allowed is not None:
                assert any(f"{module}.".startswith(f"{name}.") for name in allowed), (path, module)


def test_every_room_is_in_the_table() -> None:
    assert {room_of(path) for path in FILES} <= set(MAY_IMPORT)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_file_is_longer_than_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_function_is_longer_than_60_lines(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno + 1 <= 60, f"{path}: {node.name}"


def test_no_module_is_called_utils() -> None:
    names = {part for path in FILES for part in path.relative_to(PACKAGE).with_suffix("").parts}
    assert names.isdisjoint({"utils", "util", "helpers", "common", "misc"})


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_only_the_command_line_and_the_simulated_server_print(path: Path) -> None:
    parts = path.relative_to(PACKAGE).parts
    if parts[0] == "cli" or parts[:2] == ("engine", "simulated"):
        return
    calls = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)]
    printed = [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
    assert not printed


SHOW_LOADED = """
import sys
from autotune.cli.main import run
code = run(sys.argv[1:])
print("LOADED", *sorted({name.partition(".")[0] for name in sys.modules}))
sys.exit(code)
"""


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS)], ids=" ".join)
def test_help_loads_no_heavy_module(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW_LOADED, *words, "--help"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text, _, loaded = done.stdout.rpartition("LOADED ")
    assert "Usage: autotune" in text
    assert set(loaded.split()).isdisjoint(HEAVY)


def cpu_seconds(*words: str) -> float:
    child = subprocess.Popen(
        [sys.executable, "-m", "autotune", *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return used.ru_utime + used.ru_stime


def test_help_answers_in_a_quarter_of_a_second_of_cpu() -> None:
    assert min(cpu_seconds("--help") for _ in range(3)) < 0.25
