"""Python source that compiles: functions, classes and tests, none like the other."""

from __future__ import annotations

from autotune.workload.text.pen import Pen, fill
from autotune.workload.text.prose import clause, sentence
from autotune.workload.text.words import ADJECTIVES, NOUNS, VERBS

_TYPES = (
    "int", "str", "float", "bytes", "bool", "list[str]", "dict[str, int]", "Path", "datetime",
    "tuple[int, ...]", "Sequence[float]", "int | None", "str | None", "set[str]", "Decimal",
    "Iterable[str]", "Mapping[str, object]", "Callable[[str], bool]",
)  # fmt: skip
_ERRORS = (
    "ValueError", "KeyError", "TimeoutError", "RuntimeError", "LookupError", "OSError", "TypeError",
)  # fmt: skip
_MODULES = (
    "json", "re", "time", "asyncio", "logging", "itertools", "functools", "math", "os", "sqlite3",
    "contextlib", "hashlib", "datetime", "statistics", "struct", "tempfile", "uuid", "zlib",
)  # fmt: skip
_OPERATORS = ("+", "-", "*", "//", "%", "|", "&", "^")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "is not")
_LEVELS = ("debug", "info", "warning", "error", "exception")


def python_file(pen: Pen, n_chars: int) -> str:
    """A module: imports, constants, then functions and classes."""
    if n_chars < 500:
        return python(pen, n_chars)
    head = f'"""{sentence(pen)}"""\n\n{_imports(pen)}\n\n{_constants(pen)}\n\n\n'
    return head + python(pen, n_chars - len(head))


def python(pen: Pen, n_chars: int) -> str:
    """Top-level definitions of about this length together."""
    return fill(lambda: _definition(pen, n_chars), n_chars, "\n\n\n")


def _definition(pen: Pen, n_chars: int) -> str:
    shape = pen.draw()
    if n_chars < 250 or shape < 0.6:
        return _function(pen, "", min(14, n_chars // 60))
    if shape < 0.72:
        return _record(pen)
    return _class(pen) if shape < 0.88 and n_chars > 900 else _test(pen)


def _imports(pen: Pen) -> str:
    plain = sorted({pen.pick(_MODULES) for _ in range(pen.number(1, 5))})
    own = {f"from {pen.pick(NOUNS)}.{pen.snake()} import {pen.type_name()}" for _ in range(3)}
    return "\n".join([*(f"import {name}" for name in plain), "", *sorted(own)])


def _constants(pen: Pen) -> str:
    return "\n".join(f"{pen.snake().upper()} = {_literal(pen)}" for _ in range(pen.number(1, 4)))


def _literal(pen: Pen) -> str:
    shape = int(pen.draw() * 6)
    if shape == 0:
        return str(pen.number(0, 65536))
    if shape == 1:
        return f"{pen.draw():.3f}"
    if shape == 2:
        return f'"{pen.pick(ADJECTIVES)}-{pen.pick(NOUNS)}"'
    if shape == 3:
        return f'("{pen.pick(NOUNS)}", "{pen.pick(NOUNS)}", {pen.number(0, 99)})'
    if shape == 4:
        return f'{{"{pen.snake()}": {pen.number(0, 999)}, "{pen.snake()}": None}}'
    return f"[{pen.number(1, 60)}, {pen.number(60, 900)}]"


def _function(pen: Pen, indent: str, n_statements: int) -> str:
    names = [pen.snake() for _ in range(pen.number(1, min(4, 1 + n_statements)))]
    typed = [f"{name}: {pen.pick(_TYPES)}" for name in dict.fromkeys(names)]
    if indent:
        typed.insert(0, "self")
    if pen.draw() < 0.3:
        typed.append(f"limit: int = {pen.number(1, 512)}")
    kind = "async def" if pen.draw() < 0.15 else "def"
    lines = [f"{indent}{kind} {pen.function()}({', '.join(typed)}) -> {pen.pick(_TYPES)}:"]
    inner = f"{indent}    "
    if n_statements > 4 and pen.draw() < 0.55:
        lines.append(f'{inner}"""{sentence(pen)}"""')
    for _ in range(pen.number(1, max(1, n_statements))):
        lines.extend(_statement(pen, inner, names))
    lines.append(f"{inner}return {_expression(pen, names)}")
    return "\n".join(lines)


def _name(pen: Pen, names: list[str]) -> str:
    """Mostly a name that is there already, as in real code."""
    if pen.draw() < 0.7:
        return pen.pick(names)
    name = pen.snake()
    names.append(name)
    return name


def _expression(pen: Pen, names: list[str]) -> str:
    shape, one = int(pen.draw() * 10), _name(pen, names)
    if shape == 0:
        return f"{one} {pen.pick(_OPERATORS)} {pen.number(1, 4096)}"
    if shape == 1:
        return f"{pen.function()}({one}, {pen.snake()}={_literal(pen)})"
    if shape == 2:
        return f"[{pen.pick(VERBS)}(item) for item in {one} if item.{pen.snake()}]"
    if shape == 3:
        return f'{one}.get("{pen.snake()}", {_literal(pen)})'
    if shape == 4:
        return f"sorted({one}, key=lambda item: item.{pen.snake()})[:{pen.number(1, 40)}]"
    if shape == 5:
        return f"{{entry.{pen.snake()}: entry for entry in {one}}}"
    if shape == 6:
        return f"max({one}.{pen.snake()}, {_name(pen, names)})"
    if shape == 7:
        return f'f"{pen.pick(NOUNS)} {{{one}}} of {{{_name(pen, names)}!r}}"'
    if shape == 8:
        return f"self.{pen.snake()}({one})"
    return f"{one}.{pen.pick(VERBS)}({_name(pen, names)})"


def _condition(pen: Pen, names: list[str]) -> str:
    shape, one = pen.draw(), _name(pen, names)
    if shape < 0.3:
        return f"{one} is None"
    if shape < 0.5:
        return f"not {one}.{pen.snake()}"
    if shape < 0.8:
        return f"{one}.{pen.snake()} {pen.pick(_COMPARISONS)} {_name(pen, names)}"
    return f"isinstance({one}, {pen.type_name()})"


def _statement(pen: Pen, indent: str, names: list[str]) -> list[str]:
    """The lines of one statement; never comments alone, so that it can be a block."""
    shape = 0 if len(indent) > 12 else int(pen.draw() * 15)
    if shape < 4:
        return [f"{indent}{_name(pen, names)} = {_expression(pen, names)}"]
    if shape == 4:
        return [f"{indent}# {clause(pen)}", f"{indent}{pen.snake()} = {_expression(pen, names)}"]
    if shape == 5:
        words = f'"{pen.pick(NOUNS)} {pen.pick(VERBS)}: %s", {_name(pen, names)}'
        return [f"{indent}logger.{pen.pick(_LEVELS)}({words})"]
    if shape == 6:
        return [f"{indent}assert {_condition(pen, names)}, {_literal(pen)}"]
    if shape == 7:
        return [f"{indent}{pen.pick(names)}.{pen.pick(VERBS)}({_literal(pen)})"]
    if shape < 13:
        return _block(pen, indent, names, shape)
    return [f"{indent}{pen.function()}({_expression(pen, names)})"]


def _block(pen: Pen, indent: str, names: list[str], shape: int) -> list[str]:
    inner = f"{indent}    "
    if shape == 8:
        fault = f'{pen.pick(_ERRORS)}(f"{pen.pick(NOUNS)} {{{_name(pen, names)}}}")'
        return [f"{indent}if {_condition(pen, names)}:", f"{inner}raise {fault}"]
    if shape == 9:
        lines = [f"{indent}if {_condition(pen, names)}:", *_statement(pen, inner, names)]
        if pen.draw() < 0.4:
            lines += [f"{indent}else:", *_statement(pen, inner, names)]
        return lines
    if shape == 10:
        head = f"{indent}for {pen.snake()} in {_expression(pen, names)}:"
    elif shape == 11:
        head = f"{indent}with {pen.function()}({pen.pick(names)}) as {pen.snake()}:"
    else:
        lines = [f"{indent}try:", *_statement(pen, inner, names)]
        return [*lines, f"{indent}except {pen.pick(_ERRORS)}:", *_statement(pen, inner, names)]
    return [head, *_statement(pen, inner, names), *_statement(pen, inner, names)]


def _class(pen: Pen) -> str:
    base = f"({pen.type_name()})" if pen.draw() < 0.5 else ""
    head = f'class {pen.type_name()}{base}:\n    """{sentence(pen)}"""\n\n'
    methods = [_function(pen, "    ", 6) for _ in range(pen.number(2, 4))]
    return head + "\n\n".join(methods)


def _record(pen: Pen) -> str:
    fields = [
        f"    {pen.snake()}: {pen.pick(_TYPES)}  # {clause(pen)}"
        if pen.draw() < 0.3
        else f"    {pen.snake()}: {pen.pick(_TYPES)}"
        for _ in range(pen.number(3, 8))
    ]
    return "\n".join(["@dataclass(frozen=True)", f"class {pen.type_name()}:", *fields])


def _test(pen: Pen) -> str:
    cases = [f"    ({_literal(pen)}, {_literal(pen)})," for _ in range(pen.number(2, 6))]
    head = ['@pytest.mark.parametrize(("given", "wanted"), [', *cases, "])"]
    name = f"def test_{pen.function()}_of_{pen.pick(ADJECTIVES)}_{pen.pick(NOUNS)}(given, wanted):"
    names = ["given", "wanted"]
    body = _statement(pen, "    ", names)
    return "\n".join([*head, name, *body, f"    assert {_expression(pen, names)} == wanted"])
