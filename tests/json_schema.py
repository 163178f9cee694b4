"""The part of JSON Schema (draft 2020-12) that our own schemas use.

A validator of our own, in fifty lines, spares the tests a dependency; a keyword that it does not
know fails the test, so that no schema passes because a part of it was not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,),
    "null": (type(None),), "integer": (int,), "number": (int, float),
}  # fmt: skip
_ANNOTATIONS = {"$schema", "$defs", "title", "description", "default"}


def problems(value: object, schema: Mapping[str, Any]) -> list[str]:
    """What is wrong with a document, each with its place; empty where it is valid.

    Stricter than the standard in one way: an object must not have a key that its schema does not
    name, as a schema that leaves keys out is not complete.
    """
    return list(_problems(value, schema, schema, "$"))


def _problems(value: Any, schema: Any, root: Any, at: str) -> Iterator[str]:  # noqa: ANN401
    if "$ref" in schema:
        *_, name = schema["$ref"].split("/")
        assert schema["$ref"] == f"#/$defs/{name}"
        yield from _problems(value, root["$defs"][name], root, at)
    for word, said in schema.items():
        match word:
            case "type":
                is_bool = isinstance(value, bool) and said in ("integer", "number")
                if not isinstance(value, _TYPES[said]) or is_bool:
                    yield f"{at}: {value!r} is no {said}"
            case "enum":
                if value not in said:
                    yield f"{at}: {value!r} is none of {said}"
            case "anyOf":
                tried = [list(_problems(value, one, root, at)) for one in said]
                if all(tried):
                    yield f"{at}: {min(tried, key=len)}"
            case "required" if isinstance(value, dict):
                yield from (f"{at}: no {name!r}" for name in said if name not in value)
            case "items" if isinstance(said, dict) and isinstance(value, list):
                for i, item in enumerate(value[len(schema.get("prefixItems", [])) :]):
                    yield from _problems(item, said, root, f"{at}[{i}]")
            case "prefixItems" if isinstance(value, list):
                for i, (item, one) in enumerate(zip(value, said, strict=False)):
                    yield from _problems(item, one, root, f"{at}[{i}]")
            case "minItems" if isinstance(value, list) and len(value) < said:
                yield f"{at}: fewer than {said} items"
            case "maxItems" if isinstance(value, list) and len(value) > said:
                yield f"{at}: more than {said} items"
            case "format" if said == "date-time":
                if not re.search(r"Z$|[+-]\d\d:\d\d$", value) or not datetime.fromisoformat(value):
                    yield f"{at}: {value!r} is no moment"
            case "properties" | "additionalProperties" | "items" | "prefixItems" | "$ref":
                pass
            case "minItems" | "maxItems" | "required":
                pass
            case _:
                assert word in _ANNOTATIONS, f"{word} at {at} is not looked at"
    if schema.get("type") == "object" and isinstance(value, dict):
        yield from _of_object(value, schema, root, at)


def _of_object(value: Any, schema: Any, root: Any, at: str) -> Iterator[str]:  # noqa: ANN401
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", None if known else {})
    for name, item in value.items():
        if name in known:
            yield from _problems(item, known[name], root, f"{at}.{name}")
        elif others is None or others is False:
            yield f"{at}: {name!r} is not in the schema"
        else:
            yield from _problems(item, others, root, f"{at}.{name}")
