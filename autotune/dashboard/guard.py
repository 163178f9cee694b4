"""Who may ask the dashboard for what: a WSGI layer in front of everything else.

The real dashboard (optuna-dashboard 0.21) has no login, lets anyone who reaches it delete a study,
answers to any ``Host`` and lets any web site read artifacts. Here only readers get through, unless
writing is allowed; a page of another site neither reads (a name rebound to this address has a
foreign ``Host``) nor writes (its requests carry a foreign ``Origin``).
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

READING = ("GET", "HEAD")
_MOST_DRAINED = 1 << 20
_OWN_SITE = ("same-origin", "none")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(host: str, more: Iterable[str] = ()) -> frozenset[str]:
    """Names under which a server bound to ``host`` is asked for; addresses need no name.

    Args:
        more: further names, as of a proxy in front of it.
    """
    names = {"localhost", host, *more}
    if not is_loopback(host):
        names |= {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower().rstrip(".") for name in names)


def hostname(authority: str) -> str:
    """``example.com`` of ``Example.com.:8080``; of an IPv6 address without its brackets."""
    try:
        found = urlsplit(f"//{authority}").hostname
    except ValueError:
        return ""
    return (found or "").rstrip(".")


@dataclass(frozen=True, slots=True)
class Guard:
    """Refuses in one sentence what must not reach the application.

    Attributes:
        names: host names it answers to, lower case; IP addresses are always answered: no name can
            be rebound to turn into one.
        writable: whether the dashboard may change the study.
    """

    app: WSGIApplication
    names: frozenset[str] = field(default_factory=lambda: names_of("localhost"))
    writable: bool = False

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        refusal = self._refusal(environ)
        if refusal is not None:
            _drain(environ)
            return _refused(*refusal, start_response)
        is_artifact = environ.get("PATH_INFO", "").startswith("/artifacts/")
        return self.app(environ, _with_headers(start_response, sandboxed=is_artifact))

    def _refusal(self, environ: WSGIEnvironment) -> tuple[str, str] | None:
        host = hostname(environ.get("HTTP_HOST", ""))
        if not self._answers_to(host):
            known = ", ".join(sorted(self.names))
            return "403 Forbidden", (
                f"this dashboard does not answer to the name {host!r}, only to addresses and "
                f"{known}; --allow-host adds a name"
            )
        if environ["REQUEST_METHOD"] in READING:
            return None
        if not self.writable:
            return "405 Method Not Allowed", (
                "this dashboard is read-only: start it with --writable to change the study"
            )
        if not _is_from_here(environ):
            return "403 Forbidden", "a page of another site must not change the study"
        return None

    def _answers_to(self, host: str) -> bool:
        if host in self.names:
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def _is_from_here(environ: WSGIEnvironment) -> bool:
    """Whether a page of this server, or no page at all, sent a request that writes.

    A browser names the page's origin, or cannot send JSON without asking this server first.
    """
    origin = environ.get("HTTP_ORIGIN")
    if environ.get("HTTP_SEC_FETCH_SITE", "none") not in _OWN_SITE:
        return False
    if origin is not None:
        return bool(urlsplit(origin).netloc == environ.get("HTTP_HOST"))
    kind: str = environ.get("CONTENT_TYPE", "")
    return kind.partition(";")[0].strip().lower() == "application/json"


def _drain(environ: WSGIEnvironment) -> None:
    """Reads what was sent: a connection closed on unread bytes loses the answer on its way."""
    length = environ.get("CONTENT_LENGTH") or "0"
    if length.isdecimal():
        environ["wsgi.input"].read(min(int(length), _MOST_DRAINED))


def _refused(status: str, reason: str, start_response: StartResponse) -> list[bytes]:
    body = json.dumps({"reason": reason}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if status.startswith("405"):
        headers.append(("Allow", ", ".join(READING)))
    start_response(status, headers)
    return [body]


def _with_headers(start_response: StartResponse, *, sandboxed: bool) -> StartResponse:
    """No foreign page reads or frames an answer; an artifact runs no script of this origin."""

    def start(status: str, headers: list[tuple[str, str]], *rest: object) -> Callable[..., object]:
        kept = [(n, v) for n, v in headers if n.lower() != "access-control-allow-origin"]
        kept += [("X-Frame-Options", "SAMEORIGIN"), ("X-Content-Type-Options", "nosniff")]
        if sandboxed:
            kept.append(("Content-Security-Policy", "sandbox"))
        return start_response(status, kept, *rest)  # type: ignore[arg-type]

    return start
