"""Source in other languages: TypeScript, Rust, Go, SQL, YAML, and patches."""

from __future__ import annotations

from autotune.workload.text.pen import Pen, fill, plural
from autotune.workload.text.prose import clause, sentence
from autotune.workload.text.python import python
from autotune.workload.text.words import ADJECTIVES, KINDS, NOUNS, VERBS

_TS_TYPES = ("string", "number", "boolean", "Date", "string[]", "Map<string, number>", "unknown")
_RUST_TYPES = ("u64", "String", "f64", "Vec<u8>", "Option<String>", "bool", "Duration", "&'a str")
_GO_TYPES = ("int64", "string", "error", "[]byte", "time.Duration", "map[string]int", "bool")
_SQL_TYPES = ("bigint", "text", "timestamptz", "numeric(12, 2)", "boolean", "jsonb", "uuid")


def camel(pen: Pen) -> str:
    first, *rest = pen.snake().split("_")
    return first + "".join(word.capitalize() for word in rest)


def typescript(pen: Pen, n_chars: int) -> str:
    return fill(lambda: _ts_item(pen), n_chars, "\n\n")


def _ts_item(pen: Pen) -> str:
    if pen.draw() < 0.25:
        fields = [
            f"  {camel(pen)}{pen.pick(('', '?'))}: {pen.pick(_TS_TYPES)};"
            for _ in range(pen.number(2, 7))
        ]
        return "\n".join([f"export interface {pen.type_name()} {{", *fields, "}"])
    names = [camel(pen), camel(pen)]
    result = pen.pick(_TS_TYPES)
    lines = [
        f"export async function {pen.pick(VERBS)}{pen.type_name()}("
        f"{names[0]}: {pen.type_name()}, {names[1]}: {pen.pick(_TS_TYPES)}): Promise<{result}> {{"
    ]
    lines += [_ts_statement(pen, names) for _ in range(pen.number(2, 8))]
    return "\n".join([*lines, f"  return {pen.pick(names)};", "}"])


def _ts_statement(pen: Pen, names: list[str]) -> str:
    shape, one, new = int(pen.draw() * 7), pen.pick(names), camel(pen)
    if shape == 0:
        return f"  if (!{one}.{new}) throw new Error(`{clause(pen).replace('`', '')}: ${{{one}}}`);"
    if shape == 1:
        return f"  // {sentence(pen)}"
    if shape == 2:
        return f"  {one}.{pen.pick(VERBS)}({pen.number(0, 999)}, '{pen.pick(NOUNS)}');"
    names.append(new)
    if shape == 3:
        return f"  const {new} = await this.{camel(pen)}.{pen.pick(VERBS)}({one});"
    if shape == 4:
        return f"  const {new} = {one}.filter((item) => item.{camel(pen)} > {pen.number(0, 99)});"
    if shape == 5:
        return f"  let {new} = {one}?.{camel(pen)} ?? {pen.number(0, 4096)};"
    return f"  const {{ {new}, {camel(pen)} }} = {pen.pick(VERBS)}({one}, {pen.pick(names)});"


def rust(pen: Pen, n_chars: int) -> str:
    return fill(lambda: _rust_item(pen), n_chars, "\n\n")


def _rust_item(pen: Pen) -> str:
    if pen.draw() < 0.25:
        fields = [f"    pub {pen.snake()}: {pen.pick(_RUST_TYPES)}," for _ in range(pen.size(2, 8))]
        return "\n".join([
            "#[derive(Debug, Clone)]", f"pub struct {pen.type_name()}<'a> {{", *fields, "}",
        ])  # fmt: skip
    names = [pen.snake(), pen.snake()]
    signature = f"{names[0]}: &mut {pen.type_name()}, {names[1]}: {pen.pick(_RUST_TYPES)}"
    lines = [f"/// {sentence(pen)}"] if pen.draw() < 0.5 else []
    lines.append(f"pub fn {pen.function()}({signature}) -> Result<{pen.pick(_RUST_TYPES)}> {{")
    lines += [_rust_statement(pen, names) for _ in range(pen.number(2, 8))]
    return "\n".join([*lines, f"    Ok({pen.pick(names)}.into())", "}"])


def _rust_statement(pen: Pen, names: list[str]) -> str:
    shape, one, new = int(pen.draw() * 6), pen.pick(names), pen.snake()
    if shape == 0:
        return f'    ensure!({one}.len() < {pen.number(2, 9999)}, "{pen.pick(NOUNS)} {{}}", {one});'
    if shape == 1:
        return f"    {one}.{pen.pick(VERBS)}_all(|entry| entry.{new} != {pen.number(0, 255)});"
    names.append(new)
    if shape == 2:
        return f"    let {new} = {one}.iter().map(|x| x.{pen.snake()}).collect::<Vec<_>>();"
    if shape == 3:
        return f"    let Some({new}) = self.{pen.snake()}.get(&{one}) else {{ return Err({one}) }};"
    if shape == 4:
        return f"    let mut {new} = {pen.function()}({one}.clone(), {pen.number(0, 64)})?;"
    kind = pen.type_name()
    return (
        f"    let {new} = match {one} {{ {kind}::{pen.type_name()}(x) => x, _ => return Ok(0) }};"
    )


def go(pen: Pen, n_chars: int) -> str:
    return fill(lambda: _go_function(pen), n_chars, "\n\n")


def _go_function(pen: Pen) -> str:
    kind, names = pen.type_name(), ["ctx", camel(pen)]
    head = f"func (s *{kind}) {pen.type_name()}(ctx context.Context, {names[1]} "
    lines = [f"{head}{pen.pick(_GO_TYPES)}) ({pen.pick(_GO_TYPES)}, error) {{"]
    for _ in range(pen.number(1, 5)):
        one, new = pen.pick(names), camel(pen)
        shape = int(pen.draw() * 4)
        if shape == 0:
            words = f'"{pen.pick(VERBS)} {pen.pick(ADJECTIVES)} {pen.pick(NOUNS)}: %w"'
            lines.append(f"\t{new}, err := s.{camel(pen)}.{pen.type_name()}(ctx, {one})")
            lines.append(f"\tif err != nil {{\n\t\treturn nil, fmt.Errorf({words}, err)\n\t}}")
        elif shape == 1:
            lines.append(f"\tfor i, {new} := range {one}.{pen.type_name()}() {{")
            lines.append(f"\t\ts.{camel(pen)}[i] = {new}.{pen.type_name()}\n\t}}")
        elif shape == 2:
            lines.append(f"\tdefer s.{camel(pen)}.{pen.pick(('Unlock', 'Close', 'Done'))}()")
            continue
        else:
            lines.append(f"\t{new} := make([]{pen.type_name()}, 0, {pen.number(1, 512)})")
        names.append(new)
    return "\n".join([*lines, f"\treturn {names[-1]}, nil", "}"])


def sql(pen: Pen, n_chars: int) -> str:
    return fill(lambda: _sql_item(pen), n_chars, "\n\n")


def _sql_item(pen: Pen) -> str:
    one, other = pen.pick(NOUNS), pen.pick(NOUNS)
    if pen.draw() < 0.35:
        columns = [
            f"  {pen.snake()} {pen.pick(_SQL_TYPES)}{pen.pick((' not null', '', ' default null'))}"
            for _ in range(pen.number(2, 7))
        ]
        columns.append(f"  {other}_id bigint references {plural(other)} (id)")
        return f"create table {plural(one)} (\n" + ",\n".join(columns) + "\n);"
    columns = [
        pen.pick((f"a.{pen.snake()}", f"sum(b.{pen.snake()})", f"count(distinct b.{other}_id)"))
        for _ in range(pen.number(2, 5))
    ]
    where = f"a.{pen.snake()} >= {pen.number(0, 9000)} and b.{pen.snake()} is not null"
    return (
        f"-- {sentence(pen)}\nselect {', '.join(columns)}\nfrom {plural(one)} a\n"
        f"join {plural(other)} b on b.{one}_id = a.id and b.{pen.snake()} = {pen.number(0, 99)}\n"
        f"where {where}\ngroup by 1\norder by {pen.number(1, len(columns))} desc\n"
        f"limit {pen.number(10, 900)};"
    )


def yaml(pen: Pen, n_chars: int) -> str:
    return fill(lambda: _yaml_block(pen), n_chars, "\n")


def _yaml_block(pen: Pen) -> str:
    lines = [f"{pen.pick(NOUNS)}-{pen.pick(KINDS)}-{pen.number(1, 99)}:"]
    for _ in range(pen.number(2, 6)):
        shape, key = int(pen.draw() * 5), pen.snake()
        if shape == 0:
            lines.append(f"  {key}: {pen.number(0, 9999)}")
        elif shape == 1:
            lines.append(f"  {key}: {pen.pick(ADJECTIVES)}-{pen.pick(NOUNS)}")
        elif shape == 2:
            lines.append(f"  # {sentence(pen)}\n  {key}: {pen.pick(('true', 'false', 'null'))}")
        elif shape == 3:
            lines.append(f"  {key}: [{pen.pick(NOUNS)}, {pen.pick(NOUNS)}, {pen.pick(NOUNS)}]")
        else:
            lines.append(f"  {key}:\n    {pen.snake()}: {pen.number(1, 64)}Gi")
            lines.append(f"    image: {pen.pick(NOUNS)}/{pen.pick(NOUNS)}:{pen.version()}")
    return "\n".join(lines)


def patch(pen: Pen, n_chars: int) -> str:
    """A unified diff of Python files."""
    return fill(lambda: _hunk(pen), n_chars, "\n")


def _hunk(pen: Pen) -> str:
    lines = python(pen, 420).split("\n")
    body = []
    for line in lines:
        mark = pen.draw()
        body.append(f"{'+' if mark < 0.3 else '-' if mark < 0.45 else ' '}{line}")
    n_old, n_new = (sum(line[0] in marks for line in body) for marks in (" -", " +"))
    path, at = pen.path(".py"), pen.number(1, 900)
    return "\n".join([
        f"diff --git a/{path} b/{path}", f"index {pen.hexa(28)}..{pen.hexa(28)} 100644",
        f"--- a/{path}", f"+++ b/{path}", f"@@ -{at},{n_old} +{at},{n_new} @@", *body,
    ])  # fmt: skip
