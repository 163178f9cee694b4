"""Serves the real Optuna dashboard on one storage, bound to this machine."""

from __future__ import annotations

import socketserver
import wsgiref.simple_server
from collections.abc import Callable

import optuna_dashboard

from autotune.errors import UsageError
from autotune.study.store import StudyStore

HOST = "127.0.0.1"


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the page shows what there is to see."""


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    allow_reuse_address = True


def serve(store: StudyStore, port: int, announce: Callable[[str], None]) -> None:
    """Serves until interrupted. ``announce`` gets the address once it answers; port 0 picks one.

    Raises:
        StudyError: the storage cannot be read.
        UsageError: the port is taken.
    """
    study = store.open()
    app = optuna_dashboard.wsgi(study._storage)
    try:
        server = wsgiref.simple_server.make_server(HOST, port, app, _Server, _Quiet)
    except OSError as error:
        raise UsageError(
            f"port {port} cannot be used: {error.strerror}", hint="choose another with --port"
        ) from None
    with server:
        announce(f"http://{HOST}:{server.server_port}/dashboard/studies/{study._study_id}")
        server.serve_forever()
