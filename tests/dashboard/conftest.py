from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import optuna
import pytest

from autotune.dashboard.app import _Quiet, _Server, application
from autotune.study.store import StudyStore

from .studies import made


@dataclass(frozen=True)
class Served:
    """A dashboard on a real socket of 127.0.0.1."""

    store: StudyStore
    study: optuna.Study
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def page(self) -> str:
        return f"{self.url}/dashboard/studies/{self.study._study_id}"

    def ask(
        self, path: str, method: str = "GET", body: object = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers in lower case, and body; ``_`` in a header's name stands for ``-``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path, data, named)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, told, answer.read()
        finally:
            connection.close()

    def document(self, after: int = 0) -> Any:  # noqa: ANN401 (a JSON document)
        status, _, body = self.ask(f"/api/studies/{self.study._study_id}?after={after}")
        assert status == 200
        return json.loads(body, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@contextmanager
def serving(store: StudyStore, **options: Any) -> Iterator[Served]:  # noqa: ANN401
    study = store.open()
    app = application(store, study, **options)
    with make_server("127.0.0.1", 0, app, _Server, _Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield Served(store, study, server.server_port)
        finally:
            server.shutdown()
            thread.join(10)


@pytest.fixture(params=["journal", "sqlite"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    """A study of 12 trials for readers, on each kind of storage."""
    database = f"sqlite:///{tmp_path / 'studies.db'}"
    storage = database if request.param == "sqlite" else None
    with serving(made(tmp_path, storage=storage)) as running:
        yield running


@pytest.fixture
def writable(tmp_path: Path) -> Iterator[Served]:
    with serving(made(tmp_path, 4), writable=True) as running:
        yield running


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
