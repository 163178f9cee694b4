"""What programs print: logs, stack traces, test runs, listings."""

from __future__ import annotations

from autotune.workload.text.pen import Pen, fill, gerund, past
from autotune.workload.text.prose import clause
from autotune.workload.text.python import python
from autotune.workload.text.words import ADJECTIVES, KINDS, NOUNS, PLACES, ROLES, VERBS

_LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "INFO", "WARNING", "ERROR")
_METHODS = ("GET", "GET", "GET", "POST", "PUT", "DELETE", "PATCH")
_STATUS = (200, 200, 200, 201, 204, 301, 304, 400, 401, 404, 409, 422, 429, 500, 502, 503)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SUFFIXES = (".py", ".py", ".ts", ".rs", ".go", ".sql", ".yaml", ".md", ".json", ".toml")
_FAULTS = (
    "ConnectionResetError", "KeyError", "ValueError", "AssertionError", "TimeoutError",
    "UnicodeDecodeError", "PermissionError", "IntegrityError", "RecursionError", "IndexError",
)  # fmt: skip


class _Clock:
    """Time stamps that only go forward."""

    def __init__(self, pen: Pen) -> None:
        self._pen, self._second = pen, pen.draw() * 80_000
        self.date = f"{pen.pick(_MONTHS)} {pen.number(1, 28)}"

    def next(self) -> str:
        self._second += self._pen.draw() ** 4 * 30
        second = int(self._second)
        return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def log(pen: Pen, n_chars: int) -> str:
    """A log in one of several formats."""
    clock = _Clock(pen)
    line = pen.pick((_plain_line, _access_line, _pairs_line, _kernel_line, _build_line))
    return fill(lambda: line(pen, clock), n_chars, "\n")


def _plain_line(pen: Pen, clock: _Clock) -> str:
    where = f"{pen.pick(NOUNS)}.{pen.pick(ROLES)}"
    return f"{clock.next()} {pen.pick(_LEVELS):7} [{where}] {_event(pen)}"


def _event(pen: Pen) -> str:
    shape = int(pen.draw() * 6)
    if shape == 0:
        return (
            f"{past(pen.pick(VERBS))} {pen.number(1, 4000)} {pen.things()} in {pen.size(1, 900)} ms"
        )
    if shape == 1:
        return f"{clause(pen)}"
    if shape == 2:
        return f"cannot {pen.pick(VERBS)} {pen.snake()}={pen.size(0, 9999)}, will retry"
    if shape == 3:
        return f"{gerund(pen.pick(VERBS))} {pen.things()} ({pen.number(1, 99)} %)"
    if shape == 4:
        return f"{pen.type_name()} is {pen.pick(ADJECTIVES)}, {pen.pick(KINDS)} {pen.hexa(20)}"
    return f"{pen.function()} took {pen.draw() * 9:.2f} s for {pen.thing()}"


def _access_line(pen: Pen, clock: _Clock) -> str:
    client = f"{pen.pick(NOUNS)}-{pen.pick(KINDS)}.{pen.pick(PLACES).lower()}.example"
    query = f"{pen.snake()}={pen.pick(ADJECTIVES)}"
    target = f"/{pen.pick(NOUNS)}s/{pen.pick(VERBS)}/{pen.size(1, 999)}?{query}"
    request = f"{pen.pick(_METHODS)} {target} HTTP/1.1"
    return f'{client} [{clock.next()}] "{request}" {pen.pick(_STATUS)} {pen.size(0, 9000)}'


def _pairs_line(pen: Pen, clock: _Clock) -> str:
    values = (pen.pick(NOUNS), pen.number(0, 9999), pen.pick(ADJECTIVES), f"{pen.draw():.2f}")
    pairs = " ".join(f"{pen.snake()}={pen.pick(values)}" for _ in range(pen.number(1, 4)))
    level = pen.pick(_LEVELS).lower()
    return f'ts={clock.next()} level={level} msg="{_event(pen)}" {pairs}'


def _kernel_line(pen: Pen, clock: _Clock) -> str:
    host, program = f"{pen.pick(NOUNS)}-{pen.pick(KINDS)}", f"{pen.pick(NOUNS)}d"
    return f"{clock.date} {clock.next()} {host} {program}: {_event(pen)}"


def _build_line(pen: Pen, clock: _Clock) -> str:
    shape = pen.draw()
    if shape < 0.5:
        return f"[{clock.next()}] {pen.pick(VERBS).capitalize()} {pen.path(pen.pick(_SUFFIXES))}"
    if shape < 0.8:
        where = f"{pen.path('.ts')}:{pen.number(1, 800)}:{pen.number(1, 90)}"
        return f"{where} - {pen.pick(('warning', 'error'))} {pen.pick(KINDS)}: {clause(pen)}"
    return f"  ✓ {pen.pick(VERBS)} {pen.things()} ({pen.size(1, 4000)} ms)"


def stack_trace(pen: Pen, n_chars: int) -> str:
    """One or more Python tracebacks."""
    return fill(lambda: _one_trace(pen, min(7, 2 + n_chars // 300)), n_chars, "\n\n")


def _one_trace(pen: Pen, most_frames: int) -> str:
    lines = ["Traceback (most recent call last):"]
    for _ in range(pen.number(2, most_frames)):
        where = f'  File "/srv/{pen.path(".py")}", line {pen.number(3, 1400)}, in {pen.function()}'
        call = f"    {pen.snake()} = self.{pen.function()}({pen.snake()}, {pen.snake()})"
        lines += [where, call]
    return "\n".join([*lines, f"{pen.pick(_FAULTS)}: {clause(pen)}"])


def runner_report(pen: Pen, n_chars: int) -> str:
    """What a test runner prints: names, then the failures in full."""
    n_names = max(1, n_chars // 200)
    names = [
        f"tests/{pen.pick(NOUNS)}/test_{pen.snake()}.py::test_{pen.function()} "
        f"{pen.pick(('PASSED', 'PASSED', 'PASSED', 'FAILED', 'SKIPPED'))}"
        for _ in range(n_names)
    ]
    head = "\n".join(names)
    rest = fill(lambda: _failure(pen), n_chars - len(head), "\n")
    closing = f"{pen.number(1, 9)} failed, {pen.number(3, 900)} passed in {pen.draw() * 90:.2f}s"
    return f"{head}\n{rest}\n==== {closing} ===="


def _failure(pen: Pen) -> str:
    code = python(pen, 160).replace("\n", "\n    ")
    left, right = pen.number(0, 999), pen.number(0, 999)
    return (
        f"____ test_{pen.function()} ____\n    {code}\n"
        f"E   assert {left} == {right}\nE    +  where {left} = {pen.function()}({pen.snake()})\n"
        f"{pen.path('.py')}:{pen.number(3, 700)}: {pen.pick(_FAULTS)}"
    )


def listing(pen: Pen, n_chars: int) -> str:
    """A directory, long or as a tree."""
    if pen.draw() < 0.5:
        return fill(lambda: _long_line(pen), n_chars, "\n")
    return fill(lambda: _branch(pen), n_chars, "\n")


def _long_line(pen: Pen) -> str:
    mode = pen.pick(("-rw-r--r--", "-rwxr-xr-x", "drwxr-xr-x", "-rw-rw----"))
    size = f"{pen.number(1, 99)}{pen.pick('BKKKM')}"
    when = f"{pen.pick(_MONTHS)} {pen.number(1, 28)}"
    owner = pen.pick(("root", "deploy", "ci", "app"))
    return f"{mode} {owner} {owner} {size:>4} {when:>6} {pen.snake()}{pen.pick(_SUFFIXES)}"


def _branch(pen: Pen) -> str:
    files = [f"│   ├── {pen.snake()}{pen.pick(_SUFFIXES)}" for _ in range(pen.size(1, 7))]
    return "\n".join([f"├── {pen.pick(NOUNS)}_{pen.pick(KINDS)}", *files])


def repository_map(pen: Pen, n_chars: int) -> str:
    """Files with the names they define, as agents are given of a large repository."""

    def entry() -> str:
        names = [
            f"    class {pen.type_name()}" if pen.draw() < 0.3 else f"    {pen.function()}()"
            for _ in range(pen.number(1, 5))
        ]
        return "\n".join([pen.path(pen.pick(_SUFFIXES)), *names])

    return fill(entry, n_chars, "\n")
