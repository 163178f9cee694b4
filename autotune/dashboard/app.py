"""Serves the real Optuna dashboard on one study, corrected, guarded, and for readers by default."""

from __future__ import annotations

import errno
import ipaddress
import socket
import socketserver
import warnings
import wsgiref.simple_server
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import optuna
import optuna_dashboard
from optuna.artifacts import FileSystemArtifactStore

from autotune.dashboard.corrected import Corrected
from autotune.dashboard.guard import Guard, is_loopback, names_of
from autotune.dashboard.story import Storyteller
from autotune.errors import UsageError
from autotune.study.artifacts import FOLDER
from autotune.study.store import StudyStore

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

HOST = "127.0.0.1"
_SILENT_S = 60.0


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    timeout = _SILENT_S  # a client that sends nothing holds no thread for longer

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the page shows what there is to see."""

    def address_string(self) -> str:
        return str(self.client_address[0])


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self) -> None:
        """Without the look-up of its own name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away is no error."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


def application(
    store: StudyStore,
    study: optuna.Study,
    *,
    host: str = HOST,
    allow: Iterable[str] = (),
    writable: bool = False,
) -> WSGIApplication:
    """The dashboard on a study as a WSGI application.

    Args:
        host: that it will be bound to.
        allow: further names it answers to.
        writable: whether it may change the study.
    """
    artifacts = FileSystemArtifactStore(store.directory / FOLDER)
    real = optuna_dashboard.wsgi(study._storage, artifact_store=artifacts)
    told = Corrected(real, Storyteller(store, study), writable)
    return Guard(told, names_of(host, allow), writable)


def serve(
    store: StudyStore,
    port: int,
    announce: Callable[[str], None],
    *,
    host: str = HOST,
    allow: Iterable[str] = (),
    writable: bool = False,
) -> None:
    """Serves until interrupted. ``announce`` gets the address once it answers; port 0 picks one.

    Raises:
        StudyError: the storage cannot be read.
        UsageError: the host or port cannot be used.
    """
    # The page asks for importances from the third trial on, whatever they are worth by then.
    warnings.filterwarnings("ignore", message="Some regimes for parameter")
    study = store.open()
    app = application(store, study, host=host, allow=allow, writable=writable)
    kind = _ServerV6 if ":" in host else _Server
    try:
        server = wsgiref.simple_server.make_server(host, port, app, kind, _Quiet)
    except OSError as error:
        what, instead = (
            (f"host {host!r}", "--host") if _is_about_host(error) else (f"port {port}", "--port")
        )
        raise UsageError(
            f"{what} cannot be used: {error.strerror}", hint=f"choose another with {instead}"
        ) from None
    with server:
        announce(
            f"http://{_seen_at(host)}:{server.server_port}/dashboard/studies/{study._study_id}"
        )
        server.serve_forever()


def _is_about_host(error: OSError) -> bool:
    """No such name, or no address of this machine."""
    return isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL


def _seen_at(host: str) -> str:
    """The host of an address that works here: every address means this machine too."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        return HOST if address.version == 4 else "[::1]"
    return f"[{host}]" if address.version == 6 else host


def is_open_to_others(host: str) -> bool:
    """Whether other machines may reach a server bound to it."""
    return not is_loopback(host)
