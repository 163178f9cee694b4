"""The validator finds what is wrong: otherwise every test that uses it would pass."""

from __future__ import annotations

from typing import Any

import pytest

from .json_schema import problems

SCHEMA: dict[str, Any] = {
    "$ref": "#/$defs/Point",
    "$defs": {
        "Point": {
            "type": "object",
            "properties": {
                "x": {"type": "number"},
                "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "kind": {"enum": ["a", "b"]},
                "at": {"type": "string", "format": "date-time"},
                "pair": {
                    "type": "array", "minItems": 2, "maxItems": 2, "items": False,
                    "prefixItems": [{"type": "integer"}, {"type": "string"}],
                },
                "by": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "more": {"type": "array", "items": {"$ref": "#/$defs/Point"}},
            },
            "required": ["x"],
        }
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [
        {"x": 1.5}, {"x": 1, "n": None}, {"x": 1, "n": 3, "kind": "b"}, {"x": 0, "pair": [1, "a"]},
        {"x": 1, "at": "2026-12-03T05:42:15.1Z", "by": {"k": True}, "more": [{"x": 2}]},
    ],
    ids=str,
)  # fmt: skip
def test_what_fits_is_valid(value: object) -> None:
    assert problems(value, SCHEMA) == []


@pytest.mark.parametrize(
    "value",
    [
        {}, [], {"x": "1"}, {"x": True}, {"x": 1, "n": 1.5}, {"x": 1, "kind": "c"},
        {"x": 1, "y": 2}, {"x": 1, "at": "2026-12-03T05:42:15"}, {"x": 1, "pair": [1]},
        {"x": 1, "pair": ["a", "a"]}, {"x": 1, "by": {"k": 1}}, {"x": 1, "more": [{"x": None}]},
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_found(value: object) -> None:
    assert problems(value, SCHEMA)


def test_a_keyword_that_is_not_looked_at_is_refused() -> None:
    with pytest.raises(AssertionError, match="pattern"):
        problems("x", {"type": "string", "pattern": "y"})
