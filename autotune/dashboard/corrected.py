"""The real dashboard with its answers corrected: a WSGI layer that rewrites two kinds of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import optuna

from autotune.dashboard import corrections
from autotune.dashboard.story import HIDDEN, Storyteller
from autotune.errors import AutotuneError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_STUDY = re.compile(r"/api/studies/(\d+)/?")
_IMPORTANCES = re.compile(r"/api/studies/(\d+)/param_importances/?")
_PAGE = re.compile(r"/dashboard(/.*)?")
_GAIN = "gain_pct"
_CACHE = ("HTTP_IF_MODIFIED_SINCE", "HTTP_IF_NONE_MATCH", "HTTP_RANGE")
_OF_BODY = ("content-length", "last-modified", "etag", "accept-ranges")
_STYLE = """<style>
table:not([class]) :is(td, th) { padding: 2px 16px 2px 0; text-align: left; white-space: nowrap; }
main { min-width: 0; }
main .MuiCardContent-root { overflow-x: auto; }
.MuiGrid-container:has(> .MuiGrid-root > .MuiCard-root [id^="user-defined-plot"]) {
  margin: 0; width: 100%; padding: 0 0 0 16px; gap: 16px 0;
}
.MuiGrid-root:has(> .MuiCard-root [id^="user-defined-plot"]) { padding: 0 8px; min-width: 0; }
[id^="user-defined-plot:autotune-"] svg text { fill: currentColor !important; }
main .MuiTypography-body1 { white-space: normal; overflow-wrap: anywhere; }
main pre code { white-space: pre-wrap !important; overflow-wrap: anywhere; }
@media (max-width: 900px) {
  main [class*="MuiGrid-grid-xs"] {
    flex-basis: 100%; max-width: 100%; min-width: 0; width: 100%;
  }
  table:not([class]) :is(td, th) { white-space: normal; padding-right: 10px; }
}
</style>"""
"""Gives the tables of notes room between their columns, and our plots room between each other and
letters as dark or light as those of the page; breaks long lines and commands, and stacks what a
small window cannot hold side by side."""
_NO_BUTTONS = """<style>
button:has([data-testid="DeleteIcon"]), button:has([data-testid="AddBoxIcon"]),
button:has([data-testid="DriveFileRenameOutlineIcon"]), button:has([data-testid="EditIcon"]),
.MuiCard-root:has([data-testid="UploadFileIcon"]):not(:has(.MuiCard-root)) { display: none; }
</style>"""
"""The page has no mode for readers: what only writes is not shown (and refused all the same)."""


@dataclass(slots=True)
class Answer:
    """A whole answer of the application, before it is sent."""

    status: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Corrected:
    """Rewrites the JSON of a study, and the page itself; everything else passes as it is.

    Attributes:
        app: ``optuna_dashboard.wsgi`` on the same storage.
        teller: of the one study that is ours; others in the storage are corrected, and no more.
    """

    app: WSGIApplication
    teller: Storyteller
    writable: bool = False

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        found = _STUDY.fullmatch(path)
        if found and environ["REQUEST_METHOD"] == "GET":
            return self._study(int(found[1]), environ, start_response)
        found = _IMPORTANCES.fullmatch(path)
        if found and (none := self._no_importances(int(found[1]))) is not None:
            return _send(none, start_response)
        if _PAGE.fullmatch(path):
            return self._page(environ, start_response)
        return self.app(environ, start_response)

    def _study(
        self, study_id: int, environ: WSGIEnvironment, start_response: StartResponse
    ) -> Iterable[bytes]:
        """All trials are asked for, since any may be among the best; then those the page wants."""
        after = _after(environ.get("QUERY_STRING", ""))
        query = "" if after is None else "after=0"
        answer = _ask(self.app, {**environ, "QUERY_STRING": query or environ["QUERY_STRING"]})
        if answer.status.startswith("200"):
            document = json.loads(answer.body)
            self._correct(study_id, document)
            document["trials"] = document["trials"][after or 0 :]
            answer.body = json.dumps(document, allow_nan=False).encode()
        return _send(answer, start_response)

    def _no_importances(self, study_id: int) -> Answer | None:
        """Of a study none of whose trials has parameters: the real one divides by their number.

        Flags outside the space that is searched are no parameters.
        """
        storage = self.teller.study._storage
        try:
            trials = storage.get_all_trials(study_id, deepcopy=False)
        except KeyError:
            return None
        if any(trial.params for trial in trials):
            return None
        empty: list[list[object]] = [[] for _ in storage.get_study_directions(study_id)]
        body = json.dumps({"param_importances": empty}).encode()
        return Answer("200 OK", (("Content-Type", "application/json"),), body)

    def _correct(self, study_id: int, document: dict[str, Any]) -> None:
        storage = self.teller.study._storage
        name = storage.get_study_name_from_id(study_id)
        study = optuna.load_study(study_name=name, storage=storage)
        if study_id == self.teller.study_id:
            self._tell(document)
        corrections.correct(document, study)
        corrections.shorten(document)

    def _tell(self, document: dict[str, Any]) -> None:
        corrections.hide(document, HIDDEN)
        try:
            story = self.teller.story()
        except AutotuneError as error:  # the folder changed below us: say so, and show the rest
            document["note"] = {"version": 0, "body": error.message}
            return
        story.tell(document)
        corrections.add_attribute(document, _GAIN, story.gains)

    def _page(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        whole = {key: value for key, value in environ.items() if key not in _CACHE}
        answer = _ask(self.app, whole)
        if answer.status.startswith("200") and answer.body:
            name = escape(self.teller.store.name)
            title = f"<title>{name} · autotune</title>"
            page = answer.body.decode().replace("<title>Optuna Dashboard</title>", title, 1)
            style = _STYLE if self.writable else _STYLE + _NO_BUTTONS
            page = page.replace("</head>", f"{style}</head>", 1)
            answer.body = page.encode()
        return _send(answer, start_response)


def _after(query: str) -> int | None:
    """The first trial that the page has not got yet; None: not a number the dashboard takes."""
    text = parse_qs(query).get("after", ["0"])[0]
    return int(text) if text.isascii() and text.isdecimal() else None


def _ask(app: WSGIApplication, environ: Mapping[str, Any]) -> Answer:
    answer = Answer()

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[..., object]:
        answer.status, answer.headers = status, tuple(headers)
        return lambda data: None

    parts = app(dict(environ), start)
    try:
        answer.body = b"".join(parts)
    finally:
        close = getattr(parts, "close", None)
        if close is not None:
            close()
    return answer


def _send(answer: Answer, start_response: StartResponse) -> list[bytes]:
    headers = [(n, v) for n, v in answer.headers if n.lower() not in _OF_BODY]
    headers += [("Content-Length", str(len(answer.body))), ("Cache-Control", "no-store")]
    start_response(answer.status, headers)
    return [answer.body]
