"""TCP ports of this machine: find a free one, and see whether somebody listens on one."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from contextlib import closing
from urllib.parse import urlsplit

from autotune.errors import LaunchError

LOCAL_HOST = "127.0.0.1"

# Below Linux's ephemeral range (32768 and up): SGLang binds its port only after the whole model
# load, and a port of that range may have become some outgoing connection's own by then.
_FIRST, _LAST = 20000, 32000
_TRIES = 200


def free_port(host: str = LOCAL_HOST, *, is_free: Callable[[int], bool] | None = None) -> int:
    """A port that can be bound now; nothing holds it until the server binds it.

    Ports are drawn at random, so that the next trial gets another one: a server restarted on the
    port of one that was killed hangs after some requests (SGLang #22779).

    Args:
        is_free: tells it of another machine; None: whether it can be bound on ``host``.

    Raises:
        LaunchError: no port could be bound; most likely ``host`` is no address of this machine.
    """
    # Not seeded: two studies on one machine must not draw the same ports.
    draw = random.SystemRandom()
    for _ in range(_TRIES):
        port = draw.randint(_FIRST, _LAST)
        if can_bind(port, host) if is_free is None else is_free(port):
            return port
    raise LaunchError(
        f"no port from {_FIRST} to {_LAST} can be bound on {host}",
        hint="give --host an address of this machine",
    )


def can_bind(port: int, host: str = LOCAL_HOST) -> bool:
    """True where a server could listen on the port: nobody else listens there.

    Connections of an earlier server that linger in TIME_WAIT do not count, as for uvicorn.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def port_of(url: str) -> int:
    """The port of a base address, its scheme's own where it names none."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def is_local(url: str) -> bool:
    """Whether a base address is one of this machine's loopback."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def is_listening(port: int, host: str = LOCAL_HOST, *, timeout_s: float = 0.5) -> bool:
    """True where a TCP connection is accepted; it is closed again at once, without a byte sent."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False
