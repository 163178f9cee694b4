"""What the dashboard says of a study is what Optuna says of it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.core import pareto
from autotune.core.adaptive import Tier
from autotune.core.objective import LATENCY, THROUGHPUT
from autotune.core.trial import TrialRole
from autotune.dashboard.corrections import short_number, shorten
from autotune.study.adaptation import AdaptivePlan
from autotune.study.confirmation import Place

from ..core.samples import exactly
from .conftest import Served, serving
from .studies import SLO, add, made, record_for


def numbers(trials: list[dict[str, object]]) -> list[object]:
    return [trial["number"] for trial in trials]


def test_best_trials_are_those_of_optuna(served: Served) -> None:
    document = served.document()
    best = [trial.number for trial in served.study.best_trials]
    assert numbers(document["best_trials"]) == best and best
    outside = [t["number"] for t in document["trials"] if any(c > 0 for c in t["constraints"])]
    assert outside == [2, 6, 10], "they dominate the others, and are none of the best"
    assert set(outside).isdisjoint(best)


def test_the_page_asks_for_later_trials_only_and_gets_all_that_are_best(served: Served) -> None:
    whole, late = served.document(), served.document(after=9)
    assert numbers(late["trials"]) == [9, 10, 11]
    assert late["best_trials"] == whole["best_trials"]
    assert served.document(after=99)["trials"] == []
    bad = served.ask(f"/api/studies/{served.study._study_id}?after=x")[0]
    assert bad == 500, "as the real one answers"


@pytest.mark.parametrize("storage", [None, "sqlite"])
def test_constraints_in_the_form_of_optuna_5_count(storage: str | None, tmp_path: Path) -> None:
    database = storage and f"sqlite:///{tmp_path / 's.db'}"
    store = made(tmp_path, 3, storage=database)
    study = store.open()
    trial = study.ask()
    trial.set_constraint("memory", 0.5)
    study.tell(trial, [0.001, 1e9])
    odd = study.ask()
    odd.set_constraint("ratio", float("inf"))
    study.tell(odd, [0.001, 1e9])
    with serving(store) as served:
        document = served.document()
    shown = {t["number"]: t["constraints"] for t in document["trials"]}
    assert shown[trial.number] == [0.5] and shown[odd.number][0] > 0
    assert numbers(document["best_trials"]) == [t.number for t in study.best_trials] == [0, 1]


def test_other_studies_of_a_database_are_corrected_too(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 's.db'}"
    store = made(tmp_path, 3, storage=database)
    other = optuna.create_study(storage=database, study_name="other", direction="minimize")
    for value, broken in ((1.0, 1.0), (2.0, -1.0), (3.0, -1.0)):
        trial = other.ask()
        trial.set_constraint("c", broken)
        other.tell(trial, value)
    with serving(store) as served:
        _, _, body = served.ask(f"/api/studies/{other._study_id}?after=0")
        document = json.loads(body)
        assert served.ask("/api/studies/99?after=0")[0] == 404
    assert numbers(document["best_trials"]) == [1]
    assert document["plotly_graph_objects"] == [] and document["note"]["body"] == ""


def test_a_study_without_a_feasible_trial_has_no_best(tmp_path: Path) -> None:
    store = made(tmp_path, 1, infeasible=True)
    study = store.open()
    for _ in range(2):
        trial = study.ask()
        trial.set_constraint("c", 1.0)
        study.tell(trial, [0.1, 9e9])
    study = optuna.create_study(storage=study._storage, study_name="t", directions=study.directions)
    with serving(store) as served:
        assert numbers(served.document()["best_trials"]) == [0]
        _, _, body = served.ask(f"/api/studies/{study._study_id}?after=0")
    assert json.loads(body)["best_trials"] == []


def test_a_running_study_grows_under_the_dashboard(served: Served) -> None:
    tuner = served.store.open()
    assert len(served.document()["trials"]) == 12
    for number in (12, 13):
        add(served.store, tuner, number=number)
    running = tuner.ask()

    def shows() -> bool:
        return len(served.document()["trials"]) == 15

    ends = time.monotonic() + 20  # the dashboard itself looks at the storage every two seconds
    while not shows() and time.monotonic() < ends:
        time.sleep(0.2)
    document = served.document()
    assert document["trials"][running.number]["state"] == "Running"
    assert document["trials"][13]["note"]["body"], "what ended since has its note"
    assert numbers(document["best_trials"]) == [t.number for t in tuner.best_trials]


# ---- for people -------------------------------------------------------------------------------


def test_values_have_the_digits_that_people_read(served: Served) -> None:
    for trial in served.document()["trials"]:
        for value in trial.get("values", []):
            assert len(str(value).replace(".", "").strip("0")) <= 6
        for parameter in trial["params"]:
            assert len(parameter["param_external_value"]) <= 8
        attributes = {a["key"]: a["value"] for a in trial["user_attrs"]}
        assert "record" not in attributes and "flags" not in attributes


def test_panels_note_names_and_attributes_are_there(served: Served) -> None:
    document = served.document()
    assert document["objective_names"] == ["latency_s", "throughput_tok_s"]
    figures = {p["id"]: json.loads(p["graph_object"]) for p in document["plotly_graph_objects"]}
    assert list(figures) == [
        "autotune-front", "autotune-best-launches", "autotune-area-minutes", "autotune-acceptance",
    ]  # fmt: skip
    assert all(len(p["graph_object"]) < 40_000 for p in document["plotly_graph_objects"])
    traces = figures["autotune-front"]["data"]
    assert any(t.get("error_x") for t in traces), "intervals"
    assert document["note"]["body"].startswith("## Use these flags")
    assert "--speculative-num-steps" in document["note"]["body"]
    attributes = {a["key"]: a["value"] for a in document["user_attrs"]}
    assert attributes["constraints"] == SLO and "recommendation" not in attributes
    gains = {"key": "gain_pct", "sortable": True}
    assert gains in document["union_user_attrs"]


def test_artifacts_of_a_trial_are_its_log_record_and_script(served: Served) -> None:
    trial = served.document()["trials"][5]
    found = {a["filename"]: a["artifact_id"] for a in trial["artifacts"]}
    assert set(found) == {"server.log", "record.json", "launch.sh"}
    path = f"/artifacts/{served.study._study_id}/{trial['trial_id']}/{found['server.log']}"
    status, headers, body = served.ask(path)
    assert (status, body) == (200, b"fired up, trial 5\n")
    assert headers["content-type"].startswith("text/plain")


def test_what_people_wrote_stands(writable: Served) -> None:
    study_id = writable.study._study_id
    for path in (f"/api/studies/{study_id}/note", f"/api/studies/{study_id}/1/note"):
        status, _, _ = writable.ask(
            path, "PUT", {"body": "mine", "version": 1}, Content_Type="application/json"
        )
        assert status == 204
    document = writable.document()
    assert document["note"]["body"] == "mine" and document["trials"][1]["note"]["body"] == "mine"


def test_a_damaged_folder_is_told_in_the_note(served: Served) -> None:
    (served.store.directory / "study.yaml").write_text("objective: [")
    document = served.document()
    assert "damaged" in document["note"]["body"] and len(document["trials"]) == 12


def test_only_readers_lack_the_buttons_that_write(served: Served, writable: Served) -> None:
    hidden = b'[data-testid="DeleteIcon"]'
    assert hidden in served.ask("/dashboard")[2] and hidden not in writable.ask("/dashboard")[2]
    assert b"<title>s \xc2\xb7 autotune</title>" in served.ask("/dashboard/studies/0/note")[2]


POINTS = st.lists(
    st.tuples(st.floats(0.5, 0.51), st.floats(1000, 1000.5), st.booleans()), min_size=1, max_size=20
)


@given(POINTS)
def test_fewer_digits_never_change_which_trials_are_best(
    points: list[tuple[float, float, bool]],
) -> None:
    feasible = [i for i, point in enumerate(points) if point[2]]
    trials = [
        {"number": i, "values": [x, y], "constraints": [] if ok else [1.0], "params": [],
         "user_attrs": []}
        for i, (x, y, ok) in enumerate(points)
    ]  # fmt: skip

    def best() -> set[int]:
        values: list[pareto.Point] = [tuple(t["values"]) for t in trials]  # type: ignore[misc, arg-type]
        return {
            i for i in feasible
            if not any(pareto.dominates(values[j], values[i]) for j in feasible)
        }  # fmt: skip

    before = best()
    document = {
        "trials": trials, "directions": ["minimize", "maximize"],
        "best_trials": [trials[i] for i in sorted(before)],
    }  # fmt: skip
    shorten(document)
    assert best() == before


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("0.9199999999999999", "0.92"), ("0.85", "0.85"), ("12345678", "12345678"),
        ("-3.14159265", "-3.14159"), ("fa3", "fa3"), ("1.2.3", "1.2.3"), ("", ""),
        ("http://x/1.23456789", "http://x/1.23456789"), ("0.000012345678", "1.23457e-05"),
    ],
)  # fmt: skip
def test_short_numbers(text: str, short: str) -> None:
    assert short_number(text) == short


def test_a_record_with_markup_stays_text(tmp_path: Path) -> None:
    store = made(tmp_path, 6)
    with serving(store) as served:
        body = served.document()["trials"][5]["note"]["body"]
    assert "`CUDA out of memory | tried <b>2 GiB</b> 'x'`" in body
    assert msgspec.json.encode(body)


@pytest.mark.parametrize(
    ("role", "purpose"),
    [("confirm", Place(0, 0, 0)), ("adaptive", AdaptivePlan(0, (Tier(1, 3),)))],
)
def test_a_launch_after_the_search_is_none_of_its_best(
    role: TrialRole, purpose: object, tmp_path: Path
) -> None:
    store = made(tmp_path, 4, infeasible=False)
    study = store.open()
    best = [trial.number for trial in study.best_trials]
    trial = study.ask()
    trial.set_user_attr(role, msgspec.to_builtins(purpose))
    like = record_for(trial.number, {}, infeasible=False)
    assert like.objectives is not None
    ends = {name: exactly(value) for name, value in ((LATENCY, 0.01), (THROUGHPUT, 1e6))}
    store.tell(study, trial, msgspec.structs.replace(like, role=role, objectives=ends))
    assert [t.number for t in study.best_trials] == [4], "Optuna knows no such launches"
    with serving(store) as served:
        document = served.document()
    assert numbers(document["best_trials"]) == best
    later = document["trials"][4]
    assert "values" not in later and all(t["values"] for t in document["trials"][:4])
    assert f"({role})" in later["note"]["body"]


def test_a_study_without_parameters_has_no_importances(tmp_path: Path) -> None:
    """As when its flags lie outside the space: the real dashboard divides by zero there."""
    store = made(tmp_path, 0)
    study = store.open()
    for number in range(3):
        trial = study.ask()
        store.tell(study, trial, record_for(number, {}, infeasible=False))
    with serving(store) as served:
        status, _, body = served.ask(f"/api/studies/{study._study_id}/param_importances")
        assert (status, json.loads(body)) == (200, {"param_importances": [[], []]})
        assert served.ask("/api/studies/99/param_importances")[0] == 404


@pytest.mark.filterwarnings("ignore:Some regimes for parameter")  # of few trials
def test_importances_of_a_study_with_parameters_are_those_of_the_real_one(served: Served) -> None:
    status, _, body = served.ask(f"/api/studies/{served.study._study_id}/param_importances")
    assert status == 200 and len(json.loads(body)["param_importances"][0]) == 4
