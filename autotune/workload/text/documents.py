"""JSON as tools take and return it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from autotune.workload.text.pen import Pen
from autotune.workload.text.prose import prose, sentence, wish
from autotune.workload.text.python import python
from autotune.workload.text.words import ADJECTIVES, KINDS, NOUNS, PEOPLE, PLACES, VERBS

_JSON_TYPES = ("string", "integer", "boolean", "number")


def tool_schema(pen: Pen, name: str, n_properties: int) -> dict[str, Any]:
    """A tool as chat APIs declare it."""
    properties: dict[str, Any] = {}
    for _ in range(n_properties):
        kind = pen.pick(_JSON_TYPES)
        about: dict[str, Any] = {"type": kind, "description": sentence(pen)}
        if kind == "string" and pen.draw() < 0.4:
            about["enum"] = [pen.pick(ADJECTIVES) for _ in range(pen.number(2, 5))]
        elif kind == "integer":
            about |= {"minimum": 0, "default": pen.number(0, 200)}
        properties[pen.snake()] = about
    wanted = list(properties)[: pen.number(1, n_properties)]
    parameters = {"type": "object", "properties": properties, "required": wanted}
    function = {"name": name, "description": prose(pen, 160), "parameters": parameters}
    return {"type": "function", "function": function}


def document(pen: Pen, n_chars: int) -> str:
    """What a tool answers, of one of several kinds."""
    kind = pen.pick((_search_hits, _test_report, _response, _issue, _records))
    return kind(pen, n_chars)


def _items(pen: Pen, item: Callable[[Pen], Any], n_chars: int) -> list[Any]:
    """As many items as come nearest to ``n_chars`` characters of JSON, at least one."""
    items, size = [item(pen)], 0
    size = len(json.dumps(items[0]))
    while size + size / len(items) / 2 < n_chars:
        items.append(item(pen))
        size += len(json.dumps(items[-1])) + 2
    return items


def _search_hits(pen: Pen, n_chars: int) -> str:
    def hit(pen: Pen) -> dict[str, Any]:
        lines = python(pen, 120).split("\n")
        return {
            "path": pen.path(".py"),
            "line": pen.number(1, 1400),
            "text": lines[min(1, len(lines) - 1)].strip(),
            "score": round(pen.draw(), 3),
        }

    hits = _items(pen, hit, n_chars - 60)
    return json.dumps({"query": pen.snake(), "n_hits": len(hits), "hits": hits})


def _test_report(pen: Pen, n_chars: int) -> str:
    def case(pen: Pen) -> dict[str, Any]:
        failed = pen.draw() < 0.3
        found: dict[str, Any] = {
            "name": f"test_{pen.function()}",
            "file": pen.path(".py"),
            "outcome": "failed" if failed else "passed",
            "seconds": round(pen.draw() * 4, 2),
        }
        return found | ({"message": sentence(pen)} if failed else {})

    cases = _items(pen, case, n_chars - 40)
    return json.dumps({"exit_code": int(pen.draw() < 0.5), "cases": cases})


def _response(pen: Pen, n_chars: int) -> str:
    body = _items(pen, _object, n_chars - 150)
    headers = {"content-type": "application/json", "x-request-id": pen.hexa(32)}
    status = pen.pick((200, 200, 200, 206, 409, 503))
    return json.dumps({"status": status, "headers": headers, "body": body})


def _object(pen: Pen) -> dict[str, Any]:
    """Something out of a data base of no particular kind."""
    found: dict[str, Any] = {"id": pen.number(1, 99_999)}
    for _ in range(pen.number(2, 6)):
        found[pen.snake()] = pen.pick(
            (
                pen.number(0, 5000), round(pen.draw() * 300, 2), pen.draw() < 0.5, None,
                pen.pick(PLACES), f"{pen.pick(ADJECTIVES)} {pen.pick(NOUNS)}", pen.things(),
                [pen.pick(KINDS), pen.pick(NOUNS)], {pen.pick(NOUNS): pen.pick(PEOPLE)},
            )
        )  # fmt: skip
    return found


def _issue(pen: Pen, n_chars: int) -> str:
    comments = _items(
        pen,
        lambda pen: {"author": pen.pick(PEOPLE), "body": prose(pen, 240), "likes": pen.size(0, 30)},
        n_chars // 2,
    )
    return json.dumps(
        {
            "number": pen.number(10, 9999),
            "title": f"{pen.pick(VERBS)} {pen.things()}",
            "labels": [pen.pick(ADJECTIVES), pen.pick(NOUNS)],
            "body": prose(pen, n_chars // 3) + "\n\n" + wish(pen),
            "comments": comments,
        },
        indent=1,
    )


def _records(pen: Pen, n_chars: int) -> str:
    """Rows of one table: all with the same columns, as a data base returns them."""
    columns = list(dict.fromkeys(pen.snake() for _ in range(pen.number(3, 6))))

    def row(pen: Pen) -> list[Any]:
        return [
            pen.pick((pen.size(0, 999), pen.pick(PLACES), pen.things(), pen.pick(PEOPLE)))
            for _ in columns
        ]

    return json.dumps({"columns": columns, "rows": _items(pen, row, n_chars - 80)})
