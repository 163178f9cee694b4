from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from autotune.engine.attached import AttachedServer, served_model
from autotune.engine.base import RunningServer
from autotune.errors import LaunchError

MODELS = {"data": [{"id": "org/model"}]}
INFO = {"version": "0.5.23", "internal_states": [{"effective_max_running_requests_per_dp": 14}]}


@contextmanager
def serving(documents: dict[str, Any], key: str | None = None) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = key is None or self.headers.get("Authorization") == f"Bearer {key}"
            found = documents.get(self.path)
            body = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(401 if not allowed else 404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_a_running_server_is_read_and_left_alone() -> None:
    with serving({"/v1/models": MODELS, "/server_info": INFO}) as url:
        server = AttachedServer(url + "/")
        assert isinstance(server, RunningServer)
        assert server.url == url
        assert server.effective["max_running_requests"] == 14
        assert server.versions == {"sglang": "0.5.23"}
        assert (server.time_scale, server.launch_s, server.machine) == (1.0, 0.0, {})
        with server:
            assert server.failure() is None
        assert server.stop() == 0.0
        assert served_model(url, None) == "org/model"


def test_a_simulated_server_brings_its_own_clock() -> None:
    info = INFO | {"simulation": {"speed": 25.0}}
    with serving({"/v1/models": MODELS, "/server_info": info}) as url:
        server = AttachedServer(url)
        assert server.time_scale == 25.0 and server.machine == {"simulated": True}


def test_a_key_is_sent() -> None:
    with serving({"/v1/models": MODELS}, key="k3y") as url:
        AttachedServer(url, api_key="k3y")
        with pytest.raises(LaunchError) as caught:
            AttachedServer(url)
        assert "AUTOTUNE_API_KEY" in caught.value.hint


def test_any_server_that_speaks_openai_can_be_measured() -> None:
    with serving({"/v1/models": MODELS}) as url:
        server = AttachedServer(url)
        assert server.versions == {} and server.time_scale == 1.0


@pytest.mark.parametrize("answer", [b"", b"<html>", b"[]", b'"text"', b"{}", b'{"data": 7}'])
def test_odd_answers_give_no_name(answer: bytes) -> None:
    with serving({"/v1/models": answer}) as url:
        assert served_model(url, None) == "default"


@pytest.mark.parametrize("simulation", ["yes", 7, [], {"speed": "fast"}, {"speed": None}])
def test_an_odd_simulation_entry_is_no_simulation(simulation: object) -> None:
    info = INFO | {"simulation": simulation}
    with serving({"/v1/models": MODELS, "/server_info": info}) as url:
        assert AttachedServer(url).time_scale == 1.0


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense", "", "ftp://x", "http://[::"])
def test_nothing_there_is_told(url: str) -> None:
    with pytest.raises(LaunchError, match="no server answers"):
        AttachedServer(url)
