"""Environment variables of a server that change what a measurement means."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import psutil

FAKES_ACCEPTANCE = "SGLANG_SIMULATE_ACC_LEN"
"""Makes SGLang accept as many draft tokens as it says, whatever the models think."""
EFFECTIVE_FAKE = "simulate_acc_len"
"""Its name among the effective settings of a record."""


def faked_accept_length(environment: Mapping[str, str]) -> str | None:
    """The accept length the server is told to fake; None where it accepts really."""
    value = environment.get(FAKES_ACCEPTANCE, "").strip()
    return value if value and not value.startswith("-") else None  # SGLang's own "off" is -1


def fake_to_come(assigned: str | None, environment: Mapping[str, str]) -> str | None:
    """The same of a server that is yet to start: what its command assigns counts first."""
    given = {} if assigned is None else {FAKES_ACCEPTANCE: assigned}
    return faked_accept_length({**environment, **given})


def environment_at(port: int) -> dict[str, str]:
    """Environment of the process of this machine that listens on ``port``.

    Empty where there is none, or it is another user's.
    """
    with suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            address = connection.laddr
            is_listener = connection.status == psutil.CONN_LISTEN and connection.pid
            if is_listener and address and address.port == port:
                return dict(psutil.Process(connection.pid).environ())
    return {}


def fakes(port: int) -> dict[str, str]:
    """What the listener on ``port`` fakes, as an effective setting; empty where nothing."""
    return fakes_in(environment_at(port))


def fakes_in(environment: Mapping[str, str]) -> dict[str, str]:
    """What a server with this environment fakes; see ``fakes``."""
    value = faked_accept_length(environment)
    return {} if value is None else {EFFECTIVE_FAKE: value}
