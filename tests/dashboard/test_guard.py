"""Who gets through to the dashboard, over real sockets."""

from __future__ import annotations

import json

import pytest

from autotune.dashboard.guard import hostname, names_of

from .conftest import Served, serving


def names(served: Served) -> list[str]:
    return [trial.user_attrs["role"] for trial in served.store.open().trials]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/api/studies/{id}"),
        ("POST", "/api/studies"),
        ("POST", "/api/studies/{id}/rename"),
        ("PUT", "/api/studies/{id}/note"),
        ("POST", "/api/trials/0/user-attrs"),
        ("PATCH", "/anything"),
        ("POST", "/api/artifacts/{id}"),
        ("POST", "/incompatible-rdb-schema"),
    ],
)
def test_a_reader_changes_nothing(served: Served, method: str, path: str) -> None:
    before = served.store.open()
    status, headers, body = served.ask(
        path.format(id=served.study._study_id), method, {"study_name": "x", "directions": ["min"]},
        Content_Type="application/json", Origin=served.url,
    )  # fmt: skip
    assert status == 405 and headers["allow"] == "GET, HEAD"
    assert "--writable" in json.loads(body)["reason"]
    after = served.store.open()
    assert after.study_name == before.study_name and after.trials == before.trials


def test_a_large_upload_gets_its_answer_too(served: Served) -> None:
    status, _, _ = served.ask("/api/studies", "POST", "x" * 500_000)
    assert status == 405


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("evil.example:80", "", "[", "evil@127.0.0.1.x"),
    ],
)
def test_a_name_that_was_rebound_to_this_machine_is_refused(served: Served, host: str) -> None:
    status, _, body = served.ask("/api/studies", Host=host)
    assert status == 403 and b"study_name" not in body


@pytest.mark.parametrize(
    "host", ["localhost:1", "LOCALHOST", "127.0.0.1", "[::1]:8080", "10.1.2.3"]
)
def test_addresses_and_localhost_are_answered(served: Served, host: str) -> None:
    assert served.ask("/api/studies", Host=host)[0] == 200


def test_a_proxy_may_give_it_another_name(served: Served) -> None:
    with serving(served.store, allow=("Tune.Example",)) as other:
        assert other.ask("/api/studies", Host="tune.example:443")[0] == 200
        assert other.ask("/api/studies", Host="other.example")[0] == 403


def test_no_answer_may_be_read_or_framed_by_another_site(served: Served) -> None:
    trial = served.document()["trials"][0]
    path = f"/artifacts/{served.study._study_id}/{trial['trial_id']}"
    for artifact in trial["artifacts"]:
        status, headers, body = served.ask(f"{path}/{artifact['artifact_id']}")
        assert status == 200 and body
        assert "access-control-allow-origin" not in headers
        assert headers["content-security-policy"] == "sandbox"
    _, headers, _ = served.ask("/dashboard")
    assert headers["x-frame-options"] == "SAMEORIGIN"
    assert headers["x-content-type-options"] == "nosniff"


# ---- writing ----------------------------------------------------------------------------------

NOTE = {"body": "mine", "version": 1}
JSON = "application/json"


def note(served: Served, **headers: str) -> int:
    return served.ask(f"/api/studies/{served.study._study_id}/note", "PUT", NOTE, **headers)[0]


def test_its_own_page_may_write_where_that_is_allowed(writable: Served) -> None:
    assert (
        note(writable, Content_Type=JSON, Origin=writable.url, Sec_Fetch_Site="same-origin") == 204
    )
    assert writable.document()["note"]["body"] == "mine"


def test_a_program_may_write_json(writable: Served) -> None:
    assert note(writable, Content_Type="application/json; charset=utf-8") == 204


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "Content_Type": JSON},
        {"Origin": "null", "Content_Type": JSON},
        {"Origin": "http://127.0.0.1:1", "Content_Type": JSON},
        {"Sec_Fetch_Site": "cross-site", "Content_Type": JSON},
        {"Sec_Fetch_Site": "same-site", "Content_Type": JSON},
        {"Content_Type": "text/plain"},
        {"Content_Type": "application/x-www-form-urlencoded"},
        {},
    ],
)
def test_a_page_of_another_site_may_not(writable: Served, headers: dict[str, str]) -> None:
    assert note(writable, **headers) == 403
    assert writable.document()["note"]["version"] == 0
    status, _, _ = writable.ask(f"/api/studies/{writable.study._study_id}", "DELETE", **headers)
    assert status == 403 and len(writable.store.open().trials) == 4


def test_names() -> None:
    assert names_of("127.0.0.1") == {"localhost", "127.0.0.1"}
    assert {"0.0.0.0", "localhost", "x.y"} < names_of("0.0.0.0", ["X.y."])
    assert [hostname(h) for h in ("A.b.:80", "[::1]:8", "", "[")] == ["a.b", "::1", "", ""]
