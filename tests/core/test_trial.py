from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core.trial import (
    Caveat,
    FailureKind,
    FlagValue,
    TrialRecord,
    record_from,
    record_from_json,
)

from .samples import crashed, measured, phase

flag_value: st.SearchStrategy[FlagValue] = (
    st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6) | st.text(max_size=9)
)


@given(
    st.dictionaries(st.text("abc_", min_size=1, max_size=8), flag_value, max_size=4),
    st.dictionaries(st.text(max_size=8), st.floats(-1e6, 1e6), max_size=3),
    st.integers(0, 10**6),
)
def test_a_record_survives_json(
    flags: dict[str, FlagValue], timings: dict[str, float], number: int
) -> None:
    record = TrialRecord(
        number=number,
        status="complete",
        flags=flags,
        phases=[phase(percentiles={"ttft_s": {"p50": 0.1}})],
        warnings=[Caveat("code", "text")],
        timings=timings,
        effective={"max_running_requests": 14},
    )
    assert record_from_json(record.to_json()) == record
    assert record_from(record.to_dict()) == record
    assert record_from(json.loads(json.dumps(record.to_dict()))) == record


@given(st.booleans() | st.integers(0, 9) | st.floats(0, 9))
def test_a_flag_keeps_its_type(value: FlagValue) -> None:
    record = TrialRecord(number=0, status="complete", flags={"flag": value})
    again = record_from_json(record.to_json())
    assert again is not None and type(again.flags["flag"]) is type(value)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_a_failed_record_has_a_kind_and_no_value(kind: FailureKind) -> None:
    again = record_from_json(crashed(3, 5, kind).to_json())
    assert again is not None and again.failure is not None
    assert again.failure.kind is kind and again.objectives is None


def test_the_stored_document_has_the_documented_shape() -> None:
    document = measured(7, 3, 0.9, 1733.0).to_dict()
    assert document["schema"] == 1
    assert document["status"] == "complete"
    assert document["failure"] is None
    assert set(document["objectives"]["latency_s"]) == {"value", "low", "high"}
    assert document["phases"][1]["role"] == "serving"
    assert document["phases"][1]["concurrency"] == 16


def test_record_json_is_indented_and_ends_with_a_newline() -> None:
    data = measured(7, 3, 0.9, 1733.0).to_json()
    assert data.startswith(b'{\n "schema": 1,') and data.endswith(b"}\n")


@pytest.mark.parametrize(
    "raw",
    [
        None,
        5,
        "complete",
        [],
        {},
        {"number": 1, "status": "complete"},
        {"number": "one", "status": "complete", "flags": {}},
        {"number": 1, "status": "running", "flags": {}},
        {"number": 1, "status": "complete", "flags": {"a": None}},
        {"schema": 2, "number": 1, "status": "complete", "flags": {}},
        {"number": 1, "status": "failed", "flags": {}, "failure": {"kind": "bored"}},
    ],
)
def test_foreign_json_is_no_record_and_no_error(raw: object) -> None:
    assert record_from(raw) is None
    assert record_from_json(msgspec.json.encode(raw)) is None


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"null trailing"])
def test_bytes_that_are_not_json_are_no_record(data: bytes) -> None:
    assert record_from_json(data) is None


def test_fields_of_a_later_version_are_passed_over() -> None:
    document = measured(7, 3, 0.9, 1733.0).to_dict() | {"colour": "blue"}
    assert record_from(document) == measured(7, 3, 0.9, 1733.0)
